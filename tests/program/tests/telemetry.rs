//! Behaviours of programs: what goes to a collector and to Prometheus, and what a collector that is
//! away does to them.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nix::sys::signal::Signal;
use program_suite::{Collector, Keeps, Process};

fn start(variables: &[(&str, &str)]) -> Process {
    Process::start(env!("CARGO_BIN_EXE_sample-program"), variables, &[])
}

/// An address that nobody listens at.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_and_metrics_reach_the_collector_under_the_programs_name() {
    let collector = Collector::start().await;
    let endpoint = collector.address().to_string();
    let process = start(&[
        ("TELEMETRY", "true"),
        ("NSM_NAME", "sample-7"),
        ("NSM_REQUESTS", "3"),
        ("NSM_LOG_LEVEL", "DEBUG"),
        ("NSM_OPEN_TELEMETRY_ENDPOINT", &endpoint),
        ("NSM_METRICS_EXPORT_INTERVAL", "50ms"),
    ]);

    let requests = |name: &String| name == "nsm.sample.requests";
    collector
        .until(|collected| collected.metrics.iter().any(requests))
        .await;
    process.signal(Signal::SIGTERM);
    assert_eq!(process.ended().status, Some(0));

    // The last spans are sent at the end.
    let collected = collector
        .until(|collected| collected.spans.len() >= 6)
        .await;
    assert_eq!(
        collected.names(),
        [
            "[id: connection-0] [type: networkService] [method: Request]",
            "[id: connection-1] [type: networkService] [method: Request]",
            "[id: connection-2] [type: networkService] [method: Request]",
            "sample/sampleServer.Request",
            "sample/sampleServer.Request",
            "sample/sampleServer.Request",
        ]
    );
    assert!(collected.services.iter().all(|name| name == "sample-7"));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_usual_level_there_is_one_span_for_each_call() {
    let collector = Collector::start().await;
    let endpoint = collector.address().to_string();
    for level in ["INFO", "ERROR"] {
        let mut process = start(&[
            ("TELEMETRY", "true"),
            ("NSM_REQUESTS", "2"),
            ("NSM_ENDING", "error"),
            ("NSM_LOG_LEVEL", level),
            ("NSM_OPEN_TELEMETRY_ENDPOINT", &endpoint),
        ]);
        process.says("the sample fails");
        process.ended();
    }

    let collected = collector
        .until(|collected| collected.spans.len() >= 4)
        .await;
    let calls = |name: &&str| name.ends_with("[method: Request]");
    assert_eq!(
        collected.names().iter().filter(|name| calls(name)).count(),
        4
    );
    assert_eq!(collected.spans.len(), 4);
}

#[test]
fn a_collector_that_is_away_delays_neither_start_nor_end() {
    // Nobody is there, somebody is there and says nothing, and there is no such name.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoints = [
        nobody().to_string(),
        silent.local_addr().unwrap().to_string(),
        "otel-collector.invalid:4317".to_owned(),
    ];
    for endpoint in endpoints {
        let mut process = start(&[
            ("TELEMETRY", "true"),
            ("NSM_REQUESTS", "100"),
            ("NSM_SHUTDOWN_TIMEOUT", "5s"),
            ("NSM_OPEN_TELEMETRY_ENDPOINT", &endpoint),
            ("NSM_METRICS_EXPORT_INTERVAL", "50ms"),
        ]);
        process.says("ready");
        process.signal(Signal::SIGTERM);

        let ended = process.ended();

        assert_eq!(ended.status, Some(0), "{:#?}", ended.said);
        let within = Duration::from_secs(5);
        assert!(ended.took < within, "{endpoint}: {:?}", ended.took);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn that_the_collector_is_away_is_told_once_and_that_it_is_back() {
    let address = nobody();
    let mut process = start(&[
        ("TELEMETRY", "true"),
        ("NSM_OPEN_TELEMETRY_ENDPOINT", &address.to_string()),
        ("NSM_REQUESTS", "1"),
        ("NSM_METRICS_EXPORT_INTERVAL", "20ms"),
    ]);
    process.says("the collector does not take them");

    let collector = Collector::start_at(address, Keeps::Everything).await;

    process.says("the collector is back");
    process.signal(Signal::SIGTERM);
    let ended = process.ended();
    let told = |words: &str| {
        ended
            .said
            .iter()
            .filter(|line| line.contains(words))
            .count()
    };
    assert_eq!(told("does not take them"), 1, "{:#?}", ended.said);
    assert_eq!(told("is back"), 1, "{:#?}", ended.said);
    assert!(!collector.collected().metrics.is_empty());
}

#[test]
fn without_telemetry_nothing_is_sent() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    collector.set_nonblocking(true).unwrap();
    let endpoint = collector.local_addr().unwrap().to_string();
    let mut process = start(&[
        ("NSM_OPEN_TELEMETRY_ENDPOINT", &endpoint),
        ("NSM_REQUESTS", "10"),
        ("NSM_METRICS_EXPORT_INTERVAL", "1ms"),
    ]);
    process.says("ready");
    process.signal(Signal::SIGTERM);
    process.ended();

    assert!(collector.accept().is_err());
}

/// What a page says, status and all.
fn get(address: &str, what: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{what} HTTP/1.1\r\nHost: sample\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn the_same_metrics_are_on_a_page_for_prometheus() {
    let mut process = start(&[
        ("NSM_NAME", "sample-7"),
        ("NSM_REQUESTS", "3"),
        ("NSM_PROMETHEUS_LISTEN_ON", "127.0.0.1:0"),
    ]);
    let line = process.says("metrics are at /metrics");
    let (_, address) = line.split_once("address=").unwrap();
    process.says("ready");

    let page = get(address, "GET /metrics");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("content-type: text/plain"), "{page}");
    assert!(
        page.contains("nsm_sample_requests_total{otel_scope_name=\"sample\"} 3"),
        "{page}"
    );
    assert!(page.contains("service_name=\"sample-7\""), "{page}");

    assert!(get(address, "GET /").starts_with("HTTP/1.1 404 "));
    assert!(get(address, "POST /metrics").starts_with("HTTP/1.1 405 "));
    let mut garbage = TcpStream::connect(address).unwrap();
    garbage.write_all(b"\x16\x03\x01 garbage\r\n\r\n").unwrap();
    assert!(get(address, "GET /metrics").starts_with("HTTP/1.1 200 OK\r\n"));

    process.signal(Signal::SIGTERM);
    assert_eq!(process.ended().status, Some(0));
}

#[test]
fn a_page_that_cannot_be_there_is_an_error_at_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let ended = start(&[("NSM_PROMETHEUS_LISTEN_ON", &address)]).ended();

    assert_eq!(ended.status, Some(1));
    assert_eq!(ended.said.len(), 1, "{:#?}", ended.said);
    assert!(ended.said[0].contains(&address), "{:?}", ended.said);
}
