//! Everything that can go wrong at every netlink operation of `policyroute`, and every death.
//!
//! The default run takes each operation with each thing that can go wrong there on the fake kernel,
//! a sample of that on the real one, and all kills. `NSM_MATRIX=full` takes everything on both, each
//! with all ways back. `NSM_CELL=TEXT` takes the cells, or the kill, whose coordinates have that
//! text in them, as a failure tells them: together with the name of a flow, one cell alone.

#![allow(clippy::print_stderr, reason = "for whoever runs the tests")]

use kernel_suite::sandbox::{self, Missing};
use libtest_mimic::{Arguments, Trial};
use matrix::child::{self, Fate};
use matrix::fault::{self, cell::Extent};
use matrix::lent::Lent;
use matrix::tally::Tally;
use matrix::{descriptors, flows, kill, refusal, watchdog};
use policyroute_suite::Fake;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Missing> {
    if let Some(end) = child::is_one() {
        return Ok(end);
    }
    let sandboxed = sandbox::enter_or_skip("the matrices on the real kernel")?;
    let tally = Tally::default();
    let mut trials = on_the_fake(&tally);
    if sandboxed {
        trials.extend(on_the_kernel(&tally));
    }
    let mut arguments = Arguments::from_args();
    // Who makes and ends namespaces waits more than he works.
    arguments.test_threads.get_or_insert(8);
    watchdog::start();
    let before = descriptors();
    let conclusion = libtest_mimic::run(&arguments, trials);
    eprint!("{tally}");
    let after = descriptors();
    // The far ends of all interfaces stay.
    if after > before + 1 {
        eprintln!("error: {before} descriptors were open before, {after} are now");
        return Ok(ExitCode::FAILURE);
    }
    Ok(conclusion.exit_code())
}

fn is_full() -> bool {
    std::env::var("NSM_MATRIX").is_ok_and(|value| value == "full")
}

fn on_the_fake(tally: &Tally) -> Vec<Trial> {
    let only = std::env::var("NSM_CELL").ok();
    let extent = if is_full() {
        Extent::Full
    } else {
        Extent::InTurns(1)
    };
    let trials = flows::all().into_iter().flat_map(|flow| {
        [
            fault::trial::<Fake>(flow.clone(), extent, only.as_deref(), tally),
            refusal::of_an_interface::<Fake>(flow, tally),
        ]
    });
    trials.collect()
}

fn on_the_kernel(tally: &Tally) -> Vec<Trial> {
    let only = std::env::var("NSM_CELL").ok();
    let extent = if is_full() {
        Extent::Full
    } else {
        Extent::InTurns(29)
    };
    let trials = flows::all().into_iter().flat_map(|flow| {
        [
            fault::trial::<Lent>(flow.clone(), extent, only.as_deref(), tally),
            kill::trial(flow.clone(), only.as_deref(), tally),
            refusal::of_an_interface::<Lent>(flow.clone(), tally),
            refusal::of_a_child(flow.clone(), Fate::IsPowerless, tally),
            refusal::of_a_child(flow, Fate::IsFull, tally),
        ]
    });
    trials.collect()
}
