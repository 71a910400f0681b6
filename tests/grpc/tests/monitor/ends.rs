//! How a stream ends, which is never a secret.

use std::error::Error as _;

use futures_util::StreamExt;
use grpc_suite::{Folder, PLENTY, Serving, call, client, connection, request};
use h2::Reason;
use nsm_api::connection::ConnectionEventType::InitialStateTransfer;
use nsm_chain::monitor::Monitor;
use nsm_chain::{End, ErrorKind};
use nsm_grpc::status::Refused;
use tokio::time::{Duration, Instant, timeout};
use tonic::Code;

use crate::peer::{Does, Peer};
use crate::{all, heard, lost, monitored, of, server, watch};

/// How a stream to a peer that does that ends, and what it tells before. Calls go on.
async fn ends(does: Does) -> (usize, nsm_chain::Error) {
    let folder = Folder::new();
    let _peer = Peer::at(&folder.file("s"), does);
    let client = client(&folder.socket("s"));
    let mut events = watch(&client, all());
    let mut told = 0;
    let error = loop {
        match timeout(PLENTY, events.next()).await.unwrap().unwrap() {
            Ok(_) => told += 1,
            Err(error) => break error,
        }
    };
    assert!(events.next().await.is_none());
    call(&client, request(connection("a"))).await.unwrap();
    (told, error)
}

#[tokio::test]
async fn a_refusal_is_told_as_it_is() {
    for (code, kind) in [
        (Code::Unimplemented, ErrorKind::Unimplemented),
        (Code::PermissionDenied, ErrorKind::PermissionDenied),
        (Code::Unavailable, ErrorKind::Unavailable),
        (Code::Unknown, ErrorKind::Internal),
    ] {
        let (told, error) = ends(Does::Refuses(code as u16)).await;

        assert_eq!((told, error.kind()), (0, kind), "{code:?}");
        let refused = error.source().unwrap().downcast_ref::<Refused>().unwrap();
        assert_eq!(refused.code(), code);
    }
}

#[tokio::test]
async fn a_stream_that_the_other_side_ends_is_lost_whatever_it_says() {
    for (does, says) in [
        (Does::Ends(Code::Ok as u16), "has ended the stream"),
        (Does::Ends(Code::Unavailable as u16), "Unavailable"),
        (Does::Cuts(Reason::INTERNAL_ERROR), "has broken"),
    ] {
        let (told, error) = ends(does).await;

        assert_eq!(
            (told, error.kind()),
            (1, ErrorKind::Unavailable),
            "{does:?}"
        );
        let report = error.report().to_string();
        assert!(report.contains(says), "{report}");
    }
}

#[tokio::test]
async fn a_cancel_of_the_other_side_is_none_of_ours() {
    for does in [
        Does::Ends(Code::Cancelled as u16),
        Does::Refuses(Code::Cancelled as u16),
        Does::Cuts(Reason::CANCEL),
    ] {
        let (_, error) = ends(does).await;

        assert_eq!(error.kind(), ErrorKind::Unavailable, "{does:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_does_not_begin_is_given_up_after_five_seconds() {
    for does in [Does::SaysNothing, Does::SendsHeaders] {
        let begun = Instant::now();

        let (told, error) = ends(does).await;

        assert_eq!((told, error.kind()), (0, ErrorKind::DeadlineExceeded));
        let waited = begun.elapsed();
        let (least, most) = (Duration::from_secs(5), Duration::from_secs(6));
        assert!(waited >= least && waited < most, "{does:?}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_is_down_is_waited_for_and_not_for_ever() {
    let folder = Folder::new();
    let client = client(&folder.socket("s"));
    let begun = Instant::now();

    let error = lost(&mut watch(&client, all())).await;

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(begun.elapsed().as_secs(), 15);
    let report = error.report().to_string();
    assert!(report.contains("is not reached"), "{report}");

    let monitor = Monitor::new();
    let mut events = watch(&client, all());
    let listening = tokio::spawn(async move { heard(&mut events).await });
    tokio::time::sleep(Duration::from_secs(9)).await;
    let _serving = monitored(&folder.socket("s"), &monitor).await;
    assert_eq!(listening.await.unwrap(), (InitialStateTransfer, vec![]));
}

#[tokio::test]
async fn a_connection_that_breaks_ends_its_streams() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let client = client(&serving.address);
    let mut events = watch(&client, all());
    heard(&mut events).await;

    serving.kill().await;

    let error = timeout(PLENTY, lost(&mut events)).await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let report = error.report().to_string();
    assert!(report.contains("has broken"), "{report}");
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams_at_once_and_is_not_held_up() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let server = server(&monitor).drain_limit(PLENTY * 10);
    let serving = Serving::server(&folder.socket("s"), server).await;
    let client = client(&serving.address);
    let mut streams = Vec::new();
    for id in ["a", "b", "c"] {
        let mut events = watch(&client, of(id));
        heard(&mut events).await;
        streams.push(events);
    }

    serving.stop().await;

    for mut events in streams {
        let error = timeout(PLENTY, lost(&mut events)).await.unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let report = error.report().to_string();
        assert!(report.contains("has ended the stream"), "{report}");
    }
}

#[tokio::test]
async fn calls_find_the_successor_while_a_server_that_stops_has_a_stream() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let old = monitored(&folder.socket("s"), &monitor).await;
    let client = client(&old.address);
    let mut events = watch(&client, all());
    heard(&mut events).await;

    let stopping = old.begin_to_stop();
    while folder.file("s").exists() {
        tokio::task::yield_now().await;
    }
    let successor = Monitor::new();
    let new = monitored(&folder.socket("s"), &successor).await;
    call(&client, request(connection("a"))).await.unwrap();
    assert_eq!(lost(&mut events).await.kind(), ErrorKind::Unavailable);
    let mut again = watch(&client, all());
    heard(&mut again).await;

    assert_eq!((monitor.subscribers(), successor.subscribers()), (0, 1));
    timeout(PLENTY, stopping).await.unwrap().unwrap();
    drop(again);
    new.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_goes_away_keeps_its_streams_no_longer_than_a_frozen_one() {
    let folder = Folder::new();
    let peer = Peer::at(&folder.file("s"), Does::GoesAway);
    let client = client(&folder.socket("s"));
    let mut events = watch(&client, all());
    heard(&mut events).await;
    let since = Instant::now();
    std::fs::remove_file(folder.file("s")).unwrap();
    let _successor = Serving::chain(&folder.socket("s"), End).await;

    call(&client, request(connection("a"))).await.unwrap();
    assert!(since.elapsed() < Duration::from_secs(1));
    let error = lost(&mut events).await;

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        since.elapsed() <= Duration::from_secs(11),
        "{:?}",
        since.elapsed()
    );
    drop(peer);
}

#[tokio::test]
async fn a_stream_that_was_not_begun_with_is_opened_over_the_next_connection() {
    let folder = Folder::new();
    let peer = Peer::at(&folder.file("s"), Does::TakesNone);
    let client = client(&folder.socket("s"));
    let mut events = watch(&client, all());
    let listening = tokio::spawn(async move { heard(&mut events).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!listening.is_finished());

    drop(peer);
    std::fs::remove_file(folder.file("s")).unwrap();
    let _serving = monitored(&folder.socket("s"), &Monitor::new()).await;

    assert_eq!(listening.await.unwrap(), (InitialStateTransfer, vec![]));
}
