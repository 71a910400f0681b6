//! The demo as its user runs it: exit status, JSON, and the report.

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use std::env;
use std::io;
use std::process::{Command, ExitCode, Output};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let probe = match demo(&["--restarts", "1", "--json"]) {
        Ok(probe) => probe,
        Err(error) => {
            eprintln!("cannot start the demo: {error}");
            return ExitCode::FAILURE;
        }
    };
    if probe.status.code() == Some(2) {
        let reason = String::from_utf8_lossy(&probe.stderr);
        let required = env::var_os("NSM_REQUIRE_NETNS").is_some_and(|value| value == "1");
        eprintln!(
            "SKIPPED: {} (NSM_REQUIRE_NETNS=1 makes it a failure)",
            reason.trim()
        );
        return ExitCode::from(u8::from(required));
    }
    let trials = vec![
        Trial::test("rules_and_datagrams_keep_their_way", keeps),
        Trial::test(
            "nothing_leaves_by_eth0_where_policies_fail_closed",
            fails_closed,
        ),
        Trial::test("to_recreate_goes_wrong_and_the_verdict_says_so", recreate),
        Trial::test("more_connections_and_policies_are_kept_as_well", scaled),
        Trial::test("a_seed_is_repeated_and_printed", seed),
        Trial::test(
            "the_report_fits_a_terminal_and_has_no_colour_in_a_pipe",
            report,
        ),
        Trial::test("colour_is_there_where_it_is_asked_for", colour),
        Trial::test("what_makes_no_sense_is_refused_with_status_2", refused),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn demo(arguments: &[&str]) -> io::Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_forwarder-restart"))
        .args(arguments)
        .env_remove("CLICOLOR_FORCE")
        .output()
}

/// The JSON of three restarts, and the exit status.
fn figures(arguments: &[&str]) -> Result<(Value, Option<i32>), Failed> {
    let output = demo(&[&["--restarts", "3", "--json"], arguments].concat())?;
    let lines = String::from_utf8(output.stdout)?;
    assert_eq!(lines.lines().count(), 1, "one object on one line: {lines}");
    Ok((serde_json::from_str(&lines)?, output.status.code()))
}

fn number(figures: &Value, name: &str) -> u64 {
    figures[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} is no number in {figures}"))
}

fn is_well(figures: &Value) {
    assert_eq!(figures["ok"], true, "{figures}");
    for name in [
        "rule_events",
        "foreign_changed",
        "leaked_packets",
        "lost_packets",
    ] {
        assert_eq!(number(figures, name), 0, "{name} in {figures}");
    }
    assert_eq!(
        number(figures, "rules_kept"),
        number(figures, "rules_before")
    );
    assert!(number(figures, "served_packets") > 0);
    assert!(number(figures, "unserved_packets") > 0);
}

fn keeps() -> Result<(), Failed> {
    let (figures, status) = figures(&[])?;

    is_well(&figures);
    assert_eq!(
        (
            number(&figures, "restarts"),
            number(&figures, "rules_before")
        ),
        (3, 8)
    );
    assert_eq!(status, Some(0));
    Ok(())
}

fn fails_closed() -> Result<(), Failed> {
    let (figures, status) = figures(&["--fail-closed"])?;

    is_well(&figures);
    assert_eq!(number(&figures, "eth0_packets"), 0);
    assert!(number(&figures, "refused_packets") > 0);
    assert_eq!(status, Some(0));
    Ok(())
}

fn recreate() -> Result<(), Failed> {
    let (figures, status) = figures(&["--recreate"])?;

    assert_eq!(figures["ok"], false, "{figures}");
    let kept = number(&figures, "rules_kept");
    assert!(
        number(&figures, "leaked_packets") > 0 || kept < number(&figures, "rules_before"),
        "{figures}"
    );
    assert!(number(&figures, "foreign_changed") > 0, "{figures}");
    assert_eq!(status, Some(1));
    Ok(())
}

fn scaled() -> Result<(), Failed> {
    let (figures, status) = figures(&["--connections", "5", "--policies", "7"])?;

    is_well(&figures);
    assert_eq!(number(&figures, "rules_before"), 70);
    assert_eq!(status, Some(0));
    Ok(())
}

fn seed() -> Result<(), Failed> {
    let (figures, _) = figures(&["--seed", "4711"])?;

    assert_eq!(number(&figures, "seed"), 4711);
    Ok(())
}

fn report() -> Result<(), Failed> {
    for (mode, table, verdict) in [
        (None, "from 214.14.131.113 lookup 20000 proto 78", " OK "),
        (
            Some("--fail-closed"),
            "from 214.14.131.113 lookup 20000 proto 78",
            " OK ",
        ),
        (Some("--recreate"), "from 214.14.131.113 lookup 1", "NOT OK"),
    ] {
        let arguments: Vec<&str> = ["--restarts", "2"].into_iter().chain(mode).collect();
        let output = demo(&arguments)?;
        let text = String::from_utf8(output.stdout)?;

        for expected in [table, "default via 172.16.1.1 dev nsm-0", verdict] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
        assert!(!text.contains('\x1b'), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        let progress = String::from_utf8(output.stderr)?;
        assert!(progress.contains("restart 2 of 2"), "{progress}");
    }
    Ok(())
}

fn colour() -> Result<(), Failed> {
    let text = String::from_utf8(demo(&["--restarts", "1", "--color", "always"])?.stdout)?;

    assert!(text.contains("\x1b["), "{text}");
    Ok(())
}

fn refused() -> Result<(), Failed> {
    for arguments in [&["--restarts", "0"][..], &["--recreate", "--fail-closed"]] {
        assert_eq!(demo(arguments)?.status.code(), Some(2), "{arguments:?}");
    }
    Ok(())
}
