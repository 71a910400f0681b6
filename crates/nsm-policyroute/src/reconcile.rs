//! One piece of work in a namespace: read, plan, write, remember. It blocks, and nothing stops it.

use crate::actual::{Place, View};
use crate::config::Config;
use crate::desired::Desired;
use crate::error::Error;
use crate::metrics::{Figures, Metrics, Standing};
use crate::pace::Look;
use crate::plan::{self, Goal, Plan};
use crate::read;
use crate::report::{self, Report};
use crate::space::{Change, Space, Turn};
use crate::time::Time;
use crate::watch::Ears;
use crate::write::{Halt, Writer, Written};
use nsm_netlink::{Kernel, Link, Namespace, Op, Route, Rule, Selector, TableId};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// How often it is tried when answers are lost.
const ATTEMPTS: u32 = 4;

/// How often it is planned anew when somebody else was faster.
///
/// Two processes of one owner that start at once, each with ten connections in one pod, lose up to
/// four in a row.
const CONTESTS: u32 = 8;

/// What a reconcile works with.
#[derive(Debug)]
pub struct Reconciler<'a, N: Namespace> {
    /// Where.
    pub netns: &'a N,
    /// How.
    pub config: &'a Config,
    /// What it counts into.
    pub metrics: &'a Metrics,
    /// How long.
    pub time: Time,
    /// What hears of others, where the namespace is watched.
    pub ears: Option<&'a Ears<N::Notifications>>,
}

