//! What may stand after something went wrong in the kernel.

use super::{Model, Seen};
use crate::judge::{Case, Kind, Problem, missing, unchanged};
use crate::leftovers::Left;
use crate::turn::Turn;
use crate::watch::Sight;
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{OpKind, Owner, Route};
use std::collections::BTreeSet;

/// Whether the element is to read and plan again, so that nobody notices.
pub(super) fn is_transient(fault: &Fault) -> bool {
    matches!(fault.effect, Effect::LostAck)
}

pub(super) fn adds(fault: &Fault) -> bool {
    matches!(fault.op, OpKind::AddRule | OpKind::AddRoute)
}

pub(super) fn removes(fault: &Fault) -> bool {
    matches!(fault.op, OpKind::DelRule | OpKind::DelRoute)
}

impl Model {
    /// Work in which an operation was refused.
    pub(super) fn failed(&mut self, turn: &Turn, seen: &Seen, fault: &Fault) -> Vec<Problem> {
        self.unsettled = true;
        self.left
            .observe(&self.around(turn, &seen.before), seen.now, Sight::Perhaps);
        let is_request = turn.is_request;
        let mut problems = match &seen.answer {
            Err(_) if is_request => self.request_failed(turn, seen, fault),
            Err((kind, text)) if adds(fault) => {
                vec![Problem::wrong(format!(
                    "a close fails over what others want, {kind}: {text}"
                ))]
            }
            Err(_) if removes(fault) => self.part_failed(turn, seen),
            Err(_) => self.close_failed(turn, seen),
            Ok(()) => self.part_failed(turn, seen),
        };
        if seen.answer.is_ok() && !adds(fault) && !removes(fault) {
            problems.push(Problem::wrong("what could not be read was taken as read"));
        }
        problems
    }

    /// The claims are as before. A refusal has been undone; where nothing could be read, what was
    /// made before may stand.
    fn request_failed(&mut self, turn: &Turn, seen: &Seen, fault: &Fault) -> Vec<Problem> {
        let before = Turn {
            former: turn.claims.clone(),
            ..Turn::timer(&self.claims)
        };
        let mut problems = self.case(&before, &Left::default(), seen).safe();
        if removes(fault) {
            problems.push(Problem::wrong(
                "a request fails over what could not be removed",
            ));
        }
        if adds(fault) {
            problems.extend(unchanged(self.owner, &seen.before, &seen.after));
        } else {
            problems.extend(self.nothing_lost(seen));
            self.owe_what_is_new(seen);
        }
        problems
    }

    /// The claim has ended all the same, and what it had may stand for a while.
    fn close_failed(&mut self, turn: &Turn, seen: &Seen) -> Vec<Problem> {
        let mut problems = self.case(turn, &Left::default(), seen).safe();
        problems.extend(self.nothing_lost(seen));
        self.owe(turn, seen);
        self.owed.extend(turn.given_up.iter().cloned());
        // Whoever claims such a policy meanwhile keeps its rule, and not what the claim that has
        // ended wanted behind it.
        for selector in &turn.given_up {
            for rule in seen.after.rules_of(self.owner, selector) {
                let ways = seen.after.own_ways(self.owner, (rule.family(), rule.table));
                let via = |way: &Route| way.hop.and_then(|hop| hop.via);
                let ended = ways.filter(|way| turn.has_ended(selector, (way.prefix, via(way))));
                ended.for_each(|way| self.left.owe_route(way, seen.now));
            }
        }
        self.claims = turn.claims.clone();
        problems
    }

    /// The work went on. What could not be removed is owed; what could not be made is missing, of
    /// one policy and not of the connection whose request it was.
    fn part_failed(&mut self, turn: &Turn, seen: &Seen) -> Vec<Problem> {
        let left = self.left_at(seen);
        let case = self.case(turn, &left, seen);
        let mut lacking = BTreeSet::new();
        let mut problems = Vec::new();
        for problem in case.judge() {
            match &problem.kind {
                Kind::Wrong => problems.push(problem),
                Kind::Lacks(_) if turn.own.is_some_and(|own| case.concerns(&problem, own)) => {
                    problems.push(problem);
                }
                Kind::Lacks(selector) => drop(lacking.insert(selector.clone())),
                // What was undone has left its table again.
                Kind::PassedOver | Kind::RuleTooMany(_) | Kind::RouteTooMany(_) => {}
            }
        }
        if lacking.len() > 1 {
            problems.push(Problem::wrong(format!(
                "one refusal, and all of these lack: {lacking:?}"
            )));
        }
        self.owe(turn, seen);
        self.commit(turn, &seen.after);
        problems
    }

    /// What should have gone, and stands.
    fn owe(&mut self, turn: &Turn, seen: &Seen) {
        let left = self.left_at(seen);
        let problems = self.case(turn, &left, seen).judge();
        for problem in problems {
            match problem.kind {
                Kind::RuleTooMany(rule) if self.is_wanted(turn, &rule) => {
                    self.left.owe_spare(seen.now);
                }
                Kind::RuleTooMany(rule) => self.left.rules.owe(&rule, seen.now),
                Kind::RouteTooMany(route) => self.left.owe_route(&route, seen.now),
                Kind::Wrong | Kind::PassedOver | Kind::Lacks(_) => {}
            }
        }
    }

    /// Whatever of ours stood stands, and what has come is too many and owed.
    fn nothing_lost(&mut self, seen: &Seen) -> Vec<Problem> {
        if self.left.owes() || !self.owed.is_empty() {
            // What was owed may have been done before something else went wrong.
            return Vec::new();
        }
        missing(
            self.owner,
            &seen.before,
            &seen.after,
            "was lost by work that failed",
        )
    }

    fn owe_what_is_new(&mut self, seen: &Seen) {
        let rules = seen.after.own_rules(self.owner);
        for rule in rules.filter(|rule| !seen.before.rules.contains(rule)) {
            if !self.is_claimed(rule) {
                self.left.rules.owe(rule, seen.now);
            }
        }
        let routes = seen
            .after
            .routes
            .iter()
            .filter(|it| seen.after.is_own(self.owner, it));
        for route in routes.filter(|route| !seen.before.routes.contains(route)) {
            self.left.owe_route(route, seen.now);
        }
    }

    /// The process was killed: whoever lasts is on old or on new content.
    pub fn killed(&mut self, turn: &Turn, at_work: &[Owner], seen: &Seen) -> Vec<Problem> {
        let left = Left::default();
        let problems = Case {
            at_work,
            ..self.case(turn, &left, seen)
        }
        .safe();
        self.restarted();
        problems
    }
}
