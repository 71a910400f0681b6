//! Streams leave room for calls.

use futures_util::StreamExt;
use futures_util::future::join_all;
use grpc_suite::{Folder, call, client, close, connection, request};
use nsm_chain::ErrorKind;
use nsm_chain::monitor::Monitor;

use crate::peer::{Does, Peer};
use crate::{all, heard, lost, monitored, of, watch};

#[tokio::test]
async fn a_peer_that_takes_few_calls_at_once_has_room_for_them() {
    let folder = Folder::new();
    let _peer = Peer::with_room(&folder.file("s"), Does::Goes, 8);
    let client = client(&folder.socket("s"));
    let mut streams = Vec::new();
    for _ in 0..6 {
        let mut events = watch(&client, all());
        heard(&mut events).await;
        streams.push(events);
    }

    let error = lost(&mut watch(&client, all())).await;

    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    let report = error.report().to_string();
    let says = "takes no more than 8 calls and streams at once";
    assert!(report.contains(says), "{report}");
    call(&client, request(connection("a"))).await.unwrap();
    streams.pop();
    heard(&mut watch(&client, all())).await;
}

#[tokio::test]
async fn thousands_of_streams_over_one_connection_are_in_nobodys_way() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let client = client(&serving.address);
    let mut streams = Vec::new();
    for some in 0..10 {
        let ids = some * 300..(some + 1) * 300;
        streams.extend(ids.map(|number| watch(&client, of(&number.to_string()))));
        join_all(streams.iter_mut().skip(some * 300).map(heard)).await;
    }

    assert_eq!(monitor.subscribers(), 3000);
    call(&client, request(connection("a"))).await.unwrap();
    call(&client, close(connection("a"))).await.unwrap();
    monitor.update(&crate::standing("7"));
    assert_eq!(heard(&mut streams[7]).await.1, [crate::standing("7")]);
}

#[tokio::test]
async fn what_nobody_reads_keeps_no_answer_back() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let client = client(&serving.address);
    let mut unread: Vec<_> = (0..60).map(|_| watch(&client, all())).collect();
    for events in &mut unread {
        heard(events).await;
    }
    let mut reads = watch(&client, all());
    heard(&mut reads).await;
    // More than each of them may be behind, in all.
    for number in 0..500 {
        let mut large = connection("a");
        large.network_service = format!("{number:>1000}");
        monitor.update(&large);
        reads.next().await.unwrap().unwrap();
    }

    for _ in 0..100 {
        call(&client, request(connection("a"))).await.unwrap();
    }
    drop(unread);
}
