//! When what others change is repaired: at once, but never faster than is good for anybody.
//!
//! Pure: it is told the time.

use crate::concern::{Verdict, Writer};
use nsm_netlink::Selector;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// How long changes are gathered: a table that is flushed is told route by route.
const GATHER: Duration = Duration::from_millis(5);
/// How many repairs of one namespace may come one after the other ...
const BURST: u32 = 20;
/// ... and how fast they go on then.
const INTERVAL: Duration = Duration::from_millis(500);
/// How many repairs of one policy within how long show that somebody fights it.
const FIGHT: usize = 6;
const WINDOW: Duration = Duration::from_secs(10);
/// How long a policy that is fought waits for its next repair: at first, and at last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// How long nobody may have touched it before it is repaired at once again.
const QUIET: Duration = Duration::from_secs(60);
/// How long it takes until a repair that failed is tried again: at first, and at last.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// The pace of the repairs in one namespace.
#[derive(Debug, Default)]
pub struct Pace {
    /// Since when something waits to be looked at.
    heard: Option<Instant>,
    /// Who has touched which policy since it was looked at last.
    touched: BTreeMap<Selector, Writer>,
    /// Policies that have been repaired after somebody has touched them.
    fights: BTreeMap<Selector, Fight>,
    /// When as many repairs as come in a burst are free again.
    spent: Option<Instant>,
    failures: u32,
    again: Option<Instant>,
    /// Before when nothing is looked at: the namespace could not be.
    not_before: Option<Instant>,
}

/// One policy that somebody else works on too.
#[derive(Debug, Default)]
struct Fight {
    /// The latest repairs.
    repairs: VecDeque<Instant>,
    /// How long it waits after a repair; not at all at first.
    pause: Duration,
    /// Whether something of it is to be repaired when the pause is over.
    waits: bool,
}

/// What a look at a namespace has come to.
#[derive(Debug, Default)]
pub struct Look {
    /// The policies that something was written for.
    pub repaired: BTreeSet<Selector>,
    /// Those that need it and had to wait.
    pub withheld: BTreeSet<Selector>,
    /// Whether one could not be repaired.
    pub failed: bool,
}

/// Policies that are fought from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fought {
    /// The first of them.
    pub selector: Selector,
    /// How many more there are.
    pub others: usize,
    /// Who fights the first.
    pub by: Writer,
}

impl Pace {
    /// Takes note of what has been heard.
    pub fn hear(&mut self, verdict: Verdict, now: Instant) {
        match verdict {
            Verdict::Foreign => {}
            Verdict::Look => self.look(now),
            Verdict::Touched { selectors, by } => {
                for selector in selectors {
                    match self.fights.get_mut(&selector) {
                        Some(fight) if fight.is_paused(now) => fight.waits = true,
                        _ => self.look(now),
                    }
                    let writer = self.touched.entry(selector).or_insert(by);
                    *writer = by.or(*writer);
                }
            }
        }
    }

    /// Takes note that something may have changed.
    pub fn look(&mut self, now: Instant) {
        self.heard.get_or_insert(now);
    }

    /// When the next repair is due, if any is.
    pub fn next(&self) -> Option<Instant> {
        let heard = self.heard.map(|at| at + GATHER);
        let waiting = self.fights.values().filter(|fight| fight.waits);
        let waiting = waiting.filter_map(Fight::paused_until);
        let due = heard.into_iter().chain(waiting).chain(self.again).min()?;
        let due = self.not_before.map_or(due, |bound| bound.max(due));
        let ahead = INTERVAL * (BURST - 1);
        Some(self.spent.map_or(due, |spent| {
            if spent < due + ahead {
                due
            } else {
                spent - ahead
            }
        }))
    }

    /// Takes note that a repair begins.
    pub fn begin(&mut self, now: Instant) {
        self.again = None;
        self.not_before = None;
        self.spent = Some(self.spent.map_or(now, |spent| spent.max(now)) + INTERVAL);
    }

    /// The policies that are not to be repaired now.
    pub fn paused(&self, now: Instant) -> BTreeSet<Selector> {
        let paused = self.fights.iter().filter(|(_, fight)| fight.is_paused(now));
        paused.map(|(selector, _)| selector.clone()).collect()
    }

    /// Takes note that the namespace has been looked at, after all that was heard. Tells who is to
    /// be warned of.
    pub fn done(&mut self, look: &Look, now: Instant) -> Option<Fought> {
        self.heard = None;
        self.fights.retain(|_, fight| !fight.is_over(now));
        let mut fought: Option<Fought> = None;
        for selector in &look.repaired {
            let Some(by) = self.touched.remove(selector) else {
                continue;
            };
            let fight = self.fights.entry(selector.clone()).or_default();
            if fight.begins_with(now) {
                let first = fought.get_or_insert_with(|| Fought {
                    selector: selector.clone(),
                    others: 0,
                    by,
                });
                first.others += usize::from(first.selector != *selector);
            }
        }
        self.touched.retain(|it, _| look.withheld.contains(it));
        for (selector, fight) in &mut self.fights {
            fight.waits = look.withheld.contains(selector);
        }
        self.not_before = None;
        if look.failed {
            // The other policies do not wait for those that could not be repaired.
            self.try_again(now);
        } else {
            self.failures = 0;
            self.again = None;
        }
        fought
    }

    /// Takes note that the namespace could not be looked at. Nothing is done there before it is
    /// tried again, and then everything is looked at.
    pub fn failed(&mut self, now: Instant) {
        self.heard = None;
        for fight in self.fights.values_mut() {
            fight.waits = false;
        }
        self.try_again(now);
        self.not_before = self.again;
    }

    fn try_again(&mut self, now: Instant) {
        let pause = FIRST_RETRY.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.again = Some(now + pause.min(LAST_RETRY));
    }
}

impl Fight {
    /// Takes note of a repair; whether it is the one that shows that this is a fight.
    fn begins_with(&mut self, now: Instant) -> bool {
        while self.repairs.front().is_some_and(|at| *at + WINDOW <= now) {
            self.repairs.pop_front();
        }
        self.repairs.push_back(now);
        let was_none = self.pause.is_zero();
        if self.repairs.len() >= FIGHT || !was_none {
            self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
            self.repairs.truncate(0);
            self.repairs.push_back(now);
        }
        was_none && !self.pause.is_zero()
    }

    fn paused_until(&self) -> Option<Instant> {
        self.repairs.back().map(|last| *last + self.pause)
    }

    fn is_paused(&self, now: Instant) -> bool {
        self.paused_until().is_some_and(|until| now < until)
    }

    /// Whether nobody has touched it for long.
    fn is_over(&self, now: Instant) -> bool {
        let until = self.paused_until();
        !self.waits && until.is_none_or(|until| until + QUIET <= now)
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
