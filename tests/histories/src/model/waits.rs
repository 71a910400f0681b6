//! What happens while nobody calls.

use super::{Model, Seen};
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

    /// Time has passed since `begin`. A left-over whose grace is over has woken the element, which
    /// has done all that there was to do.
    pub fn waited(&mut self, begin: Instant, at_work: &[Owner], seen: &Seen) -> Vec<Problem> {
        self.notes = Default::default();
        let turn = Turn::timer(&self.claims);
        if !self.may_wake(seen.now) {
            let mut problems = unchanged(self.owner, &seen.before, &seen.after);
            problems.extend(self.nothing_written(seen));
            return problems;
        }
        if seen.hit.is_some() {
            return self.wait_failed(&turn, at_work, seen);
        }
        let mut around = self.around(&turn, &seen.before);
        if let Some(at) = self.left.may_wake() {
            self.left.glimpse(&around, at);
        }
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
    fn wait_failed(&mut self, turn: &Turn, at_work: &[Owner], seen: &Seen) -> Vec<Problem> {
        let problems = Case {
            at_work,
            ..self.case(turn, &Left::default(), seen)
        }
        .safe();
        let overdue = self.left.rules.due(seen.now);
        let around = self.around(turn, &seen.after);
        if let Some(at) = self.left.may_wake() {
            self.left.glimpse(&around, at);
        }
        self.left.observe(&around, seen.now, Sight::Perhaps);
        for rule in overdue.iter().filter(|it| seen.after.rules.contains(it)) {
            self.left.rules.owe(rule, seen.now);
        }
        for place in around.tables.keys() {
            let routes = seen.after.own_routes(self.owner, *place);
            routes.for_each(|route| self.left.owe_route(route, seen.now));
        }
        self.unsettled = true;
        problems
    }
}
