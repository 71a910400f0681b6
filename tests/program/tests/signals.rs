//! Behaviours of programs: what signals do.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

use std::time::Duration;

use nix::sys::signal::Signal;
use program_suite::Process;

fn start(variables: &[(&str, &str)]) -> Process {
    let program = env!("CARGO_BIN_EXE_sample-program");
    let mut process = Process::start(program, variables, &[]);
    process.says("ready");
    process
}

#[test]
fn each_signal_that_asks_for_the_end_ends_it_well() {
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        let process = start(&[]);
        process.signal(signal);

        let ended = process.ended();

        assert_eq!(ended.status, Some(0), "{:#?}", ended.said);
        assert!(ended.said.iter().any(|line| line.contains(signal.as_str())));
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut process = start(&[("NSM_ENDING", "never")]);
    process.signal(Signal::SIGTERM);
    process.says("stopping");

    process.signal(Signal::SIGINT);

    let ended = process.ended();
    assert_eq!(ended.status, Some(130));
    assert!(ended.took < Duration::from_secs(2), "{:?}", ended.took);
}

#[test]
fn an_end_that_does_not_come_is_not_waited_for_longer_than_it_may_take() {
    let process = start(&[("NSM_ENDING", "never"), ("NSM_SHUTDOWN_TIMEOUT", "1s")]);
    process.signal(Signal::SIGTERM);

    let ended = process.ended();

    assert_eq!(ended.status, Some(1));
    assert!(
        ended
            .said
            .iter()
            .any(|line| line.contains("not ended in time"))
    );
    assert!(ended.took < Duration::from_secs(3), "{:?}", ended.took);
}

#[test]
fn a_signal_makes_it_log_everything_and_another_what_its_setting_says() {
    let mut process = start(&[]);
    process.signal(Signal::SIGUSR1);
    process.says("everything is logged");
    process.says("tick");
    process.signal(Signal::SIGUSR2);
    process.says("SIGUSR2");
    process.signal(Signal::SIGTERM);

    let ended = process.ended();

    let quiet = ended.said.iter().rposition(|line| line.contains("SIGUSR2"));
    let after = &ended.said[quiet.unwrap()..];
    assert!(
        !after.iter().any(|line| line.contains("tick")),
        "{after:#?}"
    );
}

#[test]
fn the_level_of_the_setting_counts_from_the_first_line() {
    for (level, ticks) in [("trace", true), ("TRACE", true), ("debug", false)] {
        let mut process = Process::start(
            env!("CARGO_BIN_EXE_sample-program"),
            &[("NSM_LOG_LEVEL", level)],
            &[],
        );
        process.says(if ticks { "tick" } else { "ready" });
        process.signal(Signal::SIGTERM);
        let said = process.ended().said;
        assert_eq!(said.iter().any(|line| line.contains("tick")), ticks);
    }
    // At error, an end that goes well says nothing.
    let process = Process::start(
        env!("CARGO_BIN_EXE_sample-program"),
        &[("NSM_LOG_LEVEL", "panic"), ("NSM_ENDING", "error")],
        &[],
    );
    assert_eq!(process.ended().said.len(), 1);
}
