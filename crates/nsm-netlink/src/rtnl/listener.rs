//! A socket that hears, and sends nothing.

use super::socket::{grow, in_this_namespace, receive};
use super::wire::{Message, Messages};
use crate::{KernelError, Namespace, Netns};
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use std::os::fd::{AsRawFd, RawFd};

/// Room for some thousand notifications: what comes while nobody drains is lost beyond it.
const RECEIVE_BUFFER: usize = 8 * 1024 * 1024;

/// A socket that hears groups of notifications and never waits for one.
#[derive(Debug)]
pub(super) struct Listener {
    socket: netlink_sys::Socket,
    buffer: Vec<u8>,
}

impl Listener {
    pub(super) fn new(netns: &Netns, groups: &[u32]) -> Result<Self, KernelError> {
        let listen = |mut socket: netlink_sys::Socket| {
            socket.set_non_blocking(true)?;
            grow(&socket, RcvBuf, RcvBufForce, RECEIVE_BUFFER)?;
            socket.bind_auto()?;
            groups
                .iter()
                .try_for_each(|group| socket.add_membership(*group))?;
            Ok(Self {
                socket,
                buffer: Vec::new(),
            })
        };
        let socket = netns.enter(in_this_namespace);
        socket
            .and_then(|socket| listen(socket?))
            .map_err(|source| KernelError::Open {
                netns: netns.id(),
                source,
            })
    }

    /// Reads all that has come.
    pub(super) fn drain(
        &mut self,
        mut read: impl FnMut(&Message<'_>) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        while self.next(&mut read)? {}
        Ok(())
    }

    /// Reads what the kernel has sent at once, mostly one message. Whether there was something.
    pub(super) fn next(
        &mut self,
        mut read: impl FnMut(&Message<'_>) -> Result<(), KernelError>,
    ) -> Result<bool, KernelError> {
        match receive(&self.socket, &mut self.buffer) {
            Ok(()) => {
                for message in Messages(&self.buffer) {
                    read(&message?)?;
                }
                Ok(true)
            }
            // The socket does not block. Nor does it keep room while nothing comes.
            Err(KernelError::TimedOut) => {
                self.buffer = Vec::new();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
