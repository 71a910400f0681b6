//! Behaviours of the `policyroute` element, each on the fake and on the real kernel.

#![allow(clippy::unwrap_used, reason = "a call that must go well")]

mod answers;
mod bad_input;
mod cancellation;
mod change;
mod claims;
mod close;
mod closed_below;
mod contention;
mod crash;
mod crowd;
mod drift;
mod fights;
mod first_request;
mod foreign;
mod in_real_time;
mod leftover_routes;
mod leftovers;
mod legs;
mod limits;
mod lives;
mod moves;
mod owners;
mod parallel;
mod preconditions;
mod probe;
mod processes;
mod refresh;
mod refusals;
mod refused_close;
mod restart;
mod selectors;
mod shadows;
mod shared_table;
mod silence;
mod turns;
mod watched;
mod watching;

use kernel_suite::sandbox::{self, Missing};
use libtest_mimic::{Arguments, Trial};
use policyroute_suite::{Fake, Machine, Real};
use std::process::ExitCode;
use std::time::Duration;

/// The cases of a file, as a function that gives them on one kernel.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        pub(crate) fn trials<M: policyroute_suite::Machine>() -> Vec<libtest_mimic::Trial> {
            vec![$(policyroute_suite::trial::<M, _, _>(stringify!($case), $case::<M>)),*]
        }
    };
}
use cases;

fn main() -> Result<ExitCode, Missing> {
    if let Some(exit) = processes::is_one() {
        return Ok(exit);
    }
    let sandboxed = sandbox::enter_or_skip("policyroute on the real kernel")?;
    let mut trials = all::<Fake>();
    if sandboxed {
        trials.extend(all::<Real>());
        trials.extend(processes::trials());
        trials.extend(in_real_time::trials());
    }
    Ok(libtest_mimic::run(&Arguments::from_args(), trials).exit_code())
}

fn all<M: Machine>() -> Vec<Trial> {
    [
        first_request::trials::<M>(),
        selectors::trials::<M>(),
        refresh::trials::<M>(),
        drift::trials::<M>(),
        watched::trials::<M>(),
        watching::trials::<M>(),
        fights::trials::<M>(),
        restart::trials::<M>(),
        shared_table::trials::<M>(),
        change::trials::<M>(),
        foreign::trials::<M>(),
        shadows::trials::<M>(),
        legs::trials::<M>(),
        claims::trials::<M>(),
        moves::trials::<M>(),
        close::trials::<M>(),
        refused_close::trials::<M>(),
        closed_below::trials::<M>(),
        silence::trials::<M>(),
        leftovers::trials::<M>(),
        leftover_routes::trials::<M>(),
        bad_input::trials::<M>(),
        preconditions::trials::<M>(),
        refusals::trials::<M>(),
        contention::trials::<M>(),
        answers::trials::<M>(),
        crash::trials::<M>(),
        limits::trials::<M>(),
        probe::trials::<M>(),
        parallel::trials::<M>(),
        cancellation::trials::<M>(),
        turns::trials::<M>(),
        owners::trials::<M>(),
        crowd::trials::<M>(),
        lives::trials::<M>(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How long a left-over is let stand.
const GRACE: Duration = Duration::from_secs(15 * 60);

/// How fast it is repaired what others change, where that is watched.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Waits until something holds, and no longer than for what is done at once.
async fn at_once(what: &str, holds: impl Fn() -> bool) {
    within(AT_ONCE, what, holds).await;
}

/// Waits until something holds.
async fn within(time: Duration, what: &str, holds: impl Fn() -> bool) {
    let start = tokio::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < time, "{what}: not within {time:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Lets paused time pass in small steps: each looks at what has been heard, too.
async fn live(time: Duration) {
    let end = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Lets paused time pass, and all come to its end that is due within.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
    // Time goes on only when nobody works any more.
    tokio::time::sleep(Duration::from_millis(1)).await;
}
