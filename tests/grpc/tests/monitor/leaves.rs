//! Those who listen come and go, and nothing of them is left.

use futures_util::future::join_all;
use grpc_suite::{Folder, PLENTY, call, client, connection, request, transport};
use nsm_api::connection::Connection;
use nsm_api::connection::ConnectionEventType::Update;
use nsm_chain::ErrorKind;
use nsm_chain::monitor::Monitor;
use nsm_grpc::{Connect, NextHop, Transports};
use tokio::runtime;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::{all, heard, lost, monitored, of, watch};

/// Waits until a condition holds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < PLENTY, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

fn tasks() -> usize {
    runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn a_thousand_streams_that_come_and_go_leave_nothing_though_nothing_happens() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let client = client(&serving.address);
    call(&client, request(connection("a"))).await.unwrap();
    let before = tasks();

    for number in 0..1000 {
        let mut events = watch(&client, of(&number.to_string()));
        match number % 3 {
            // In the middle of opening.
            0 => drop(timeout(Duration::from_micros(200), heard(&mut events)).await),
            _ => drop(heard(&mut events).await),
        }
    }

    until("a subscriber is left", || monitor.subscribers() == 0).await;
    until("a task is left", || tasks() <= before).await;
    call(&client, request(connection("a"))).await.unwrap();
}

#[tokio::test]
async fn two_thousand_streams_that_go_at_once_leave_the_connection_as_it_is() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let transport = transport(&serving.address);
    let connected = transport.connected();
    let client = Connect::to(transport);
    call(&client, request(connection("a"))).await.unwrap();
    let before = tasks();
    for opened in [true, false] {
        let mut streams: Vec<_> = (0..2000)
            .map(|number| watch(&client, of(&number.to_string())))
            .collect();
        let opening = join_all(streams.iter_mut().map(heard));
        if opened {
            opening.await;
            assert_eq!(monitor.subscribers(), 2000);
        } else {
            timeout(Duration::from_millis(20), opening).await.ok();
        }

        drop(streams);

        until("a subscriber is left", || monitor.subscribers() == 0).await;
        call(&client, request(connection("a"))).await.unwrap();
    }
    until("a task is left", || tasks() <= before).await;
    assert_eq!(connected.borrow().generation, 1);
}

#[tokio::test]
async fn those_who_are_killed_leave_nothing() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let before = tasks();

    for round in 0..20 {
        // What a process is: nothing in it gets to say good-bye.
        let process = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let address = serving.address.clone();
        let listening = process.spawn(async move {
            let client = client(&address);
            let mut streams: Vec<_> = (0..5).map(|_| watch(&client, all())).collect();
            join_all(streams.iter_mut().map(heard)).await;
            (client, streams)
        });
        let held = listening.await.unwrap();
        assert!(monitor.subscribers() >= 5, "{round}");
        process.shutdown_background();
        drop(held);
    }

    until("a subscriber is left", || monitor.subscribers() == 0).await;
    until("a task is left", || tasks() <= before).await;
}

/// A connection that is a kilobyte large.
fn large(number: usize) -> Connection {
    Connection {
        network_service: format!("{number:>1000}"),
        ..connection("a")
    }
}

#[tokio::test]
async fn those_who_never_read_are_let_go_and_hold_nobody_up() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let client = client(&serving.address);
    let mut silent: Vec<_> = (0..10).map(|_| watch(&client, all())).collect();
    join_all(silent.iter_mut().map(heard)).await;
    let mut reads = watch(&client, all());
    heard(&mut reads).await;

    for number in 0..10_000 {
        monitor.update(&large(number));
        let told = timeout(PLENTY, heard(&mut reads)).await.unwrap();
        assert_eq!(told, (Update, vec![large(number)]));
    }

    assert_eq!(monitor.subscribers(), 1);
    call(&client, request(connection("a"))).await.unwrap();
    for events in &mut silent {
        let error = timeout(PLENTY, lost(events)).await.unwrap();
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
        let report = error.report().to_string();
        assert!(report.contains("have not been read"), "{report}");
    }
    let mut again = watch(&client, all());
    assert_eq!(heard(&mut again).await.1, [large(9_999)]);
}

#[tokio::test(start_paused = true)]
async fn a_transport_does_not_rest_while_somebody_listens_over_it() {
    let folder = Folder::new();
    let monitor = Monitor::new();
    let serving = monitored(&folder.socket("s"), &monitor).await;
    let transports = Transports::new(Duration::from_secs(1));
    let client = Connect::by_next_hop(transports.clone());
    let hop = NextHop(serving.address.clone());
    let mut to = http::Extensions::new();
    to.insert(hop.clone());
    let mut events = nsm_chain::monitor::Watch::watch(&client, &to, all());
    heard(&mut events).await;
    let before = tasks();

    sleep(Duration::from_secs(1000)).await;
    monitor.update(&connection("a"));
    assert_eq!(heard(&mut events).await, (Update, vec![connection("a")]));

    drop(events);
    sleep(Duration::from_secs(301)).await;
    assert_eq!(monitor.subscribers(), 0);
    // The one that keeps it connected, and what the two ends of the connection consist of.
    assert!(tasks() < before, "it is connected still");
}
