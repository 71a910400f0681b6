//! What happens while nobody calls.

use super::{Model, Seen, faulted};
use crate::judge::{Case, Problem, unchanged};
use crate::leftovers::Left;
use crate::turn::Turn;
use crate::watch::Sight;
use nsm_netlink::Owner;
use tokio::time::Instant;

impl Model {
    /// Whether the element may wake up by then.
    pub fn may_wake(&self, by: Instant) -> bool {
        self.unsettled || self.left.may_wake().is_some_and(|at| at <= by)
    }

    /// When the element may have looked around first in a time that has passed since `begin`. Work
    /// that failed may be done again at any moment.
    fn may_look(&self, begin: Instant, end: Instant) -> Option<Instant> {
        if self.unsettled {
            return Some(begin);
        }
        let wakes = self.left.may_wake().filter(|at| *at <= end)?;
        Some(wakes.max(begin))
    }

    /// Time has passed since `begin`. A left-over whose grace is over has woken the element, which
    /// has done all that there was to do.
    pub fn waited(&mut self, begin: Instant, at_work: &[Owner], seen: &Seen) -> Vec<Problem> {
        self.notes = Default::default();
        let turn = Turn::timer(&self.claims);
        let Some(first) = self.may_look(begin, seen.now) else {
            let mut problems = unchanged(self.owner, &seen.before, &seen.after);
            problems.extend(self.nothing_written(seen));
            return problems;
        };
        if seen.hit.is_some() {
            return self.wait_failed(&turn, first, at_work, seen);
        }
        let mut around = self.around(&turn, &seen.before);
        self.left.glimpse(&around, first);
        let mut left = Left::default();
        let mut last = begin;
        let mut woke = false;
        // Each time that it wakes, it looks around, and what is due goes.
        while let Some(at) = self.left.wakes().filter(|at| *at <= seen.now) {
            woke = true;
            last = at.max(last);
            self.left.observe(&around, last, Sight::Certain);
            let now = self.left.at(last);
            around.rules.retain(|rule, _| !now.due.contains(rule));
            around
                .tables
                .retain(|place, _| !now.due_tables.contains(place));
            self.left.rules.retain(|rule| !now.due.contains(rule));
            self.left
                .tables
                .retain(|place| !now.due_tables.contains(place));
            left.due.extend(now.due);
            left.due_tables.extend(now.due_tables);
            left.due_routes.extend(now.due_routes);
        }
        let ahead = self.left_at(seen);
        left.may_go.extend(ahead.may_go);
        left.may_go_tables.extend(ahead.may_go_tables);
        left.owed_routes = ahead.owed_routes;
        if !woke && unchanged(self.owner, &seen.before, &seen.after).is_empty() {
            return Vec::new();
        }
        let case = Case {
            at_work,
            ..self.case(&turn, &left, seen)
        };
        let problems = case.judge();
        self.notes.left_over_gone = !left.due.is_empty();
        if woke {
            let around = self.around(&turn, &seen.after);
            self.left.observe(&around, last, Sight::Certain);
        }
        self.commit(&turn, &seen.after);
        if woke {
            self.settle();
        }
        problems
    }

    /// What has gone wrong in a time that passed is nobody's error, and tried again.
    fn wait_failed(
        &mut self,
        turn: &Turn,
        first: Instant,
        at_work: &[Owner],
        seen: &Seen,
    ) -> Vec<Problem> {
        let problems = Case {
            at_work,
            ..self.case(turn, &Left::default(), seen)
        }
        .safe();
        let overdue = self.left.rules.due(seen.now);
        let around = self.around(turn, &seen.after);
        self.left.glimpse(&around, first);
        self.left.observe(&around, seen.now, Sight::Perhaps);
        for rule in overdue.iter().filter(|it| seen.after.rules.contains(it)) {
            self.left.rules.owe(rule, seen.now);
        }
        for place in around.tables.keys() {
            let routes = seen.after.own_routes(self.owner, *place);
            routes.for_each(|route| self.left.owe_route(route, seen.now));
        }
        let hit = seen.hit.as_ref();
        if hit.is_some_and(|fault| faulted::adds(fault) || faulted::removes(fault)) {
            // It had read everything, and went on.
            self.commit(turn, &seen.after);
        }
        self.unsettled = true;
        problems
    }
}
