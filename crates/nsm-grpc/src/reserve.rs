//! Descriptors that are kept back for the work on what stands.
//!
//! A process that runs out of descriptors by taking connections can do nothing any more for those
//! that it has taken: to refresh one needs descriptors, too. So a server holds some in reserve. As
//! long as it holds them it takes whoever comes. When it cannot, they are given up, the work has room
//! with them, and whoever comes is told why he is not served.

use std::os::fd::OwnedFd;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Descriptors that stand for others that may be needed: one file, however many they are.
#[derive(Debug)]
pub(super) struct Reserve {
    size: usize,
    held: Vec<OwnedFd>,
}

impl Reserve {
    pub(super) fn new(size: usize) -> Self {
        let held = Vec::with_capacity(size);
        Self { size, held }
    }

    /// Holds the whole reserve, or none of it. Tells which.
    pub(super) fn hold(&mut self) -> bool {
        while self.held.len() < self.size {
            match self.another() {
                Ok(another) => self.held.push(another),
                Err(_) => {
                    self.release();
                    return false;
                }
            }
        }
        true
    }

    /// Whether it is held.
    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Gives it up.
    pub(super) fn release(&mut self) {
        self.held.clear();
    }

    fn another(&self) -> Result<OwnedFd, Errno> {
        match self.held.first() {
            Some(first) => fcntl_dupfd_cloexec(first, 0),
            // A socket needs no file that might not be there.
            None => socket_with(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            ),
        }
    }
}
