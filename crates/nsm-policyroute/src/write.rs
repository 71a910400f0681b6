//! Carries a plan out: burst by burst, each answered before the next.

use crate::desired::Desired;
use crate::error::Error;
use crate::metrics::{Figures, Metrics};
use crate::plan::{Leg, Plan, Step, leg, route_of, rule_of};
use crate::progress::{Progress, place};
use crate::report::Report;
use crate::time::Time;
use nsm_netlink::{Errno, Family, Kernel, KernelError, Op, Owner, Placement, Refusal, Rule};
use std::collections::BTreeSet;

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
