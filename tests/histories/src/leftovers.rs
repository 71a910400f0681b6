//! What of ours stands though nobody wants it, and when it goes.

use crate::picture::{Life, Place};
use crate::small_world::{GRACE, SETTLE};
use crate::watch::{Sight, Watch};
use nsm_netlink::{Route, Rule};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// What the element sees when it looks around.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// Its rules that nobody wants.
    pub rules: BTreeMap<Rule, Life>,
    /// The tables with routes of ours that no rule of ours looks up.
    pub tables: BTreeMap<Place, Life>,
}

/// What must go, may go, or stays at one moment.
#[derive(Debug, Clone, Default)]
pub struct Left {
    /// Rules that go now.
    pub due: BTreeSet<Rule>,
    /// Rules that may go now.
    pub may_go: BTreeSet<Rule>,
    /// Tables without a rule that are emptied now.
    pub due_tables: BTreeSet<Place>,
    /// Tables without a rule that may be emptied now.
    pub may_go_tables: BTreeSet<Place>,
    /// Routes that go now.
    pub due_routes: BTreeSet<Route>,
    /// Routes that may go now.
    pub owed_routes: BTreeSet<Route>,
}

/// The left-overs that wait for their end.
#[derive(Debug, Clone)]
pub struct Leftovers {
    /// Rules that nobody wants.
    pub rules: Watch<Rule>,
    /// Tables that no rule looks up.
    pub tables: Watch<Place>,
    /// Routes that should have gone already, and since when.
    routes: BTreeMap<Route, Instant>,
    /// Since when a policy that is wanted has a rule too many.
    spare: Option<Instant>,
}

impl Leftovers {
    /// Nothing is left over.
    pub fn new() -> Self {
        Self {
            rules: Watch::new(GRACE),
            tables: Watch::new(SETTLE),
            routes: BTreeMap::new(),
            spare: None,
        }
    }

    /// The element looks around.
    pub fn observe(&mut self, around: &Around, now: Instant, sight: Sight) {
        self.rules.observe(&around.rules, now, sight);
        self.tables.observe(&around.tables, now, sight);
    }

    /// The element may have looked around.
    pub fn glimpse(&mut self, around: &Around, at: Instant) {
        self.rules.glimpse(&around.rules, at);
        self.tables.glimpse(&around.tables, at);
    }

    /// A route that should have gone stands.
    pub fn owe_route(&mut self, route: &Route, now: Instant) {
        self.routes.insert(route.clone(), now);
    }

    /// A policy that is wanted has a rule too many.
    pub fn owe_spare(&mut self, now: Instant) {
        self.spare = Some(now);
    }

    /// All that is wanted stands, and once each.
    pub fn spares_gone(&mut self) {
        self.spare = None;
    }

    /// Forgets routes that have gone.
    pub fn retain_routes(&mut self, lies: impl Fn(&Route) -> bool) {
        self.routes.retain(|route, _| lies(route));
    }

    /// What goes at this moment.
    pub fn at(&self, now: Instant) -> Left {
        let due = self
            .routes
            .iter()
            .filter(|(_, since)| **since + GRACE <= now);
        Left {
            due: self.rules.due(now),
            may_go: self.rules.may_go(now),
            due_tables: self.tables.due(now),
            may_go_tables: self.tables.may_go(now),
            due_routes: due.map(|(route, _)| route.clone()).collect(),
            owed_routes: self.routes.keys().cloned().collect(),
        }
    }

    /// When the element wakes up next, for certain.
    pub fn wakes(&self) -> Option<Instant> {
        self.rules
            .wakes()
            .into_iter()
            .chain(self.tables.wakes())
            .min()
    }

    /// When the element may wake up, if what is not known is so.
    pub fn may_wake(&self) -> Option<Instant> {
        let owed = self
            .routes
            .values()
            .copied()
            .chain(self.spare)
            .map(|since| since + GRACE);
        self.rules
            .may_wake()
            .into_iter()
            .chain(self.tables.may_wake())
            .chain(owed)
            .min()
    }

    /// Whether something should have gone already.
    pub fn owes(&self) -> bool {
        self.spare.is_some() || !self.routes.is_empty() || self.rules.owes()
    }

    /// Whether nothing waits.
    pub fn is_idle(&self) -> bool {
        self.rules.is_empty() && self.tables.is_empty() && !self.owes()
    }
}
