//! Calls that are to change nothing: those that are refused, and those of somebody who wants nothing.

use super::{Model, Seen, faulted};
use crate::judge::{Problem, unchanged};
use crate::leftovers::Left;
use crate::picture::is_probe;
use crate::turn::Turn;
use crate::watch::Sight;
use nsm_chain::ErrorKind;
use nsm_netlink::Op;

impl Model {
    /// A request that is refused touches nothing, not even the claims.
    pub(super) fn refused(&mut self, kind: ErrorKind, seen: &Seen) -> Vec<Problem> {
        let mut problems = self.left_alone(seen);
        match &seen.answer {
            Err((found, _)) if *found == kind || seen.hit.is_some() => {}
            Err((found, text)) => {
                problems.push(Problem::wrong(format!(
                    "it must say {kind}, not {found}: {text}"
                )));
            }
            Ok(()) => problems.push(Problem::wrong(format!(
                "it must say {kind}, and says nothing"
            ))),
        }
        problems
    }

    /// A request of somebody who wants nothing and had nothing. It may look around all the same,
    /// and repair what others want.
    pub(super) fn idle(&mut self, request: &Turn, seen: &Seen) -> Vec<Problem> {
        if !unchanged(self.owner, &seen.before, &seen.after).is_empty() {
            return self.worked(request, seen);
        }
        let turn = Turn::timer(&self.claims);
        let problems = self.untouched(seen);
        let around = self.around(&turn, &seen.after);
        self.left.observe(&around, seen.now, Sight::Perhaps);
        problems
    }

    /// A call that asks for nothing. What is owed may be paid on the occasion.
    pub(super) fn stood_by(&mut self, turn: &Turn, seen: &Seen) -> Vec<Problem> {
        let same = unchanged(self.owner, &seen.before, &seen.after).is_empty();
        if self.left.owes() && !same {
            self.worked(turn, seen)
        } else {
            self.untouched(seen)
        }
    }

    /// Nothing of the element's has changed, and nothing was tried.
    pub(super) fn untouched(&self, seen: &Seen) -> Vec<Problem> {
        let mut problems = self.left_alone(seen);
        problems.extend(self.answers_well(seen));
        problems
    }

    pub(super) fn left_alone(&self, seen: &Seen) -> Vec<Problem> {
        let turn = Turn::timer(&self.claims);
        let mut problems = unchanged(self.owner, &seen.before, &seen.after);
        problems.extend(self.case(&turn, &Left::default(), seen).safe());
        problems.extend(self.nothing_written(seen));
        problems
    }

    pub(super) fn nothing_written(&self, seen: &Seen) -> Option<Problem> {
        let probe = |op: &Op| {
            self.unsettled
                && matches!(op, Op::AddRule(it) | Op::DelRule(it) if is_probe(it, self.owner))
        };
        let (op, _) = seen.record.writes().find(|(op, _)| !probe(op))?;
        Some(Problem::wrong(format!(
            "nothing was to be written, and yet: {op}"
        )))
    }

    /// An answer that was lost is read again; any other fault may be the call's error.
    pub(super) fn answers_well(&self, seen: &Seen) -> Option<Problem> {
        let may_fail = seen.hit.is_some_and(|fault| !faulted::is_transient(&fault));
        match &seen.answer {
            Err((kind, text)) if !may_fail => {
                Some(Problem::wrong(format!("it answers {kind}: {text}")))
            }
            _ => None,
        }
    }

    /// A request for which no table was free.
    pub(super) fn ran_out(&mut self, turn: &Turn, seen: &Seen) -> Vec<Problem> {
        self.left
            .observe(&self.around(turn, &seen.before), seen.now, Sight::Perhaps);
        self.notes.exhausted = true;
        let mut problems = unchanged(self.owner, &seen.before, &seen.after);
        problems.extend(self.nothing_written(seen));
        let ids = self.owner.tables.ids().map(|id| id.get());
        let seated = |id: &u32| {
            self.seats
                .iter()
                .any(|(it, seat)| seat == id && turn.claims.has(it))
        };
        let free = ids
            .filter(|id| !seen.before.is_used(*id) && !seated(id))
            .count();
        // Each rule that does not stand on a table of its own may need one.
        let selectors = turn.claims.selectors().into_iter();
        let needed = selectors.filter(|selector| {
            !seen
                .before
                .rules_of(self.owner, selector)
                .iter()
                .any(|rule| {
                    let mut others = seen.before.own_rules(self.owner);
                    others.all(|it| it.table != rule.table || it.selector == rule.selector)
                })
        });
        if free >= needed.count() {
            problems.push(Problem::wrong(format!(
                "{free} tables are free, and it says none is"
            )));
        }
        problems
    }
}
