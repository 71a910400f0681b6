//! Behaviours of the kernel elements of a forwarder, on the real kernel.

// A test that fails panics, and without the standard harness the lints don't know that it is one.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod addresses;
mod bad_input;
mod close;
mod first_packet;
mod gone;
mod killed;
mod names;
mod neighbours;
mod pair;
mod received;
mod release;
mod repair;
mod restart;
mod routes;
mod world;

use injection_suite::Writes;
use kernel_suite::sandbox;
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

/// The cases of a file.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::trial(stringify!($case), || injection_suite::run($case()))),*]
        }
    };
}
use cases;

fn trial(name: &'static str, case: fn()) -> Trial {
    Trial::test(name, move || {
        case();
        Ok(())
    })
}

fn main() -> ExitCode {
    if let Some(victim) = killed::Victim::of_this_process() {
        victim.act();
        return ExitCode::SUCCESS;
    }
    let sandboxed = match sandbox::enter_or_skip("the kernel elements on the real kernel") {
        Ok(sandboxed) => sandboxed,
        Err(missing) => {
            eprintln!("error: {}", missing.explain());
            return ExitCode::FAILURE;
        }
    };
    Writes::count();
    let mut arguments = Arguments::from_args();
    // What is written is counted for the whole process.
    arguments.test_threads = Some(1);
    let trials: Vec<Trial> = [
        pair::trials(),
        first_packet::trials(),
        addresses::trials(),
        routes::trials(),
        neighbours::trials(),
        names::trials(),
        repair::trials(),
        restart::trials(),
        killed::trials(),
        close::trials(),
        release::trials(),
        gone::trials(),
        bad_input::trials(),
        received::trials(),
    ]
    .into_iter()
    .flatten()
    .map(|trial| trial.with_ignored_flag(!sandboxed))
    .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
