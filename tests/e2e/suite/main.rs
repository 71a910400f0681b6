//! Bad days of clients, a forwarder and endpoints.

#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod kills;

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
    let arguments = libtest_mimic::Arguments::from_args();
    match sandbox::enter_or_skip("the programs as processes") {
        Ok(true) => {}
        Ok(false) => return ExitCode::SUCCESS,
        Err(missing) => {
            eprintln!("{}", missing.explain());
            return ExitCode::FAILURE;
        }
    }
    let trials = [ends::all(), kills::all()].into_iter().flatten();
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
