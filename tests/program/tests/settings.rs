//! Behaviours of programs: how settings come in, and what is said of them.

use program_suite::{Ended, Process};

fn run(variables: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let program = env!("CARGO_BIN_EXE_sample-program");
    Process::start(program, variables, arguments).ended()
}

#[test]
fn a_bad_value_is_one_line_and_status_2_wherever_it_comes_from() {
    let words = "sample-program: NSM_REQUEST_TIMEOUT (--request-timeout) cannot be \"15\": \
                 a unit is missing after 15 (ns, us, ms, s, m, h)";
    for ended in [
        run(&[("NSM_REQUEST_TIMEOUT", "15")], &[]),
        run(&[], &["--request-timeout=15"]),
    ] {
        assert_eq!(ended.said, [words]);
        assert_eq!(ended.printed, "");
        assert_eq!(ended.status, Some(2));
    }
}

#[test]
fn every_kind_of_bad_value_is_one_line_that_names_its_setting() {
    for (variable, value) in [
        ("NSM_REQUEST_TIMEOUT", "-1s"),
        ("NSM_REQUEST_TIMEOUT", "0"),
        ("NSM_REQUEST_TIMEOUT", ""),
        ("NSM_NETWORK_SERVICES", "kernel://svc/nsm-1,"),
        (
            "NSM_NETWORK_SERVICES",
            "kernel://svc/a-name-that-is-too-long",
        ),
        ("NSM_LOG_LEVEL", "loud"),
        ("NSM_LOG_FORMAT", "xml"),
        ("NSM_ENDING", "a\nb"),
        ("TELEMETRY", "yes"),
        ("NSM_OPEN_TELEMETRY_ENDPOINT", "http://localhost:4317"),
        ("NSM_METRICS_EXPORT_INTERVAL", "0s"),
        ("NSM_PROMETHEUS_LISTEN_ON", "8081"),
    ] {
        let ended = run(&[(variable, value)], &[]);

        assert_eq!(ended.status, Some(2), "{variable}={value}");
        assert_eq!(ended.said.len(), 1, "{:#?}", ended.said);
        assert!(ended.said[0].contains(variable), "{:?}", ended.said);
    }
}

#[test]
fn a_flag_goes_before_a_variable_and_a_variable_before_a_default() {
    let variables = [("NSM_NAME", "of-the-variable"), ("NSM_REQUESTS", "3")];

    let ended = run(&variables, &["--print-config", "--name=of-the-flag"]);

    assert_eq!(ended.status, Some(0));
    assert_eq!(
        ended.printed,
        "NSM_NAME=of-the-flag\n\
         NSM_REQUEST_TIMEOUT=15s\n\
         NSM_NETWORK_SERVICES=\n\
         NSM_REQUESTS=3\n\
         NSM_ENDING=well\n\
         NSM_SHUTDOWN_TIMEOUT=10s\n\
         NSM_LOG_LEVEL=INFO\n\
         NSM_LOG_FORMAT=text\n\
         TELEMETRY=false\n\
         NSM_OPEN_TELEMETRY_ENDPOINT=otel-collector.observability.svc.cluster.local:4317\n\
         NSM_METRICS_EXPORT_INTERVAL=10s\n\
         NSM_PROMETHEUS_LISTEN_ON=\n"
    );
}

#[test]
fn what_is_printed_is_a_configuration_that_gives_the_same() {
    let first = run(
        &[
            ("NSM_NETWORK_SERVICES", "kernel://svc/nsm-1?a=b"),
            ("TELEMETRY", "T"),
        ],
        &["--print-config"],
    );
    let variables: Vec<_> = first
        .printed
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();

    let second = run(&variables, &["--print-config"]);

    assert_eq!(second.printed, first.printed);
}

#[test]
fn a_flag_without_a_value_turns_something_on() {
    for (flag, value) in [("--telemetry", "true"), ("--telemetry=F", "F")] {
        let printed = run(&[], &["--print-config", flag]).printed;
        assert!(
            printed.contains(&format!("TELEMETRY={value}\n")),
            "{printed}"
        );
    }
}

#[test]
fn help_tells_every_setting() {
    let ended = run(&[], &["--help"]);

    assert_eq!(ended.status, Some(0));
    for words in [
        "NSM_NAME",
        "--name",
        "The name of this program",
        "NSM_PROMETHEUS_LISTEN_ON",
    ] {
        assert!(ended.printed.contains(words), "{}", ended.printed);
    }
}

#[test]
fn an_unknown_variable_is_warned_about_and_does_no_harm() {
    let variables = [
        ("NSM_REQEUST_TIMEOUT", "5s"),
        ("NSM_LOUDNESS", "11"),
        ("OTHER", "1"),
        ("NSM_ENDING", "error"),
    ];

    let ended = run(&variables, &[]);

    let warnings: Vec<_> = ended
        .said
        .iter()
        .filter(|line| line.contains("WARN"))
        .collect();
    assert_eq!(warnings.len(), 2, "{:#?}", ended.said);
    assert!(warnings[0].contains("NSM_LOUDNESS"));
    assert!(warnings[1].contains("NSM_REQUEST_TIMEOUT may be meant"));
}

#[test]
fn variables_that_have_no_effect_here_are_named_in_one_line_and_not_warned_about() {
    let variables = [
        ("NSM_SOUND", "loud"),
        ("NSM_PPROF_ENABLED", "true"),
        ("NSM_PPROF_LISTEN_ON", ":6060"),
        ("NSM_ENDING", "error"),
    ];

    let ended = run(&variables, &[]);

    let told: Vec<_> = ended
        .said
        .iter()
        .filter(|line| line.contains("NSM_"))
        .collect();
    assert_eq!(told.len(), 1, "{:#?}", ended.said);
    assert!(told[0].contains("INFO"), "{told:?}");
    let words = "have no effect here: NSM_SOUND (it is silent); \
                 NSM_PPROF_ENABLED, NSM_PPROF_LISTEN_ON (no profile is served)";
    assert!(told[0].ends_with(words), "{told:?}");
}

#[test]
fn an_error_that_is_about_a_setting_is_one_line_and_status_2() {
    let ended = run(&[("NSM_ENDING", "bad-setting")], &[]);

    assert_eq!(ended.status, Some(2));
    let errors = ended.said.iter().filter(|line| line.contains("ERROR"));
    assert_eq!(errors.count(), 1, "{:#?}", ended.said);
}

#[test]
fn an_error_is_logged_once_with_its_causes_and_the_status_is_1() {
    let ended = run(&[("NSM_ENDING", "error")], &[]);

    assert_eq!(ended.status, Some(1));
    let errors: Vec<_> = ended
        .said
        .iter()
        .filter(|line| line.contains("ERROR"))
        .collect();
    assert_eq!(errors.len(), 1, "{:#?}", ended.said);
    assert!(
        errors[0].contains("error=the sample fails: as it was told"),
        "{errors:?}"
    );
}

#[test]
fn a_log_for_machines_is_one_object_a_line() {
    let ended = run(&[("NSM_ENDING", "error"), ("NSM_LOG_FORMAT", "json")], &[]);

    assert!(ended.said.len() >= 2);
    for line in ended.said {
        assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
        assert!(line.contains("\"message\":"), "{line}");
    }
}
