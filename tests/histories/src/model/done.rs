//! What must stand after work that came to its end.

use super::{Model, Seen, faulted};
use crate::judge::{Kind, Problem};
use crate::picture::leg;
use crate::record::Record;
use crate::turn::Turn;
use crate::watch::Sight;
use nsm_netlink::Op;

impl Model {
    /// The element has worked, well or not.
    pub(super) fn worked(&mut self, turn: &Turn, seen: &Seen) -> Vec<Problem> {
        match (&seen.answer, &seen.hit) {
            (_, Some(fault)) if !faulted::is_transient(fault) => self.failed(turn, seen, fault),
            (Ok(()), _) => self.done(turn, seen),
            (Err((kind, text)), _) => {
                vec![Problem::wrong(format!("it answers {kind}: {text}"))]
            }
        }
    }

    /// The work came to its end: everything holds.
    pub(super) fn done(&mut self, turn: &Turn, seen: &Seen) -> Vec<Problem> {
        self.left
            .observe(&self.around(turn, &seen.before), seen.now, Sight::Certain);
        let left = self.left_at(seen);
        let case = self.case(turn, &left, seen);
        let mut problems = case.judge();
        if self.unsettled {
            // Work that failed may have set a table aside.
            problems.retain(|problem| problem.kind != Kind::PassedOver);
        }
        if seen.hit.is_none() {
            problems.extend(case.writes());
        }
        self.notes.adopted = turn.own.is_some_and(|own| self.adopts(own, turn, seen));
        self.notes.nothing_to_do = turn.own.is_some() && seen.record.bursts.is_empty();
        self.notes.left_over_gone = seen.before.own_rules(self.owner).any(|rule| {
            let given_up = rule.is_plain() && turn.given_up.contains(&rule.selector);
            !given_up && !self.is_wanted(turn, rule) && !seen.after.rules.contains(rule)
        });
        self.notes.repaired = turn.former.selectors().iter().any(|selector| {
            turn.claims.has(selector)
                && seen.before.rules_of(self.owner, selector).is_empty()
                && !seen.after.rules_of(self.owner, selector).is_empty()
        });
        if seen.hit.is_none() {
            problems.extend(self.tried_once(&seen.record));
        }
        self.commit(turn, &seen.after);
        if seen.hit.is_some() {
            let around = self.around(turn, &seen.after);
            self.left.glimpse(&around, seen.now);
        }
        self.settle();
        problems
    }

    pub(super) fn adopts(&self, own: &str, turn: &Turn, seen: &Seen) -> bool {
        let Some(claim) = turn.claims.of(own) else {
            return false;
        };
        claim.wants.iter().any(|want| {
            !turn.former.has(&want.selector)
                && !seen.before.rules_of(self.owner, &want.selector).is_empty()
        })
    }

    /// A leg whose mark is hidden is tried once per process.
    pub(super) fn tried_once(&mut self, record: &Record) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (op, outcome) in record.writes() {
            match (op, outcome) {
                (Op::AddRoute(route, _), Ok(())) => {
                    leg(route).map(|leg| self.tried.remove(&leg));
                }
                (Op::DelRoute(route), Err(_))
                    if !leg(route).is_none_or(|leg| self.tried.insert(leg)) =>
                {
                    problems.push(Problem::wrong(format!("tried a second time: {op}")));
                }
                _ => {}
            }
        }
        problems
    }
}