impl<N: Namespace> Reconciler<'_, N> {
    /// Brings the namespace to what all claims want after a change, and remembers the change.
    ///
    /// # Errors
    /// When what the connection at hand wants could not be installed: the claims are as before.
    /// When something of a connection that ends could not be removed: its claim has ended all the
    /// same.
    pub fn run(&self, space: &mut Space, change: &Change) -> Result<(), Error> {
        let start = std::time::Instant::now();
        let stood = space.standing;
        let turn = Turn::new(space, change);
        let farewell = match change {
            Change::Close { connection, .. } => space.claims.get(connection).is_none(),
            Change::Request { .. } | Change::Timer | Change::Drift => false,
        };
        if let Change::Close { .. } = change {
            // Memory never outlives a close, whatever becomes of the removals.
            space.claims = turn.claims.clone();
        }
        let mut figures = Figures::default();
        let mut result = Ok(());
        if !farewell || space.is_in_debt() {
            result = self.attempts(space, change, &turn, &mut figures);
        }
        if farewell && result.is_ok() {
            result = self.name(space, &turn);
        }
        if let Err(error) = &result {
            if matches!(change, Change::Close { .. }) && !matches!(error, Error::Removal { .. }) {
                space.owed.extend(turn.dropped);
                for (selector, routes) in turn.ended {
                    space.stale.entry(selector).or_default().extend(routes);
                }
            }
            let again = Instant::now() + self.config.grace;
            if space.is_in_debt() {
                space.leftovers.try_again(again);
            }
            if matches!(change, Change::Timer) {
                space.leftovers.put_off(again);
            }
        }
        space.standing.leftovers = space.leftovers.len() as i64;
        self.metrics.moved(stood, space.standing);
        let outcome = result
            .as_ref()
            .map_or_else(|error| error.kind().to_string(), |()| "ok".to_owned());
        self.metrics
            .reconciled(outcome, start.elapsed().as_secs_f64(), &figures);
        result
    }

    fn attempts(
        &self,
        space: &mut Space,
        change: &Change,
        turn: &Turn,
        figures: &mut Figures,
    ) -> Result<(), Error> {
        let mut last = None;
        let mut lost = 0;
        for _ in 0..CONTESTS {
            match self.attempt(space, change, turn, figures) {
                Ok(()) => return Ok(()),
                Err(Halt::Error(error)) => return Err(error),
                Err(Halt::Again(Some(source))) if !source.is_transient() => {
                    return Err(Error::Kernel {
                        netns: self.netns.id(),
                        source,
                    });
                }
                Err(Halt::Again(reason)) => last = reason,
            }
            lost += u32::from(last.is_some());
            if lost == ATTEMPTS {
                break;
            }
            self.time.check()?;
        }
        let netns = self.netns.id();
        Err(match last {
            Some(source) => Error::Kernel { netns, source },
            None => Error::Contended {
                netns,
                attempts: CONTESTS,
            },
        })
    }

    /// Reads, plans and writes once.
    fn attempt(
        &self,
        space: &mut Space,
        change: &Change,
        turn: &Turn,
        figures: &mut Figures,
    ) -> Result<(), Halt> {
        let owner = self.config.owner;
        let band = self.config.priorities;
        let mut kernel = self.netns.open()?;
        if let Some(ears) = self.ears {
            ears.hold();
        }
        // Links first: that waits for whoever is changing one, and what goes with it is gone then.
        let links = kernel.links()?;
        let own = self.interface(turn, &links).map_err(Halt::Error)?;
        let actual = read::read(&mut kernel, owner)?;
        let view = View::new(&actual, owner);
        let (desired, conflicts) = turn.claims.desired(turn.own.as_ref(), &links, band);

        let due = self.due(space, turn, own, &view);
        let orphans = self.orphans(space, turn, own, &view);
        let ended = space.ended(turn);
        let goal = Goal {
            desired: &desired,
            dropped: &turn.dropped,
            ended: &ended,
            due: &due,
            orphans: &orphans,
            foreign_legs: &space.foreign_legs,
            probe_owed: space.probe_owed,
            fail_closed: self.config.fail_closed,
            band,
        };
        let mut plan = plan::plan(&goal, &actual, owner);
        let withheld = self.withhold(change, &mut plan, &desired);
        if let Some(policy) = plan.unseated.iter().find_map(|unit| desired[*unit].own) {
            let tables = owner.tables;
            return Err(Halt::Error(Error::NoFreeTable { policy, tables }));
        }
        let mut seen = report::look(&desired, &plan, &view, band);

        let writer = Writer {
            kernel: &mut kernel,
            owner,
            desired: &desired,
            before: &actual.rules,
            metrics: self.metrics,
            time: self.time,
            left: Vec::new(),
            probe_owed: space.probe_owed,
        };
        let written = carry_out(writer, space, &plan);
        if let Some(ears) = self.ears {
            ears.leave_out(kernel.port());
        }
        let mut written = written?;

        *figures = Figures {
            adopted: adopted(&plan, &desired),
            drift: drift(&plan, turn, &desired),
            ..written.figures
        };
        space.standing = Standing {
            wanted: desired.len() as i64,
            conflicts: conflicts.len() as i64,
            shadowed: seen.shadowed,
            lookalikes: seen.lookalikes,
            ..space.standing
        };
        let overlaps = report::overlaps(&turn.claims, &view, band);
        let conflicts = conflicts.into_iter().map(Report::Conflict);
        seen.reports.extend(overlaps.into_iter().chain(conflicts));
        seen.reports.append(&mut written.reports);
        space.report(seen.reports);

        let mut seated = plan.tables.clone();
        for unit in &written.failed {
            seated.remove(&desired[*unit].selector);
        }
        space.take_over(turn.claims.clone(), seated, orphans);
        space.devs = space.claims.devs(&links);
        self.answer(&plan, &desired, &written.failed, withheld);
        self.remember(space, change, &plan.tables, written)
            .map_err(Halt::Error)
    }

    /// Leaves the policies alone that others fight, where nobody has asked for them.
    fn withhold(
        &self,
        change: &Change,
        plan: &mut Plan,
        desired: &[Desired],
    ) -> BTreeSet<Selector> {
        let (Change::Drift, Some(ears)) = (change, self.ears) else {
            return BTreeSet::new();
        };
        let paused = ears.paused();
        let units = desired.iter().enumerate();
        let units = units.filter(|(_, desired)| paused.contains(&desired.selector));
        let withheld = plan.withhold(&units.map(|(unit, _)| unit).collect());
        let selector = |unit: usize| desired[unit].selector.clone();
        withheld.into_iter().map(selector).collect()
    }

    /// Tells the watch what has become of what it heard.
    fn answer(
        &self,
        plan: &Plan,
        desired: &[Desired],
        failed: &[usize],
        withheld: BTreeSet<Selector>,
    ) {
        let Some(ears) = self.ears else { return };
        let units = plan.steps().filter_map(|step| step.unit);
        let repaired = units.filter(|unit| !failed.contains(unit));
        let mut look = Look {
            repaired: repaired
                .map(|unit| desired[unit].selector.clone())
                .collect(),
            withheld,
            failed: !failed.is_empty(),
        };
        ears.answered(&mut look);
    }

    /// The interface of the connection at hand, which must be there if it wants anything.
    fn interface(&self, turn: &Turn, links: &[Link]) -> Result<Option<u32>, Error> {
        let Some(name) = &turn.interface else {
            return Ok(None);
        };
        let link = links.iter().find(|link| link.name == *name);
        match link {
            _ if turn.own.is_none() => {}
            None => {
                let (interface, netns) = (name.clone(), self.netns.id());
                return Err(Error::LinkMissing { interface, netns });
            }
            Some(link) if !link.up => {
                let (interface, netns) = (name.clone(), self.netns.id());
                return Err(Error::LinkDown { interface, netns });
            }
            Some(_) => {}
        }
        Ok(link.map(|link| link.index))
    }

    /// The left-over rules that go now: their grace is over, or the request at hand has named them
    /// and its answer does not, and they are dead or serve this connection's interface only.
    fn due(
        &self,
        space: &mut Space,
        turn: &Turn,
        own: Option<u32>,
        view: &View<'_>,
    ) -> BTreeSet<Rule> {
        let unclaimed = observe(space, turn, view);
        let mut due = space.leftovers.due(Instant::now(), self.config.grace);
        let stray = space
            .stray
            .iter()
            .filter(|rule| unclaimed.contains_key(rule));
        due.extend(stray.cloned());
        due.extend(
            unclaimed
                .iter()
                .filter(|(rule, dead)| {
                    rule.is_plain()
                        && turn.unanswered.contains(&rule.selector)
                        && (**dead || view.served_by(rule).all(|route| route.dev() == own))
                })
                .map(|(rule, _)| (*rule).clone()),
        );
        due
    }

    /// The tables that hold nothing of ours in the end if no rule of ours looks them up: they have
    /// been without one for long enough, or this process or this interface has left them.
    fn orphans(
        &self,
        space: &Space,
        turn: &Turn,
        own: Option<u32>,
        view: &View<'_>,
    ) -> BTreeSet<Place> {
        let settle = self.config.settle();
        let mut orphans = space.leftovers.due_orphans(Instant::now(), settle);
        orphans.extend(turn.claims.given_up());
        orphans.extend(space.litter.iter().copied());
        orphans.extend(view.left_to(own));
        orphans
    }

    /// A close of a connection without a claim: its rules are left to a grace, nothing is written.
    fn name(&self, space: &mut Space, turn: &Turn) -> Result<(), Error> {
        let netns = self.netns.id();
        let mut attempt = 1;
        let actual = loop {
            let reading = self
                .netns
                .open()
                .and_then(|mut kernel| read::read(&mut kernel, self.config.owner));
            match reading {
                Ok(actual) => break actual,
                Err(error) if error.is_transient() && attempt < ATTEMPTS => attempt += 1,
                Err(source) => return Err(Error::Kernel { netns, source }),
            }
        };
        let view = View::new(&actual, self.config.owner);
        let unclaimed = observe(space, turn, &view);
        let now = Instant::now();
        for rule in unclaimed
            .keys()
            .filter(|rule| rule.is_plain() && turn.named.contains(&rule.selector))
        {
            space.leftovers.name(rule, now);
        }
        Ok(())
    }

    /// Takes over what the writes have shown.
    fn remember(
        &self,
        space: &mut Space,
        change: &Change,
        tables: &BTreeMap<Selector, TableId>,
        written: Written,
    ) -> Result<(), Error> {
        let now = Instant::now();
        space.owed.clear();
        space.stray.clear();
        space.litter.clear();
        space.stale.clear();
        space.leftovers.tried();
        for rule in &written.removed {
            space.leftovers.forget(rule);
        }
        space.foreign_legs.extend(written.foreign_legs);
        for leg in &written.own_legs {
            space.foreign_legs.remove(leg);
        }
        // Of what a close leaves, its error names the first.
        let told = usize::from(matches!(change, Change::Close { .. }));
        for (i, (op, refusal)) in written.left.iter().enumerate() {
            match op {
                Op::DelRule(rule) => space.leftovers.postpone(rule, now),
                Op::DelRoute(route) => {
                    space.left(route, tables);
                    space.leftovers.try_again(now + self.config.grace);
                }
                Op::AddRule(_) | Op::AddRoute(..) => {}
            }
            if i >= told {
                let (op, subject) = (op.kind(), op.subject());
                tracing::warn!("cannot {op} {subject}: {refusal}; it is tried again");
            }
        }
        let failed = written.left.len();
        match (change, written.left.into_iter().next()) {
            (Change::Close { .. }, Some((op, source))) => Err(Error::Removal {
                failed,
                total: written.removals,
                subject: op.subject().to_string(),
                source,
            }),
            _ => Ok(()),
        }
    }
}

