//! What the kernel tells of itself: multicast of rules and routes.

use super::listener::Listener;
use super::wire::{Malformed, Message};
use super::{route, rule};
use crate::{Change, Event, Family, KernelError, Netns, Object, Route, Rule};
use nix::libc;

/// The groups of rules and routes of both families.
const GROUPS: [u32; 4] = [
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_RULE,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
];

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

fn read(message: &Message<'_>, events: &mut Vec<Event>) -> Result<(), KernelError> {
    let change = match message.kind {
        libc::RTM_NEWRULE | libc::RTM_NEWROUTE => Change::Added,
        libc::RTM_DELRULE | libc::RTM_DELROUTE => Change::Removed,
        _ => return Ok(()),
    };
    let mut event = |object| events.push(Event { change, object });
    if matches!(message.kind, libc::RTM_NEWRULE | libc::RTM_DELRULE) {
        rules(message.payload)?
            .map(Object::Rule)
            .for_each(&mut event);
    } else {
        let routes = routes(message.payload)?.into_iter();
        routes.map(Object::Route).for_each(&mut event);
    }
    Ok(())
}

/// The rule that a notification is about, if it is of a family of ours.
pub(super) fn rules(payload: &[u8]) -> Result<impl Iterator<Item = Rule> + use<>, Malformed> {
    let [v4, v6] = Family::ALL.map(|family| rule::decode(payload, family));
    Ok(v4?.into_iter().chain(v6?))
}

/// The legs of the route that a notification is about, if it is of a family of ours.
pub(super) fn routes(payload: &[u8]) -> Result<Vec<Route>, Malformed> {
    let mut routes = Vec::new();
    for family in Family::ALL {
        route::decode(payload, family, &(0..=u32::MAX), &mut routes)?;
    }
    Ok(routes)
}
