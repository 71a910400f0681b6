//! The demo as its user runs it: exit status and report.

use libtest_mimic::{Arguments, Failed, Trial};
use std::env;
use std::io;
use std::process::{Command, ExitCode, Output};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let shown = match demo(&["--restarts", "20"]) {
        Ok(shown) => shown,
        Err(error) => {
            eprintln!("cannot start the demo: {error}");
            return ExitCode::FAILURE;
        }
    };
    let errors = String::from_utf8_lossy(&shown.stderr).into_owned();
    if shown.status.code() == Some(2) {
        let required = env::var_os("NSM_REQUIRE_NETNS").is_some_and(|value| value == "1");
        eprintln!(
            "SKIPPED: {} (NSM_REQUIRE_NETNS=1 makes it a failure)",
            errors.trim()
        );
        return ExitCode::from(u8::from(required));
    }
    let trials = vec![
        Trial::test(
            "twenty_killed_forwarders_cost_no_rule_and_traffic_is_back_within_a_second_of_each",
            move || is_well(&shown),
        ),
        Trial::test("what_makes_no_sense_is_refused_with_status_2", refused),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn demo(arguments: &[&str]) -> io::Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_three-processes"))
        .args(arguments)
        .output()
}

fn is_well(shown: &Output) -> Result<(), Failed> {
    let text = String::from_utf8_lossy(&shown.stdout);
    let errors = String::from_utf8_lossy(&shown.stderr);
    assert_eq!(shown.status.code(), Some(0), "{text}\n{errors}");
    for expected in [
        "from 214.14.131.113 lookup 2000",
        "default via 172.16.16.0 dev nsm-1",
        "4 of 4 kept",
        "After 20 kills and a roll-out",
        "   OK  ",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    Ok(())
}

fn refused() -> Result<(), Failed> {
    assert_eq!(demo(&["--restarts", "0"])?.status.code(), Some(2));
    Ok(())
}
