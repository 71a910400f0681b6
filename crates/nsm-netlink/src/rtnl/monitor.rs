//! What the kernel tells of itself: multicast of rules and routes.

use super::socket::{grow, in_this_namespace, receive};
use super::wire::{Message, Messages};
use super::{route, rule};
use crate::{Change, Event, Family, KernelError, Namespace, Netns, Object};
use nix::libc;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};

/// The groups of rules and routes of both families.
const GROUPS: [u32; 4] = [
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_RULE,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
];
/// Room for some thousand notifications: what comes while nobody drains is lost beyond it.
const RECEIVE_BUFFER: usize = 8 * 1024 * 1024;

/// Hears of every rule and route of a namespace that comes or goes, from when it was made.
///
/// It sends nothing: a notification carries the number of the request that caused it, whoever sent
/// that, so that on a socket that also asks it could be taken for an answer.
#[derive(Debug)]
pub struct Monitor(Listener);

impl Monitor {
    /// Listens in a namespace.
    ///
    /// # Errors
    /// [`KernelError::Open`] when the namespace cannot be entered or gives no socket.
    pub fn new(netns: &Netns) -> Result<Self, KernelError> {
        Listener::new(netns, &GROUPS).map(Self)
    }

    /// What happened since the last call, oldest first. It does not wait.
    ///
    /// # Errors
    /// [`KernelError::AnswersLost`] when notifications came faster than they were drained: some are
    /// missing, and what the call had read so far is gone. The monitor can be used further.
    pub fn drain(&mut self) -> Result<Vec<Event>, KernelError> {
        let mut events = Vec::new();
        self.0.drain(|message| read(message, &mut events))?;
        Ok(events)
    }
}

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

    pub(super) fn drain(
        &mut self,
        mut read: impl FnMut(&Message<'_>) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        loop {
            match receive(&self.socket, &mut self.buffer) {
                Ok(()) => {
                    for message in Messages(&self.buffer) {
                        read(&message?)?;
                    }
                }
                // The socket does not block.
                Err(KernelError::TimedOut) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

fn read(message: &Message<'_>, events: &mut Vec<Event>) -> Result<(), KernelError> {
    let change = match message.kind {
        libc::RTM_NEWRULE | libc::RTM_NEWROUTE => Change::Added,
        libc::RTM_DELRULE | libc::RTM_DELROUTE => Change::Removed,
        _ => return Ok(()),
    };
    for family in Family::ALL {
        let mut event = |object| events.push(Event { change, object });
        if matches!(message.kind, libc::RTM_NEWRULE | libc::RTM_DELRULE) {
            rule::decode(message.payload, family)?
                .map(Object::Rule)
                .map(&mut event);
        } else {
            let mut routes = Vec::new();
            route::decode(message.payload, family, &(0..=u32::MAX), &mut routes)?;
            routes.into_iter().map(Object::Route).for_each(&mut event);
        }
    }
    Ok(())
}
