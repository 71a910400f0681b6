//! What the kernel tells of interfaces: multicast of links, addresses and neighbours.

use super::listener::Listener;
use super::wire::Message;
use super::{address, interface, neighbour};
use crate::{Change, Interface, InterfaceAddress, KernelError, Neighbour, Netns};
use nix::libc;

const GROUPS: [u32; 4] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_NEIGH,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
];

/// Hears of every interface, address and neighbour of a namespace that comes, goes or is changed,
/// from when it was made.
///
/// The kernel tells of what it does by itself, too: a carrier, a link-local address that is found
/// to be unique, a neighbour that answers.
#[derive(Debug)]
pub struct InterfaceMonitor(Listener);

/// One notification about an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceEvent {
    /// Whether it came or went. What is changed comes again.
    pub change: Change,
    /// What came or went.
    pub subject: InterfaceSubject,
}

/// What a notification is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceSubject {
    /// An interface.
    Interface(Interface),
    /// An address.
    Address(InterfaceAddress),
    /// A neighbour.
    Neighbour(Neighbour),
}

impl InterfaceMonitor {
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
    /// [`KernelError::AnswersLost`] when notifications came faster than they were drained. The
    /// monitor can be used further.
    pub fn drain(&mut self) -> Result<Vec<InterfaceEvent>, KernelError> {
        let mut events = Vec::new();
        self.0.drain(|message| {
            events.extend(read(message)?);
            Ok(())
        })?;
        Ok(events)
    }
}

fn read(message: &Message<'_>) -> Result<Option<InterfaceEvent>, KernelError> {
    let payload = message.payload;
    let (change, subject) = match message.kind {
        libc::RTM_NEWLINK => (Change::Added, link(payload)?),
        libc::RTM_DELLINK => (Change::Removed, link(payload)?),
        libc::RTM_NEWADDR => (Change::Added, address(payload)?),
        libc::RTM_DELADDR => (Change::Removed, address(payload)?),
        libc::RTM_NEWNEIGH => (Change::Added, neighbour(payload)?),
        libc::RTM_DELNEIGH => (Change::Removed, neighbour(payload)?),
        _ => return Ok(None),
    };
    Ok(subject.map(|subject| InterfaceEvent { change, subject }))
}

fn link(payload: &[u8]) -> Result<Option<InterfaceSubject>, KernelError> {
    // What a bridge or the wireless tell in the same group comes without a name.
    let Ok(interface) = interface::decode(payload) else {
        return Ok(None);
    };
    Ok(Some(InterfaceSubject::Interface(interface)))
}

fn address(payload: &[u8]) -> Result<Option<InterfaceSubject>, KernelError> {
    Ok(address::decode(payload)?.map(InterfaceSubject::Address))
}

fn neighbour(payload: &[u8]) -> Result<Option<InterfaceSubject>, KernelError> {
    Ok(neighbour::decode(payload)?.map(InterfaceSubject::Neighbour))
}
