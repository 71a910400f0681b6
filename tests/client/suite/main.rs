//! What a client does in its own network namespace.

// A test that fails panics, and without the standard harness the lints don't know that it is one.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[cfg(target_os = "linux")]
mod dns;
#[cfg(target_os = "linux")]
mod dns_file;
#[cfg(target_os = "linux")]
mod liveness;
#[cfg(target_os = "linux")]
mod log;
#[cfg(target_os = "linux")]
mod names;

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("SKIPPED: network namespaces exist on Linux only");
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use nsm_netlink::sandbox;

    let arguments = libtest_mimic::Arguments::from_args();
    match sandbox::enter_or_skip("a client in its namespace") {
        Ok(true) => {}
        Ok(false) => return ExitCode::SUCCESS,
        Err(missing) => {
            eprintln!("{}", missing.explain());
            return ExitCode::FAILURE;
        }
    }
    let all = [liveness::all(), dns::all(), dns_file::all()];
    let all = all.into_iter().flatten().collect();
    libtest_mimic::run(&arguments, all).exit_code()
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
pub(crate) use trials;
