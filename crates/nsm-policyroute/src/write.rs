//! Carries a plan out: burst by burst, each answered before the next.

use crate::desired::Desired;
use crate::error::Error;
use crate::metrics::{Figures, Metrics};
use crate::plan::{Leg, Plan, Step, leg, route_of, rule_of};
use crate::read;
use crate::report::Report;
use crate::time::Time;
use nsm_netlink::{Errno, Family, Kernel, KernelError, Op, Owner, Placement, Refusal, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// Why a plan was not carried out to its end.
#[derive(Debug)]
pub enum Halt {
    /// The request fails. What was added for it has been taken back.
    Error(Error),
    /// What stands is not what was read, or is unknown: read and plan again.
    Again(Option<KernelError>),
}

impl From<KernelError> for Halt {
    fn from(error: KernelError) -> Self {
        Self::Again(Some(error))
    }
}

/// What carrying out a plan has come to.
#[derive(Debug, Default)]
pub struct Written {
    /// What was written.
    pub figures: Figures,
    /// Removals that the kernel refused, and how many were tried in all.
    pub left: Vec<(Op, Refusal)>,
    /// How many removals were tried.
    pub removals: usize,
    /// Rules that are gone.
    pub removed: Vec<Rule>,
    /// Legs that turned out to be somebody else's.
    pub foreign_legs: Vec<Leg>,
    /// Legs that have been made ours.
    pub own_legs: Vec<Leg>,
    /// Units of other connections that could not be installed.
    pub failed: Vec<usize>,
    /// What other connections' policies suffer from.
    pub reports: BTreeSet<Report>,
}

/// Carries out one plan.
#[derive(Debug)]
pub struct Writer<'a, K> {
    /// Where to.
    pub kernel: &'a mut K,
    /// Who we are.
    pub owner: Owner,
    /// What the plan's units are.
    pub desired: &'a [Desired],
    /// The rules that the plan was made from.
    pub before: &'a [Rule],
    /// Refusals are counted.
    pub metrics: &'a Metrics,
    /// How long.
    pub time: Time,
    /// What may stand of a plan that was not carried out to its end.
    pub left: Vec<Op>,
    /// Whether IPv6 sockets have still to be made to look again.
    pub probe_owed: bool,
}

/// A step and what became of it.
type Answered<'s> = (&'s Step, Result<(), Refusal>);

/// The units that have failed and what has been added so far.
#[derive(Debug, Default)]
pub struct Progress {
    applied: Vec<(usize, Op)>,
    /// Whether everything has been added, and what it replaces is being removed.
    replaces: bool,
    /// The tables that rules of ours looked up before.
    looked_up: BTreeSet<(Family, u32)>,
    /// Whether IPv6 routes behind such a rule have been written: sockets do not see that.
    strands: bool,
    /// Whether an IPv6 rule has come or gone since routes were added: sockets look again.
    looks_again: bool,
    failed: BTreeMap<usize, (Op, Refusal)>,
}

