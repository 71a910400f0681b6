//! Bad days of clients, a forwarder and endpoints.

// A test that fails panics, and without the standard harness the lints don't know that it is one.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[cfg(target_os = "linux")]
mod bad_calls;
#[cfg(target_os = "linux")]
mod bad_peers;
#[cfg(target_os = "linux")]
mod changes;
#[cfg(target_os = "linux")]
mod clocks;
#[cfg(target_os = "linux")]
mod closes;
#[cfg(target_os = "linux")]
mod deadlines;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod endpoint;
#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod expiry;
#[cfg(target_os = "linux")]
mod gone;
#[cfg(target_os = "linux")]
mod kills;
#[cfg(target_os = "linux")]
mod long_run;
#[cfg(target_os = "linux")]
mod lost_answers;
#[cfg(target_os = "linux")]
mod restarts;
#[cfg(target_os = "linux")]
mod returns;
#[cfg(target_os = "linux")]
mod socket_paths;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod stubborn;
#[cfg(target_os = "linux")]
mod telemetry;

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("SKIPPED: network namespaces exist on Linux only");
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use nsm_netlink::sandbox;

    if let Some(program) = e2e::called_as() {
        return program();
    }
    let mut arguments = libtest_mimic::Arguments::from_args();
    // Most of a case is to wait for others.
    arguments.test_threads.get_or_insert(6);
    match sandbox::enter_or_skip("the programs as processes") {
        Ok(true) => {}
        Ok(false) => return ExitCode::SUCCESS,
        Err(missing) => {
            eprintln!("{}", missing.explain());
            return ExitCode::FAILURE;
        }
    }
    let trials = [
        bad_peers::all(),
        changes::all(),
        clocks::all(),
        closes::all(),
        deadlines::all(),
        descriptors::all(),
        endpoint::all(),
        ends::all(),
        expiry::all(),
        gone::all(),
        kills::all(),
        long_run::all(),
        lost_answers::all(),
        restarts::all(),
        returns::all(),
        socket_paths::all(),
        sockets::all(),
        stubborn::all(),
        telemetry::all(),
    ];
    let trials = trials.into_iter().flatten();
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Trials of these functions, under their names.
#[cfg(target_os = "linux")]
macro_rules! trials {
    ($($case:ident),+ $(,)?) => {
        vec![$(libtest_mimic::Trial::test(stringify!($case), || {
            $case();
            Ok(())
        })),+]
    };
}
#[cfg(target_os = "linux")]
use trials;
