//! Observation while steps run.

use super::{At, Engine, Played};
use crate::answer::check_answer;
use crate::model::{Events, Lookup, Place, Watch};
use crate::picture::{Ours, Picture};
use crate::print;
use crate::problem::Problem;
use crate::report::Failure;
use crate::world::{Asker, Pod};
use ipnet::{IpNet, Ipv6Net};
use nsm_netlink::{Action, Change, Event, Family, Link, Object, Part, Rule};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

impl<'s, P: Pod> Engine<'s, P> {
    /// Runs steps and looks meanwhile.
    pub(super) async fn watch(
        &self,
        watch: &'s Watch,
        at: &At<'s>,
        place: Place,
    ) -> Result<(), Failure> {
        let fail = |problems| self.failure(at, place, problems);
        let pod = self.pods.get(at.pod).map_err(fail)?;
        let links = pod.picture().map_err(fail)?.links;
        let mut listener = pod.listen().map_err(fail)?;
        let poll = match watch.throughout.as_slice() {
            [] => None,
            lookups => Some(Poll::start(pod.asker().map_err(fail)?, lookups.to_vec())),
        };
        let played = self.steps(&watch.steps, at.clone()).await;
        let mut problems: Vec<Problem> = poll.map(Poll::stop).unwrap_or_default();
        played?;
        if let Some(events) = watch.events {
            match listener.heard() {
                Ok(heard) => {
                    let links = pod.picture().map_err(fail)?.links.into_iter().chain(links);
                    let count = Count::of(&heard, &self.ours_of_all(), links.collect());
                    problems.extend(count.check(events));
                }
                Err(error) => problems.extend(super::trouble(error)),
            }
        }
        let played: Played = if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        };
        played.map_err(fail)
    }
}

/// Asks the kernel over and over, on a thread of its own, until it is stopped.
struct Poll {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Problem>>,
}

impl Poll {
    fn start(mut ask: Asker, lookups: Vec<Lookup>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (begun, begins) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let mut round = 0_usize;
            loop {
                // Read first: the last round begins after the last step.
                let last = stopped.load(Ordering::Acquire);
                for lookup in &lookups {
                    if let Some(mut problem) = check_answer(lookup, &ask(lookup)) {
                        problem.what = format!("{} (look {})", problem.what, round + 1);
                        return vec![problem];
                    }
                }
                // The steps begin when the first round has been asked.
                let _ = begun.send(());
                round += 1;
                if last {
                    return Vec::new();
                }
            }
        });
        let _ = begins.recv();
        Self { stop, thread }
    }

    fn stop(self) -> Vec<Problem> {
        self.stop.store(true, Ordering::Release);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Notifications about objects that are ours.
#[derive(Debug, Default)]
struct Count {
    rules: Vec<String>,
    routes: Vec<String>,
    deleted: usize,
    probes: usize,
}

impl Count {
    fn of(events: &[Event], ours: &Ours, links: Vec<Link>) -> Self {
        let names = Picture {
            links,
            ..Picture::default()
        };
        let mut count = Self::default();
        // The legs of a multipath route come in one notification.
        let mut counted_legs = false;
        for event in events {
            match &event.object {
                Object::Rule(rule) if is_probe(rule, ours) => {
                    count.probes += usize::from(event.change == Change::Added);
                }
                Object::Rule(rule) if ours.rule(rule) => {
                    count.deleted += usize::from(event.change == Change::Removed);
                    count.rules.push(line(event.change, print::rule(rule)));
                }
                Object::Rule(_) => {}
                Object::Route(route) => {
                    counted_legs &= route.part == Part::Further;
                    if !counted_legs && ours.route(&names, route) {
                        counted_legs = true;
                        count.deleted += usize::from(event.change == Change::Removed);
                        count
                            .routes
                            .push(line(event.change, print::route(&names, route)));
                    }
                }
            }
        }
        count
    }

    fn check(&self, expected: Events) -> Vec<Problem> {
        let all = self.rules.len() + self.routes.len();
        let figures = [
            ("", expected.all, all),
            ("of rules ", expected.rules, self.rules.len()),
            ("of routes ", expected.routes, self.routes.len()),
            ("of deletions ", expected.deleted, self.deleted),
            ("of IPv6 probes ", expected.probes, self.probes),
        ];
        let wrong = figures
            .into_iter()
            .filter_map(|(of_what, expected, found)| {
                let expected = expected.filter(|expected| *expected != found)?;
                Some(format!(
                    "{expected} notifications {of_what}expected, {found} heard"
                ))
            });
        let lines: Vec<String> = self.rules.iter().chain(&self.routes).cloned().collect();
        wrong
            .map(|what| Problem::with_lines(what, lines.clone()))
            .collect()
    }
}

/// A rule of ours that selects nothing and is gone at once: it makes IPv6 sockets look again.
fn is_probe(rule: &Rule, ours: &Ours) -> bool {
    let discard = Ipv6Net::new_assert(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64);
    rule.action == Action::Nop
        && rule.family() == Family::V6
        && rule.selector.from == Some(IpNet::V6(discard))
        && ours
            .owners
            .iter()
            .any(|owner| owner.protocol.get() == rule.protocol)
}

/// As `ip monitor` prints it.
fn line(change: Change, object: String) -> String {
    match change {
        Change::Added => object,
        Change::Removed => format!("Deleted {object}"),
    }
}