impl<K: Kernel> Writer<'_, K> {
    /// Carries a plan out.
    ///
    /// # Errors
    /// [`Halt::Error`] when a write that the connection at hand needs was refused or there is no
    /// time left; [`Halt::Again`] when somebody else was faster or the answers were lost.
    pub fn run(&mut self, plan: &Plan) -> Result<Written, Halt> {
        let standing = self.before.iter().filter(|rule| self.owner.owns_rule(rule));
        let mut progress = Progress {
            looked_up: standing.map(place).collect(),
            strands: self.probe_owed,
            ..Progress::default()
        };
        let result = self.carry_out(plan, &mut progress);
        self.probe_owed = !progress.looks_again
            && match &result {
                Ok(_) => false,
                Err(Halt::Again(Some(_))) => plan.probe.is_some(),
                Err(_) if progress.replaces => progress.strands,
                Err(_) => {
                    self.probe_owed
                        || progress
                            .applied
                            .iter()
                            .any(|(_, op)| progress.is_behind_a_rule(op))
                }
            };
        let added = match &result {
            Ok(_) => Vec::new(),
            // What has replaced a rule stays in its place; what nobody had before goes again.
            Err(_) if progress.replaces => plan
                .add
                .iter()
                .map(|step| &step.op)
                .filter(|op| self.is_new(op))
                .collect(),
            Err(Halt::Again(Some(_))) => plan.make.iter().chain(&plan.add).map(|s| &s.op).collect(),
            Err(_) => progress.applied.iter().map(|(_, op)| op).collect(),
        };
        self.left.extend(added.into_iter().cloned());
        result
    }

    /// Whether no rule of ours stood for the selector of a rule that is added.
    fn is_new(&self, op: &Op) -> bool {
        let Op::AddRule(added) = op else { return false };
        let ours = |rule: &&Rule| self.owner.owns_rule(rule) && rule.is_plain();
        !self
            .before
            .iter()
            .filter(ours)
            .any(|rule| rule.selector == added.selector)
    }

    fn carry_out(&mut self, plan: &Plan, progress: &mut Progress) -> Result<Written, Halt> {
        let mut written = Written::default();
        self.make(&plan.make, progress)?;
        self.add(&plan.add, progress)?;
        progress.replaces = true;
        for (_, op) in &progress.applied {
            match op {
                Op::AddRule(_) => written.figures.rules_added += 1,
                Op::AddRoute(route, _) => {
                    written.figures.routes_added += 1;
                    written.own_legs.extend(leg(route));
                }
                Op::DelRule(_) | Op::DelRoute(_) => {}
            }
        }
        self.remove(plan, progress, &mut written)?;
        match &plan.probe {
            Some(probe) if progress.strands && !progress.looks_again => self.probe(probe)?,
            _ => {}
        }
        for (unit, (op, refusal)) in &progress.failed {
            written.failed.push(*unit);
            written.reports.insert(Report::NotRepaired {
                selector: self.desired[*unit].selector.clone(),
                reason: format!("cannot {}: {refusal}", op.kind()),
            });
        }
        Ok(written)
    }

    /// Routes, before the rules that point at them.
    fn make(&mut self, steps: &[Step], progress: &mut Progress) -> Result<(), Halt> {
        self.time.check().map_err(Halt::Error)?;
        let mut faster = false;
        for (step, result) in self.execute(steps)? {
            progress.strands |= progress.is_behind_a_rule(&step.op);
            match result {
                Err(Refusal {
                    errno: Errno::EEXIST,
                    ..
                }) => {
                    faster |= matches!(step.op, Op::AddRoute(_, Placement::Exclusive));
                }
                result => progress.note(step, result),
            }
        }
        if faster {
            // The table that was free a moment ago is somebody else's.
            self.undo(progress, |_| true);
            return Err(Halt::Again(None));
        }
        self.settle(progress)
    }

    /// Rules, read once more when they have been added.
    fn add(&mut self, steps: &[Step], progress: &mut Progress) -> Result<(), Halt> {
        let steps: Vec<&Step> = steps.iter().filter(|step| progress.goes_on(step)).collect();
        if steps.is_empty() {
            return Ok(());
        }
        if let Err(late) = self.time.check() {
            self.undo(progress, |_| true);
            return Err(Halt::Error(late));
        }
        for (step, result) in self.execute(steps.iter().copied())? {
            match result {
                // Read before, so an equal one has come meanwhile: it will do.
                Err(Refusal {
                    errno: Errno::EEXIST,
                    ..
                }) => {}
                result => progress.note(step, result),
            }
        }
        self.settle(progress)?;
        let rules = steps.iter().filter(|step| progress.goes_on(step));
        let rules: Vec<(usize, &Rule)> = rules
            .filter_map(|step| Some((step.unit?, rule_of(step)?)))
            .collect();
        self.read_back(&rules, progress)
    }

    /// Rules, then the routes that nothing looks up any more. A refusal here is never undone: it
    /// leaves something too many, and it is tried again.
    fn remove(
        &mut self,
        plan: &Plan,
        progress: &mut Progress,
        written: &mut Written,
    ) -> Result<(), Halt> {
        let (rules, kept): (Vec<&Step>, Vec<&Step>) =
            plan.remove.iter().partition(|step| progress.goes_on(step));
        let mut standing: BTreeSet<(Family, u32)> =
            kept.into_iter().filter_map(rule_of).map(place).collect();
        written.removals += rules.len();
        for (step, result) in self.execute(rules)? {
            let Some(rule) = rule_of(step) else { continue };
            match result {
                Ok(())
                | Err(Refusal {
                    errno: Errno::ENOENT,
                    ..
                }) => {
                    written.figures.rules_removed += u64::from(result.is_ok());
                    progress.looks_again |= result.is_ok() && rule.family() == Family::V6;
                    written.removed.push(rule.clone());
                }
                Err(refusal) => {
                    standing.insert(place(rule));
                    written.left.push((step.op.clone(), refusal));
                }
            }
        }
        let routes = plan.cut.iter().filter(|step| match step.unit {
            Some(_) => progress.goes_on(step),
            None => route_of(step).is_some_and(|r| !standing.contains(&(r.family(), r.table))),
        });
        let routes: Vec<&Step> = routes.collect();
        written.removals += routes.len();
        for (step, result) in self.execute(routes)? {
            let Some(route) = route_of(step) else {
                continue;
            };
            progress.strands |= progress.is_behind_a_rule(&step.op);
            match result {
                Ok(()) => written.figures.routes_removed += 1,
                Err(Refusal {
                    errno: Errno::ESRCH | Errno::ENOENT | Errno::ENODEV,
                    ..
                }) => {
                    if !route.mark_is_known() {
                        written.foreign_legs.extend(leg(route));
                    }
                }
                Err(refusal) => written.left.push((step.op.clone(), refusal)),
            }
        }
        Ok(())
    }

    /// Makes IPv6 sockets look again. A probe that stays behind is removed by the next plan.
    fn probe(&mut self, probe: &Rule) -> Result<(), Halt> {
        let steps = [Op::AddRule(probe.clone()), Op::DelRule(probe.clone())]
            .map(|op| Step { op, unit: None });
        self.execute(&steps)?;
        Ok(())
    }

    /// Takes back what failed units have added, and everything of the connection at hand when one
    /// of its own failed.
    fn settle(&mut self, progress: &mut Progress) -> Result<(), Halt> {
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

    pub fn execute<'s>(
        &mut self,
        steps: impl IntoIterator<Item = &'s Step>,
    ) -> Result<Vec<Answered<'s>>, KernelError> {
        let steps: Vec<&Step> = steps.into_iter().collect();
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let burst: Vec<Op> = steps.iter().map(|step| step.op.clone()).collect();
        let results = self.kernel.execute(&burst)?;
        for refusal in results.iter().filter_map(|result| result.as_ref().err()) {
            self.metrics.refused(refusal.errno);
        }
        Ok(steps.into_iter().zip(results).collect())
    }
}

impl Progress {
    fn note(&mut self, step: &Step, result: Result<(), Refusal>) {
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
    fn is_behind_a_rule(&self, op: &Op) -> bool {
        match op {
            Op::AddRoute(route, _) | Op::DelRoute(route) => {
                route.family() == Family::V6 && self.looked_up.contains(&(Family::V6, route.table))
            }
            Op::AddRule(_) | Op::DelRule(_) => false,
        }
    }

    fn goes_on(&self, step: &Step) -> bool {
        step.unit
            .is_none_or(|unit| !self.failed.contains_key(&unit))
    }
}

fn place(rule: &Rule) -> (Family, u32) {
    (rule.family(), rule.table)
}
