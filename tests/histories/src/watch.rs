//! Things that go when they have been seen for a while.
//!
//! The element looks only when it works, and it does not say what it has seen when its work fails.
//! So of each thing it is known when its time has begun at the earliest and at the latest.

use crate::picture::Life;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Whether the element has seen what stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// It has.
    Certain,
    /// Its work failed before or after.
    Perhaps,
}

#[derive(Debug, Clone, Copy)]
struct Since {
    earliest: Instant,
    latest: Option<Instant>,
    /// Whether a close named it, so that it goes even if it works.
    named: bool,
    /// Whether it should have gone already, so that it may go at any time.
    owed: bool,
}

/// Things of one kind that wait for their end.
#[derive(Debug, Clone)]
pub struct Watch<K> {
    grace: Duration,
    seen: BTreeMap<K, Since>,
}

impl<K: Ord + Clone> Watch<K> {
    /// Nothing waits. What does will wait so long.
    pub fn new(grace: Duration) -> Self {
        Self {
            grace,
            seen: BTreeMap::new(),
        }
    }

    /// The element looks around.
    pub fn observe(&mut self, around: &BTreeMap<K, Life>, now: Instant, sight: Sight) {
        let certain = sight == Sight::Certain;
        if certain {
            self.seen.retain(|thing, since| {
                around
                    .get(thing)
                    .is_some_and(|life| since.named || *life != Life::Alive)
            });
        }
        self.glimpse(around, now);
        for (thing, since) in &mut self.seen {
            let dead = around.get(thing) == Some(&Life::Dead);
            if !certain || !(since.named || dead) {
                since.latest = None;
            } else if dead {
                since.latest = since.latest.or(Some(now));
            }
        }
    }

    /// The element may have looked around.
    pub fn glimpse(&mut self, around: &BTreeMap<K, Life>, at: Instant) {
        for (thing, _) in around.iter().filter(|(_, life)| **life != Life::Alive) {
            let new = Since {
                earliest: at,
                latest: None,
                named: false,
                owed: false,
            };
            self.seen.entry(thing.clone()).or_insert(new);
        }
    }

    /// A close has named something.
    pub fn name(&mut self, thing: &K, now: Instant, sight: Sight) {
        let new = Since {
            earliest: now,
            latest: None,
            named: false,
            owed: false,
        };
        let since = self.seen.entry(thing.clone()).or_insert(new);
        if sight == Sight::Certain {
            since.latest = since.latest.or(Some(now));
            since.named = true;
        }
    }

    /// Something should have gone and stands: as if a close had named it just now.
    pub fn owe(&mut self, thing: &K, now: Instant) {
        let owed = Since {
            earliest: now,
            latest: Some(now),
            named: true,
            owed: true,
        };
        self.seen.insert(thing.clone(), owed);
    }

    /// What must go now.
    pub fn due(&self, now: Instant) -> BTreeSet<K> {
        self.that(|since| {
            since
                .latest
                .is_some_and(|latest| latest + self.grace <= now)
        })
    }

    /// What may go now.
    pub fn may_go(&self, now: Instant) -> BTreeSet<K> {
        self.that(|since| since.owed || since.earliest + self.grace <= now)
    }

    fn that(&self, does: impl Fn(&Since) -> bool) -> BTreeSet<K> {
        let things = self.seen.iter().filter(|(_, since)| does(since));
        things.map(|(thing, _)| thing.clone()).collect()
    }

    /// Forgets what has gone.
    pub fn retain(&mut self, stands: impl Fn(&K) -> bool) {
        self.seen.retain(|thing, _| stands(thing));
    }

    /// When the element wakes up next, for certain.
    pub fn wakes(&self) -> Option<Instant> {
        let times = self.seen.values().filter_map(|since| since.latest);
        times.min().map(|since| since + self.grace)
    }

    /// When the element may wake up, if what is not known is so.
    pub fn may_wake(&self) -> Option<Instant> {
        let times = self.seen.values().map(|since| since.earliest);
        times.min().map(|since| since + self.grace)
    }

    /// Whether something should have gone already.
    pub fn owes(&self) -> bool {
        self.seen.values().any(|since| since.owed)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}
