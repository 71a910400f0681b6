//! What concerns routing, in one socket that can be waited for.

use super::listener::Listener;
use super::monitor::{routes, rules};
use super::wire::Message;
use super::{address, link};
use crate::{Change, KernelError, Namespace, Netns, Notification, Notifications, Subject};
use nix::libc;
use std::io;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

const GROUPS: [u32; 7] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_RULE,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
];
/// How many reads are made before the task lets others work.
const BATCH: usize = 256;
/// How many reads are made by whoever wants all. Who has not come to the end then never does.
const ALL: usize = 1 << 16;

/// The [`Notifications`] of a [`Netns`].
#[derive(Debug)]
pub struct RtnlNotifications(AsyncFd<Listener>);

impl RtnlNotifications {
    pub(crate) fn new(netns: &Netns) -> Result<Self, KernelError> {
        let listener = Listener::new(netns, &GROUPS)?;
        let waiting = match Handle::try_current() {
            Ok(_) => waiting(listener),
            Err(error) => Err(io::Error::other(error)),
        };
        waiting.map(Self).map_err(|source| KernelError::Open {
            netns: netns.id(),
            source,
        })
    }
}

#[allow(unsafe_code)]
fn waiting(listener: Listener) -> io::Result<AsyncFd<Listener>> {
    // SAFETY: a listener owns its socket, which is open and the same as long as it lives.
    let waiting = unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE) };
    waiting.map_err(Into::into)
}

impl Notifications for RtnlNotifications {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Notification>, KernelError>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready_mut(cx)).map_err(KernelError::Receive)?;
            let (heard, is_all) = read(ready.get_inner_mut(), BATCH)?;
            if is_all {
                ready.clear_ready();
            }
            if !heard.is_empty() {
                return Poll::Ready(Ok(heard));
            }
        }
    }

    fn drain(&mut self) -> Result<Vec<Notification>, KernelError> {
        match read(self.0.get_mut(), ALL)? {
            (heard, true) => Ok(heard),
            (_, false) => Err(KernelError::AnswersLost),
        }
    }
}

/// Reads up to so many times, and tells whether there is no more.
fn read(listener: &mut Listener, times: usize) -> Result<(Vec<Notification>, bool), KernelError> {
    let mut heard = Vec::new();
    for _ in 0..times {
        if !listener.next(|message| decode(message, &mut heard))? {
            return Ok((heard, true));
        }
    }
    Ok((heard, false))
}

fn decode(message: &Message<'_>, heard: &mut Vec<Notification>) -> Result<(), KernelError> {
    let change = match message.kind {
        libc::RTM_NEWRULE | libc::RTM_NEWROUTE | libc::RTM_NEWLINK | libc::RTM_NEWADDR => {
            Change::Added
        }
        libc::RTM_DELRULE | libc::RTM_DELROUTE | libc::RTM_DELLINK | libc::RTM_DELADDR => {
            Change::Removed
        }
        _ => return Ok(()),
    };
    let mut hear = |subject| {
        heard.push(Notification {
            port: message.port,
            change,
            subject,
        });
    };
    let payload = message.payload;
    match message.kind {
        libc::RTM_NEWRULE | libc::RTM_DELRULE => {
            rules(payload)?.map(Subject::Rule).for_each(hear);
        }
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
            let routes = routes(payload)?.into_iter();
            routes.map(Subject::Route).for_each(hear);
        }
        libc::RTM_NEWLINK | libc::RTM_DELLINK => {
            // What a bridge or the wireless tell in the same group comes without a name.
            link::decode(payload)
                .into_iter()
                .map(Subject::Link)
                .for_each(hear);
        }
        _ => {
            if let Some(address) = address::decode(payload)? {
                hear(Subject::Address(address.index));
            }
        }
    }
    Ok(())
}
