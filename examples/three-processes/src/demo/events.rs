//! What the kernel tells of rules in the pod, counted as it comes.

use super::state::PROTOCOL;
use nsm_netlink::{Action, Event, Family, KernelError, Monitor, Netns, Object};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long notifications lie about: routes are told of too, and the buffer of an ordinary user
/// holds some hundred.
const INTERVAL: Duration = Duration::from_millis(1);

/// Counts the rules that come and go.
#[derive(Debug)]
pub struct RuleEvents {
    end: Sender<()>,
    thread: JoinHandle<Result<u64, KernelError>>,
}

impl RuleEvents {
    /// Begins to count.
    pub fn count(pod: &Netns) -> Result<Self, Box<dyn std::error::Error>> {
        let mut monitor = Monitor::new(pod)?;
        let (end, ended) = channel();
        let thread = thread::Builder::new().name("events".to_owned());
        let thread = thread.spawn(move || count(&mut monitor, &ended))?;
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

fn count(monitor: &mut Monitor, ended: &Receiver<()>) -> Result<u64, KernelError> {
    let mut count = 0;
    loop {
        let last = ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Disconnected);
        count += monitor
            .drain()?
            .iter()
            .filter(|event| is_of_a_rule(event))
            .count() as u64;
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
}
