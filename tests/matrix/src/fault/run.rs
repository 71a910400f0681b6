//! One cell, run and held against the contract.

use super::armed::Armed;
use super::cell::{Cell, Wrong};
use super::expect;
use crate::between::between;
use crate::checks;
use crate::clean::Clean;
use crate::flow::{Call, Flow};
use crate::leg::Leg;
use crate::operation::Purpose;
use crate::picture::{Picture, STRAY, lines};
use crate::rest::{Goodbye, at_least, converged, refreshes_write_nothing};
use crate::world::World;
use nsm_chain::ErrorKind;
use policyroute_suite::Machine;

/// Runs a cell.
///
/// # Errors
/// What is not as the contract says.
pub async fn run<M: Machine>(flow: &Flow, clean: &Clean, cell: &Cell) -> Result<(), String> {
    let mut world = World::<M>::before(flow).await;
    let before = world.pictures();
    let had_a_claim = world.ledger.claims_for(&flow.call);
    let armed = Armed::new(cell, &world);

    let outcome = world.call(&flow.call).await;
    let kind = outcome.as_ref().err().map(|error| error.kind());
    let report = outcome.err().map(|error| error.report().to_string());
    if armed.is_unmet(&world) {
        return Err(format!(
            "nobody has met the fault; the call ended with {report:?}"
        ));
    }
    let ends = expect::ends(flow, &clean.operations, cell);
    if !ends.contains(&kind) {
        return Err(format!(
            "the call ends with {report:?}, and should with {ends:?}"
        ));
    }
    let run = Run {
        flow,
        clean,
        cell,
        armed,
        before,
        kind,
        had_a_claim,
    };
    run.at_once(&world)?;

    world.journal.untwist();
    world.pods.iter().for_each(|pod| pod.faults.clear());
    if cell.leg != Leg::Goodbye {
        cell.leg.go(flow, &mut world).await?;
        if cell.is_believed() {
            world.bystander().await?;
        }
        world.pass_grace().await;
        run.at_rest(&world)?;
        refreshes_write_nothing(&mut world).await?;
    }
    let goodbye = Goodbye {
        flow,
        before: &run.before,
        guest: run.armed.guest.as_ref(),
        names_everything: run.loses_sight(),
    };
    goodbye.say(&mut world).await
}

/// A cell whose call has been made.
struct Run<'a> {
    flow: &'a Flow,
    clean: &'a Clean,
    cell: &'a Cell,
    armed: Armed,
    before: Vec<Picture>,
    kind: Option<ErrorKind>,
    had_a_claim: bool,
}

impl Run<'_> {
    /// Right after the call.
    fn at_once<M: Machine>(&self, world: &World<M>) -> Result<(), String> {
        let Self {
            cell,
            clean,
            before,
            ..
        } = self;
        let now = &world.pictures()[..];
        let well = self.kind.is_none();
        checks::others_are_untouched(before, now, self.armed.guest.as_ref())?;
        checks::memory_is_the_claims(world, now, !(well && cell.heals()))?;
        if cell.is_believed() {
            return Ok(());
        }
        between(&clean.old, &clean.new, now)?;
        let refused = matches!(cell.wrong, Wrong::Refused(_));
        let purpose = cell.operation.purpose();
        if refused && purpose == Some(Purpose::Own) && !well && now != before {
            return Err(format!("a refusal leaves {:?}", lines(now)));
        }
        if well && cell.heals() {
            rules_are(now, &clean.new)?;
        }
        // Who is faster has changed a rule, and a probe that is refused is none.
        let is_excused = cell.wrong == Wrong::Faster || refused && purpose == Some(Purpose::Probe);
        if well && !is_excused && (cell.is_heard(self.flow) || cell.heals()) {
            checks::sockets_look_again(world, before)?;
        }
        Ok(())
    }

    /// After the way back, when nothing waits any more.
    fn at_rest<M: Machine>(&self, world: &World<M>) -> Result<(), String> {
        let Self { clean, cell, .. } = self;
        let now = &world.pictures()[..];
        checks::others_are_untouched(&self.before, now, self.armed.guest.as_ref())?;
        let is_undone = self.has_failed() && !self.closes_a_claim();
        match cell.leg {
            Leg::Bystander if is_undone && (self.had_a_claim || self.is_close()) => {
                converged(now, &clean.uncalled)?;
            }
            Leg::Bystander if is_undone && cell.is_believed() => {}
            // Nobody claims what a request that failed has found or has left.
            Leg::Bystander if is_undone => between(&clean.old, &clean.new, now)?,
            leg if self.loses_sight() => at_least(now, clean.end(leg), &clean.old)?,
            leg => converged(now, clean.end(leg))?,
        }
        checks::memory_is_the_claims(world, now, false)
    }

    fn has_failed(&self) -> bool {
        self.kind.is_some() && self.kind != self.flow.fails
    }

    fn is_close(&self) -> bool {
        matches!(self.flow.call, Call::Close { .. })
    }

    fn closes_a_claim(&self) -> bool {
        self.is_close() && self.had_a_claim
    }

    /// Whether old rules may stand of which nobody knows any more: a dump has never shown them, or
    /// the process that knew them has ended and its clients do not name them.
    fn loses_sight(&self) -> bool {
        let forgets = !self.cell.heals() && (!self.has_failed() || self.flow.pods() > 1);
        self.cell.is_believed() || self.cell.leg == Leg::Restart && forgets
    }
}

/// The rules are there and lead where they should; what no rule looks up may wait for its end.
fn rules_are(now: &[Picture], wanted: &[Picture]) -> Result<(), String> {
    let rules = |pictures: &[Picture]| -> Vec<String> {
        lines(pictures)
            .into_iter()
            .filter(|line| !line.contains(STRAY))
            .collect()
    };
    if rules(now) != rules(wanted) {
        return Err(format!(
            "stands {:#?}, wanted is {:#?}",
            lines(now),
            lines(wanted)
        ));
    }
    checks::is_tidy(now)
}
