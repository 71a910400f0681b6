//! Bad days of clients, a forwarder and endpoints.

// A test that fails panics, and without the standard harness the lints don't know that it is one.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[cfg(target_os = "linux")]
mod cases;

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
    libtest_mimic::run(&arguments, cases::all()).exit_code()
}
