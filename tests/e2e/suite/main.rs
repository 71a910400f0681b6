//! Bad days of a client, a forwarder and an endpoint.

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
    let arguments = libtest_mimic::Arguments::from_args();
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
