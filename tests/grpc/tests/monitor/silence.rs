//! Peers that say nothing any more and whose connections stand.

use grpc_suite::{Folder, call, client, connection, request};
use nsm_api::connection::ConnectionEventType::Update;
use nsm_chain::ErrorKind;
use nsm_chain::monitor::Monitor;
use tokio::time::{Duration, Instant, sleep};

use crate::between::Between;
use crate::peer::{Does, Peer};
use crate::{all, heard, lost, monitored, of, standing, watch};

/// Within which a silent peer is found: 5 s until it is asked, 5 s for its answer.
const BOUND: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_frozen_peer_is_found_within_ten_seconds_though_nobody_calls() {
    let folder = Folder::new();
    let peer = Peer::at(&folder.file("s"), Does::Goes);
    let client = client(&folder.socket("s"));
    let mut events = watch(&client, all());
    heard(&mut events).await;
    sleep(Duration::from_secs(600)).await;

    peer.freeze();
    let since = Instant::now();
    let error = lost(&mut events).await;

    assert!(since.elapsed() <= BOUND, "{:?}", since.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let report = error.report().to_string();
    assert!(report.contains("was asked whether it is there"), "{report}");

    // Nobody is kept waiting by the connection to it.
    std::fs::remove_file(folder.file("s")).unwrap();
    let _successor = Peer::at(&folder.file("s"), Does::Goes);
    call(&client, request(connection("a"))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_there_keeps_a_stream_on_which_nothing_happens() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let client = client(&serving.address);
    let mut events = watch(&client, of("a"));
    heard(&mut events).await;

    sleep(Duration::from_secs(900)).await;
    monitor.update(&standing("a"));

    assert_eq!(heard(&mut events).await, (Update, vec![standing("a")]));
}

#[tokio::test]
async fn a_network_that_drops_everything_is_found_and_was_never_pinged() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let _serving = monitored(&folder.socket("s"), &monitor).await;
    let between = Between::and(folder.file("s")).await;
    let client = client(&between.address);
    let mut events = watch(&client, of("a"));
    heard(&mut events).await;
    // It is asked once before.
    sleep(Duration::from_secs(6)).await;
    monitor.update(&standing("a"));
    assert_eq!(heard(&mut events).await, (Update, vec![standing("a")]));

    between.drops_all();
    let since = Instant::now();
    let error = lost(&mut events).await;

    let slack = Duration::from_secs(2);
    assert!(since.elapsed() < BOUND + slack, "{:?}", since.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // A Go server ends the connection of a client that does so (grpc-go, keepalive).
    assert_eq!(between.pings(), 0);
}