/// Carries a plan out, and takes note of what is owed when it does not come to its end.
fn carry_out<K: Kernel>(
    mut writer: Writer<'_, K>,
    space: &mut Space,
    plan: &Plan,
) -> Result<Written, Halt> {
    let written = writer.run(plan);
    space.probe_owed = writer.probe_owed;
    for op in writer.left {
        space.owe(op, &plan.tables);
    }
    written
}

/// Takes note of what is left over: the rules of ours that nobody claims, each with whether it is
/// dead, and the tables of ours that no rule looks up.
fn observe<'a>(space: &mut Space, turn: &Turn, view: &View<'a>) -> BTreeMap<&'a Rule, bool> {
    let now = Instant::now();
    let foreign = &space.foreign_legs;
    let is_foreign = |route: &Route| {
        !route.mark_is_known() && plan::leg(route).is_some_and(|leg| foreign.contains(&leg))
    };
    let orphans = view.orphans(is_foreign);
    space.leftovers.observe_orphans(&orphans, now);
    let unclaimed = unclaimed(turn, view);
    space.leftovers.observe(&unclaimed, now);
    unclaimed
}

fn unclaimed<'a>(turn: &Turn, view: &View<'a>) -> BTreeMap<&'a Rule, bool> {
    let claimed = turn.claims.selectors();
    view.our_rules()
        .filter(|rule| !rule.is_plain() || !claimed.contains(&rule.selector))
        .filter(|rule| !(rule.is_plain() && turn.dropped.contains(&rule.selector)))
        .map(|rule| (rule, view.served_by(rule).next().is_none()))
        .collect()
}

/// How many rules that stood have been taken over.
fn adopted(plan: &Plan, desired: &[Desired]) -> u64 {
    let kept = plan.kept.iter();
    kept.filter(|unit| desired[**unit].seat.is_none()).count() as u64
}

/// How many writes restore what stood before and what nobody has asked to be otherwise.
fn drift(plan: &Plan, turn: &Turn, desired: &[Desired]) -> u64 {
    let repaired = plan.steps().filter_map(|step| step.unit).filter(|unit| {
        let desired = &desired[*unit];
        desired.seat.is_some() && (desired.own.is_none() || turn.unchanged)
    });
    repaired.count() as u64
}
