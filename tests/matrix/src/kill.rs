//! The kill matrix: a process is killed before and after each send of each flow, and another one gets
//! the requests again.

use crate::between::between;
use crate::checks;
use crate::child::{self, Fate};
use crate::clean::Clean;
use crate::flow::Flow;
use crate::leg::Leg;
use crate::lent::{Estate, Lent};
use crate::picture::Picture;
use crate::rest::{Goodbye, at_least, converged, refreshes_write_nothing};
use crate::tally::Tally;
use crate::twist::Side;
use crate::watchdog::Watched;
use crate::world::World;
use libtest_mimic::{Failed, Trial};
use nix::libc::SIGKILL;
use policyroute_suite::Machine;
use std::os::unix::process::ExitStatusExt;

/// All kills of a flow, as a test of the runner's.
pub fn trial(flow: Flow, only: Option<&str>, tally: &Tally) -> Trial {
    let (only, tally) = (only.map(str::to_owned), tally.clone());
    Trial::test(format!("{}::kills::{}", Lent::NAME, flow.name), move || {
        crate::paused(async {
            let clean = Clean::run::<Lent>(&flow).await.map_err(Failed::from)?;
            let sends = 1..=clean.sends;
            let kills =
                sends.flat_map(|at| [Fate::Dies(at, Side::Before), Fate::Dies(at, Side::After)]);
            let is_asked = |fate: &Fate| {
                only.as_ref()
                    .is_none_or(|only| fate.to_string().contains(only))
            };
            let kills: Vec<Fate> = kills.filter(is_asked).collect();
            tally.add("kills", flow.name, kills.len());
            let mut wrong = Vec::new();
            for fate in &kills {
                let _watched = Watched::new(format!("{}: {fate}", flow.name));
                if let Err(reason) = run(&flow, &clean, *fate).await {
                    wrong.push((fate.to_string(), reason));
                }
            }
            crate::verdict(kills.len(), wrong)
        })
    })
}

async fn run(flow: &Flow, clean: &Clean, fate: Fate) -> Result<(), String> {
    let pods = Estate::create(flow.pods());
    let child = child::run(flow, fate, &pods).map_err(|error| error.to_string())?;
    if child.status.signal() != Some(SIGKILL) {
        return Err(format!("the child was not killed: {child:?}"));
    }
    pods.lend();
    let mut world = World::<Lent>::after_a_death(flow);
    let dead = world.pictures();
    checks::others_are_untouched(&clean.old, &dead, None)?;
    between(&clean.old, &clean.new, &dead)?;

    Leg::Restart.go(flow, &mut world).await?;
    world.pass_grace().await;
    let now = world.pictures();
    checks::others_are_untouched(&clean.old, &now, None)?;
    // No connection returns to a pod that was left: its rules wait for a goodbye.
    let is_left = flow.pods() > 1;
    match is_left {
        true => at_least(&now, clean.end(Leg::Restart), &clean.old)?,
        false => converged(&now, clean.end(Leg::Restart))?,
    }
    checks::memory_is_the_claims(&world, &now, false)?;
    refreshes_write_nothing(&mut world).await?;
    let before: &[Picture] = &clean.old;
    Goodbye {
        flow,
        before,
        guest: None,
        names_everything: is_left,
    }
    .say(&mut world)
    .await
}
