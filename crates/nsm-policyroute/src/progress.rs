//! What has become of a plan so far, and how what was added is taken back.

use crate::error::Error;
use crate::plan::{Step, rule_of};
use crate::read;
use crate::write::{Halt, Writer};
use nsm_netlink::{Errno, Family, Kernel, Op, Refusal, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// The units that have failed and what has been added so far.
#[derive(Debug, Default)]
pub struct Progress {
    /// What was added, each for a unit of the plan, and stands.
    pub applied: Vec<(usize, Op)>,
    /// Whether everything has been added, and what it replaces is being removed.
    pub replaces: bool,
    /// The tables that rules of ours looked up before.
    pub looked_up: BTreeSet<(Family, u32)>,
    /// Whether IPv6 routes behind such a rule have been written: sockets do not see that.
    pub strands: bool,
    /// Whether an IPv6 rule has come or gone since routes were added: sockets look again.
    pub looks_again: bool,
    /// The first refusal of each unit that has failed.
    pub failed: BTreeMap<usize, (Op, Refusal)>,
}

impl Progress {
    /// Puts down what became of an addition.
    pub fn note(&mut self, step: &Step, result: Result<(), Refusal>) {
        let Some(unit) = step.unit else { return };
        match result {
            Ok(()) => {
                self.looks_again |= rule_of(step).is_some_and(|rule| rule.family() == Family::V6);
                self.applied.push((unit, step.op.clone()));
            }
            Err(refusal) => {
                self.failed
                    .entry(unit)
                    .or_insert_with(|| (step.op.clone(), refusal));
            }
        }
    }

    /// Whether a write is of an IPv6 route behind a rule that stood before.
    pub fn is_behind_a_rule(&self, op: &Op) -> bool {
        match op {
            Op::AddRoute(route, _) | Op::DelRoute(route) => {
                route.family() == Family::V6 && self.looked_up.contains(&(Family::V6, route.table))
            }
            Op::AddRule(_) | Op::DelRule(_) => false,
        }
    }

    /// Whether the unit of a step has not failed.
    pub fn goes_on(&self, step: &Step) -> bool {
        step.unit
            .is_none_or(|unit| !self.failed.contains_key(&unit))
    }
}

impl<K: Kernel> Writer<'_, K> {
    /// Takes back what failed units have added, and everything of the connection at hand when one
    /// of its own failed.
    pub fn settle(&mut self, progress: &mut Progress) -> Result<(), Halt> {
        let own = |unit: &usize| self.desired[*unit].own;
        let failure = progress
            .failed
            .iter()
            .find_map(|(unit, failure)| own(unit).map(|policy| (policy, failure.clone())));
        let Some((policy, (op, source))) = failure else {
            let failed: BTreeSet<usize> = progress.failed.keys().copied().collect();
            self.undo(progress, |unit| failed.contains(&unit));
            return Ok(());
        };
        self.undo(progress, |_| true);
        let (op, subject) = (op.kind(), op.subject().to_string());
        Err(Halt::Error(Error::Refused {
            policy,
            op,
            subject,
            source,
        }))
    }

    /// Deletes what was added: rules first, then the routes that none of them looks up any more.
    /// What cannot be taken back is too many, and the next reconcile removes it.
    pub fn undo(&mut self, progress: &mut Progress, which: impl Fn(usize) -> bool) {
        let (undone, stays): (Vec<_>, Vec<_>) = std::mem::take(&mut progress.applied)
            .into_iter()
            .partition(|(unit, _)| which(*unit));
        progress.applied = stays;
        let (rules, routes): (Vec<_>, Vec<_>) = undone
            .into_iter()
            .partition(|(_, op)| matches!(op, Op::AddRule(_)));
        let standing = self.take_back(rules);
        let mut looked_up: BTreeSet<(Family, u32)> = standing
            .iter()
            .filter_map(|(_, op)| match op {
                Op::AddRule(rule) => Some(place(rule)),
                Op::DelRule(_) | Op::AddRoute(..) | Op::DelRoute(_) => None,
            })
            .collect();
        looked_up.extend(self.taken_up(&routes));
        let (kept, routes): (Vec<_>, Vec<_>) = routes.into_iter().partition(|(_, op)| match op {
            Op::AddRoute(route, _) => looked_up.contains(&(route.family(), route.table)),
            Op::AddRule(_) | Op::DelRule(_) | Op::DelRoute(_) => false,
        });
        let left = self.take_back(routes);
        progress
            .applied
            .extend(standing.into_iter().chain(kept).chain(left));
    }

    /// The tables among those of added routes that a rule of ours looks up which is not from here.
    /// To another process of this owner routes without a rule look left, and it may have taken
    /// them up: they are all that its rule has.
    fn taken_up(&mut self, routes: &[(usize, Op)]) -> BTreeSet<(Family, u32)> {
        let places: BTreeSet<(Family, u32)> = routes
            .iter()
            .filter_map(|(_, op)| match op {
                Op::AddRoute(route, _) => Some((route.family(), route.table)),
                Op::AddRule(_) | Op::DelRule(_) | Op::DelRoute(_) => None,
            })
            .collect();
        let families: BTreeSet<Family> = places.iter().map(|(family, _)| *family).collect();
        let mut taken_up = BTreeSet::new();
        for family in families {
            match read::rules(self.kernel, family, self.owner) {
                Ok(rules) => {
                    let news = rules
                        .iter()
                        .filter(|rule| self.owner.owns_rule(rule) && !self.before.contains(rule));
                    taken_up.extend(news.map(place).filter(|place| places.contains(place)));
                }
                Err(error) => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "undo is unseen");
                }
            }
        }
        taken_up
    }

    /// Deletes what was added, the last first, and gives back what may still stand.
    fn take_back(&mut self, added: Vec<(usize, Op)>) -> Vec<(usize, Op)> {
        let steps: Vec<Step> = added
            .iter()
            .rev()
            .filter_map(|(_, op)| match op {
                Op::AddRule(rule) => Some(Op::DelRule(rule.clone())),
                Op::AddRoute(route, _) => Some(Op::DelRoute(route.clone())),
                Op::DelRule(_) | Op::DelRoute(_) => None,
            })
            .map(|op| Step { op, unit: None })
            .collect();
        let answers = match self.execute(&steps) {
            Ok(answers) => answers,
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "undo is unknown");
                return added;
            }
        };
        let refused = answers.into_iter().map(|(_, answer)| match answer {
            Ok(())
            | Err(Refusal {
                errno: Errno::ENOENT | Errno::ESRCH,
                ..
            }) => false,
            Err(_) => true,
        });
        let stands = added
            .into_iter()
            .rev()
            .zip(refused)
            .filter(|(_, refused)| *refused);
        stands.map(|(added, _)| added).collect()
    }
}

/// Where a rule sends what it selects.
pub fn place(rule: &Rule) -> (Family, u32) {
    (rule.family(), rule.table)
}
