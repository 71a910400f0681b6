//! What a stream tells, and to whom.

use grpc_suite::{Folder, Serving, client, connection};
use nsm_api::connection::ConnectionEventType::{Delete, InitialStateTransfer, Update};
use nsm_api::connection::{Connection, MonitorScopeSelector, State};
use nsm_chain::monitor::Monitor;
use nsm_chain::{BoxNetworkService, End, ErrorKind};
use nsm_grpc::Server;

use crate::{all, heard, lost, monitored, of, segment, standing, watch};

#[tokio::test]
async fn a_stream_begins_with_what_there_is_and_tells_each_change() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let client = client(&serving.address);
    monitor.update(&standing("a"));

    let mut everything = watch(&client, all());
    let mut one = watch(&client, of("b"));
    let there = heard(&mut everything).await;
    assert_eq!(there, (InitialStateTransfer, vec![standing("a")]));
    assert_eq!(heard(&mut one).await, (InitialStateTransfer, vec![]));

    monitor.update(&standing("b"));
    let id = "b".try_into().unwrap();
    monitor.state(&id, State::RefreshRequested);
    monitor.delete(&"a".try_into().unwrap());
    monitor.delete(&id);

    let mut waiting = standing("b");
    waiting.set_state(State::RefreshRequested);
    assert_eq!(heard(&mut everything).await, (Update, vec![standing("b")]));
    assert_eq!(
        heard(&mut everything).await,
        (Update, vec![waiting.clone()])
    );
    assert_eq!(heard(&mut everything).await, (Delete, vec![standing("a")]));
    assert_eq!(
        heard(&mut everything).await,
        (Delete, vec![waiting.clone()])
    );
    assert_eq!(heard(&mut one).await, (Update, vec![standing("b")]));
    assert_eq!(heard(&mut one).await, (Update, vec![waiting.clone()]));
    assert_eq!(heard(&mut one).await, (Delete, vec![waiting]));
    drop((everything, one));
    serving.stop().await;
}

#[tokio::test]
async fn a_server_without_a_monitor_says_so() {
    let folder = Folder::new();
    let server = Server::new(BoxNetworkService::new(End));
    let serving = Serving::server(&folder.socket("s"), server).await;

    let error = lost(&mut watch(&client(&serving.address), all())).await;

    assert_eq!(error.kind(), ErrorKind::Unimplemented);
    let report = error.report().to_string();
    assert!(report.contains("is not served here"), "{report}");
}

#[tokio::test]
async fn a_selector_that_nobody_needs_so_large_is_refused() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let selector = MonitorScopeSelector {
        path_segments: (0..10_000).map(|id| segment(&id.to_string())).collect(),
        ..MonitorScopeSelector::default()
    };

    let error = lost(&mut watch(&client(&serving.address), selector)).await;

    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    assert_eq!(monitor.subscribers(), 0);
}

#[tokio::test]
async fn an_event_that_is_too_large_ends_the_stream_with_words() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = Serving::server(
        &folder.socket("s"),
        crate::server(&monitor).message_limit(1000),
    )
    .await;
    for id in 0..100 {
        monitor.update(&connection(&id.to_string()));
    }
    monitor.update(&standing("a"));

    let error = lost(&mut watch(&client(&serving.address), all())).await;

    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    let report = error.report().to_string();
    assert!(report.contains("101 connections are too many"), "{report}");
    let mut one = watch(&client(&serving.address), of("a"));
    let there: Vec<Connection> = heard(&mut one).await.1;
    assert_eq!(there, [standing("a")]);
}
