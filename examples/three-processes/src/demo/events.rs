//! What the kernel tells of a namespace, counted as it comes.

use super::state::PROTOCOL;
use nsm_netlink::{Action, Event, Family, InterfaceMonitor, InterfaceSubject, KernelError};
use nsm_netlink::{Monitor, Netns, Object};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long notifications lie about: routes are told of too, and the buffer of an ordinary user
/// holds some hundred.
const INTERVAL: Duration = Duration::from_millis(1);
/// `RTPROT_KERNEL`: of the routes that come with addresses and interfaces.
const BY_THE_KERNEL: u8 = 2;

/// Counts what comes and goes.
#[derive(Debug)]
pub struct Events {
    end: Sender<()>,
    thread: JoinHandle<Result<u64, KernelError>>,
}

impl Events {
    /// Begins to count the rules that come and go.
    pub fn of_rules(netns: &Netns) -> Result<Self, Box<dyn std::error::Error>> {
        let mut monitor = Monitor::new(netns)?;
        Self::count(move || {
            let events = monitor.drain()?;
            Ok(events.iter().filter(|event| is_of_a_rule(event)).count())
        })
    }

    /// Begins to count all that somebody does: rules, routes, interfaces and addresses that come,
    /// go or are changed. What the kernel does by itself is none of it.
    pub fn of_all(netns: &Netns) -> Result<Self, Box<dyn std::error::Error>> {
        let mut monitor = Monitor::new(netns)?;
        let mut interfaces = InterfaceMonitor::new(netns)?;
        Self::count(move || {
            let (events, others) = (monitor.drain()?, interfaces.drain()?);
            let events = events
                .iter()
                .filter(|it| is_of_a_rule(it) || is_of_a_route(it));
            let others = others.iter().filter(|it| is_of_an_interface(&it.subject));
            Ok(events.count() + others.count())
        })
    }

    fn count(
        drain: impl FnMut() -> Result<usize, KernelError> + Send + 'static,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let (end, ended) = channel();
        let thread = thread::Builder::new().name("events".to_owned());
        let thread = thread.spawn(move || count(drain, &ended))?;
        Ok(Self { end, thread })
    }

    /// Tells how many there were.
    pub fn finish(self) -> Result<u64, KernelError> {
        drop(self.end);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn count(
    mut drain: impl FnMut() -> Result<usize, KernelError>,
    ended: &Receiver<()>,
) -> Result<u64, KernelError> {
    let mut count = 0;
    loop {
        let last = ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Disconnected);
        count += drain()? as u64;
        if last {
            return Ok(count);
        }
    }
}

/// Whether a rule came or went. The middleware's probe is none: it makes IPv6 sockets look again,
/// selects nothing, and goes in the same message in which it comes.
fn is_of_a_rule(event: &Event) -> bool {
    let Object::Rule(rule) = &event.object else {
        return false;
    };
    (rule.family(), rule.action, rule.protocol) != (Family::V6, Action::Nop, PROTOCOL)
}

/// Whether a route came or went that somebody wrote.
fn is_of_a_route(event: &Event) -> bool {
    matches!(&event.object, Object::Route(route) if route.protocol != BY_THE_KERNEL)
}

/// Whether it is of an interface or of an address that somebody gave it. Neighbours are found, and
/// link-local addresses made, by the kernel.
fn is_of_an_interface(subject: &InterfaceSubject) -> bool {
    match subject {
        InterfaceSubject::Interface(_) => true,
        InterfaceSubject::Address(address) => address.global,
        InterfaceSubject::Neighbour(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_netlink::{Change, Route, Rule, Selector};

    fn event(object: Object) -> Event {
        Event {
            change: Change::Added,
            object,
        }
    }

    #[test]
    fn rules_count_and_neither_routes_nor_the_probe_do() {
        let rule = Rule::lookup(30017, Selector::any(Family::V6), 20000, PROTOCOL);
        let probe = Rule {
            action: Action::Nop,
            table: 0,
            ..rule.clone()
        };
        let route = Route::unicast(20000, Family::V6.default_prefix(), 2, None, PROTOCOL);
        let foreign = Rule {
            protocol: 0,
            ..probe.clone()
        };

        assert!(is_of_a_rule(&event(Object::Rule(rule))));
        assert!(is_of_a_rule(&event(Object::Rule(foreign))));
        assert!(!is_of_a_rule(&event(Object::Rule(probe))));
        assert!(!is_of_a_rule(&event(Object::Route(route))));
    }

    #[test]
    fn routes_count_that_the_kernel_has_not_made() {
        for (protocol, counts) in [(PROTOCOL, true), (4, true), (BY_THE_KERNEL, false)] {
            let prefix = Family::V4.default_prefix();
            let route = Route::unicast(254, prefix, 2, None, protocol);
            assert_eq!(is_of_a_route(&event(Object::Route(route))), counts);
        }
    }
}
