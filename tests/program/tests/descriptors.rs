//! Behaviours of programs: how many descriptors they may have open.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

use std::fs;

use nix::sys::signal::Signal;
use program_suite::Process;

#[test]
fn a_program_may_open_as_many_descriptors_as_it_may_allow_itself() {
    let with_limits = "ulimit -Sn 64 && ulimit -Hn 512 && exec \"$0\"";
    let mut process = Process::start(
        "/bin/sh",
        &[("NSM_LOG_LEVEL", "DEBUG")],
        &["-c", with_limits, env!("CARGO_BIN_EXE_sample-program")],
    );
    process.says("ready");

    let limits = fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    process.signal(Signal::SIGTERM);
    let ended = process.ended();

    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let limits: Vec<_> = line.unwrap().split_whitespace().skip(3).take(2).collect();
    assert_eq!(limits, ["512", "512"]);
    let told = |line: &String| line.contains("DEBUG") && line.contains("from=64 to=512");
    assert!(ended.said.iter().any(told), "{:#?}", ended.said);
    assert_eq!(ended.status, Some(0));
}
