//! The hub: who hears what, and who does not listen.

#![allow(clippy::unwrap_used)]

use chain_suite::{connection, path};
use futures_util::{FutureExt, StreamExt};
use nsm_api::connection::ConnectionEventType::{Delete, InitialStateTransfer, Update};
use nsm_api::connection::{Connection, MonitorScopeSelector, State};
use nsm_chain::Monitor;
use nsm_chain::monitor::{Subscription, of_segment};

/// A connection of a client that has come as far as the second hop.
fn of_client(client: &str) -> Connection {
    let forwarder = format!("forwarder-of-{client}");
    Connection {
        path: Some(path(1, &[("nsc", client), ("forwarder", &forwarder)])),
        ..connection(&forwarder)
    }
}

/// What a client listens to.
fn selector(client: &str) -> MonitorScopeSelector {
    of_segment(&path(0, &[("nsc", client)]).path_segments[0])
}

fn id(connection: &Connection) -> nsm_api::ConnectionId {
    connection.connection_id().unwrap()
}

/// What can be read now.
fn read(
    events: &mut Subscription,
) -> Vec<(nsm_api::connection::ConnectionEventType, Vec<Connection>)> {
    let mut all = Vec::new();
    while let Some(Some(event)) = events.next().now_or_never() {
        all.push((event.r#type(), event.connections.into_values().collect()));
    }
    all
}

#[test]
fn the_initial_state_may_be_empty_and_then_only_what_was_asked_for_is_told() {
    let monitor = Monitor::new();
    let (mine, other) = (of_client("mine"), of_client("other"));

    let mut events = monitor.subscribe(selector("mine"));
    assert_eq!(read(&mut events), [(InitialStateTransfer, vec![])]);
    monitor.update(&other);
    monitor.update(&mine);
    monitor.state(&id(&other), State::Down);
    monitor.delete(&id(&other));
    monitor.delete(&id(&mine));

    let expected = [(Update, vec![mine.clone()]), (Delete, vec![mine])];
    assert_eq!(read(&mut events), expected);
}

#[test]
fn the_initial_state_has_what_stands_and_what_was_told_of_it() {
    let monitor = Monitor::new();
    let (mine, other) = (of_client("mine"), of_client("other"));
    monitor.update(&mine);
    monitor.update(&other);
    monitor.state(&id(&mine), State::Down);

    let mut down = mine.clone();
    down.set_state(State::Down);
    let mut events = monitor.subscribe(selector("mine"));
    assert_eq!(read(&mut events), [(InitialStateTransfer, vec![down])]);
    let everything = monitor.subscribe(MonitorScopeSelector::default());
    assert_eq!(
        everything
            .map(|it| it.connections.len())
            .next()
            .now_or_never(),
        Some(Some(2))
    );
}

#[test]
fn what_was_told_last_is_not_told_again() {
    let monitor = Monitor::new();
    let mine = of_client("mine");
    let mut events = monitor.subscribe(selector("mine"));
    read(&mut events);

    monitor.update(&mine);
    monitor.update(&mine);
    monitor.state(&id(&mine), State::Up);
    assert_eq!(read(&mut events).len(), 1);
    monitor.state(&id(&mine), State::RefreshRequested);
    monitor.state(&id(&mine), State::RefreshRequested);
    assert_eq!(read(&mut events).len(), 1);
    monitor.delete(&id(&mine));
    monitor.delete(&id(&mine));
    monitor.state(&id(&mine), State::Down);
    assert_eq!(read(&mut events).len(), 1);
    assert_eq!(monitor.connections(), 0);
}

#[test]
fn one_who_does_not_read_is_let_go_with_all_that_waits_and_the_others_hear_everything() {
    let monitor = Monitor::new();
    let mut silent = monitor.subscribe(MonitorScopeSelector::default());
    let mut reads = monitor.subscribe(MonitorScopeSelector::default());
    let mut heard = read(&mut reads).len();

    for number in 0..10_000 {
        monitor.update(&of_client(&number.to_string()));
        heard += read(&mut reads).len();
    }

    assert_eq!(heard, 10_001);
    assert_eq!(monitor.subscribers(), 1);
    assert!(silent.fell_behind() && !reads.fell_behind());
    // A part of the events would be worth nothing.
    assert_eq!(silent.next().now_or_never(), Some(None));
}

#[test]
fn one_who_goes_is_forgotten_without_an_event() {
    let monitor = Monitor::new();
    for client in 0..1000 {
        drop(monitor.subscribe(selector(&client.to_string())));
    }
    let stays = monitor.subscribe(MonitorScopeSelector::default());

    assert_eq!(monitor.subscribers(), 1);
    drop(stays);
    assert_eq!(monitor.subscribers(), 0);
}

#[test]
fn a_monitor_that_is_closed_ends_all_once_they_have_read_and_tells_nobody_of_a_change() {
    let monitor = Monitor::new();
    let mine = of_client("mine");
    let mut events = monitor.subscribe(selector("mine"));
    monitor.update(&mine);

    monitor.close();
    monitor.state(&id(&mine), State::Down);
    monitor.delete(&id(&mine));
    let mut late = monitor.subscribe(selector("mine"));

    let heard = read(&mut events);
    assert_eq!(
        heard,
        [(InitialStateTransfer, vec![]), (Update, vec![mine])]
    );
    assert_eq!(events.next().now_or_never(), Some(None));
    assert!(!events.fell_behind());
    assert_eq!(read(&mut late).len(), 1);
    assert_eq!(late.next().now_or_never(), Some(None));
    assert_eq!(monitor.subscribers(), 0);
}

#[tokio::test]
async fn those_who_wait_hear_of_the_end_of_a_monitor() {
    let monitor = Monitor::new();
    let mut streams = [(); 2].map(|()| monitor.subscribe(MonitorScopeSelector::default()));
    for events in &mut streams {
        read(events);
    }
    let [mut closed, mut gone] = streams;

    let waits = tokio::spawn(async move { closed.next().await });
    tokio::task::yield_now().await;
    monitor.close();
    assert_eq!(waits.await.unwrap(), None);

    drop(monitor);
    assert_eq!(gone.next().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_comes_at_any_moment_has_the_whole_state_and_misses_nothing_behind_it() {
    const CHANGES: usize = 1000;
    let monitor = Monitor::new();
    let changes = {
        let monitor = monitor.clone();
        tokio::task::spawn_blocking(move || {
            for number in 1..=CHANGES {
                monitor.update(&Connection {
                    network_service: number.to_string(),
                    ..of_client("mine")
                });
                // Those who listen have a thread for themselves at times.
                std::thread::yield_now();
            }
        })
    };
    let listeners: Vec<_> = (0..100)
        .map(|_| {
            let monitor = monitor.clone();
            tokio::spawn(async move {
                let mut events = monitor.subscribe(selector("mine"));
                let mut last = 0;
                while let Some(event) = events.next().await {
                    for connection in event.connections.values() {
                        let number: usize = connection.network_service.parse().unwrap();
                        let first = event.r#type() == InitialStateTransfer;
                        assert!(first || number == last + 1, "{last} and then {number}");
                        last = number;
                    }
                    if last == CHANGES {
                        return true;
                    }
                }
                assert!(events.fell_behind());
                false
            })
        })
        .collect();

    changes.await.unwrap();
    let mut heard_all = 0;
    for listener in listeners {
        heard_all += usize::from(listener.await.unwrap());
    }
    assert!(heard_all > 0);
    assert_eq!(monitor.subscribers(), 0);
}
