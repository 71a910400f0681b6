//! What a hop tells of the connections that pass.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use chain_suite::eventually;
use nsm_api::connection::ConnectionEventType::{Delete, InitialStateTransfer, Update};
use nsm_api::connection::{Connection, MonitorScopeSelector, State};
use nsm_chain::test_util::{FailOn, echo};
use nsm_chain::{Call, End, Error, ErrorKind, Operation};
use tokio::sync::Semaphore;
use tokio::time::Duration;
use tower::{Layer, service_fn};

use super::hop::{Hop, ask, close, listen, silence, state, told};

fn all() -> MonitorScopeSelector {
    MonitorScopeSelector::default()
}

/// A hop whose requests wait behind the monitor until they are let through, and fail if they are
/// told to.
fn slow() -> (Hop, Arc<Semaphore>, Arc<AtomicUsize>) {
    let (turns, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (waits, begins) = (Arc::clone(&turns), Arc::clone(&begun));
    let inner = service_fn(move |call: Call| {
        let (turns, begun) = (Arc::clone(&waits), Arc::clone(&begins));
        async move {
            if let Operation::Request(_) = call.operation {
                begun.fetch_add(1, Relaxed);
                turns.acquire().await.unwrap().forget();
            }
            match call.connection().network_service.as_str() {
                "fails" => Err(Error::new(ErrorKind::Unavailable, "below", "not now")),
                _ => Ok(call.connection().clone()),
            }
        }
    });
    (Hop::last("nse", inner), turns, begun)
}

#[tokio::test(start_paused = true)]
async fn a_request_is_told_as_it_is_answered_and_a_close_ends_it() {
    let hop = Hop::last("nse", echo());
    let mut events = listen(&hop, all());
    assert_eq!(told(&mut events).await, (InitialStateTransfer, vec![]));

    let answer = ask(&hop, Connection::default()).await.unwrap();

    let (kind, connections) = told(&mut events).await;
    let [mut told_of] = <[Connection; 1]>::try_from(connections).unwrap();
    assert_eq!((kind, told_of.state()), (Update, State::Up));
    assert_eq!(told_of, hop.knows(&answer));
    // The hop before knows it under its own id, with the path at its own segment.
    told_of.id.clone_from(&answer.id);
    told_of.path.as_mut().unwrap().index = 0;
    assert_eq!(told_of, answer);

    // A refresh that changes nothing is no event.
    ask(&hop, answer.clone()).await.unwrap();
    close(&hop, answer).await.unwrap();
    assert_eq!(told(&mut events).await.0, Delete);
    assert_eq!(hop.monitor.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_close_that_fails_below_is_told_all_the_same() {
    let hop = Hop::last("nse", FailOn::close(1).layer(End));
    let answer = ask(&hop, Connection::default()).await.unwrap();
    let mut events = listen(&hop, all());
    told(&mut events).await;

    close(&hop, answer).await.unwrap_err();

    assert_eq!(told(&mut events).await.0, Delete);
    assert_eq!(hop.monitor.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_first_request_that_fails_is_no_event_and_leaves_nothing() {
    let hop = Hop::last("nse", FailOn::request(1).layer(End));
    let mut events = listen(&hop, all());
    told(&mut events).await;

    ask(&hop, Connection::default()).await.unwrap_err();

    silence(&mut events, Duration::from_secs(60)).await;
    assert_eq!(hop.monitor.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_changes_nothing_of_what_stands() {
    let hop = Hop::last("nse", FailOn::request(2).layer(End));
    let answer = ask(&hop, Connection::default()).await.unwrap();
    let mut events = listen(&hop, all());
    told(&mut events).await;

    ask(&hop, answer.clone()).await.unwrap_err();

    silence(&mut events, Duration::from_secs(60)).await;
    assert_eq!(hop.knows(&answer).state(), State::Up);
}

#[tokio::test(start_paused = true)]
async fn what_comes_up_during_a_request_is_told_behind_its_answer() {
    let (hop, turns, begun) = slow();
    let requests = |number| {
        let begun = Arc::clone(&begun);
        eventually(move || begun.load(Relaxed) == number)
    };
    turns.add_permits(1);
    let answer = ask(&hop, Connection::default()).await.unwrap();
    let mut events = listen(&hop, all());
    told(&mut events).await;
    let refresh = |service: &'static str| {
        let (hop, answer) = (hop.clone(), answer.clone());
        let asked = Connection {
            network_service: service.to_owned(),
            ..answer
        };
        tokio::spawn(async move { ask(&hop, asked).await })
    };

    // Something new may have come too late for this request.
    let asked = refresh("net");
    requests(2).await;
    hop.says(&answer, State::RefreshRequested);
    silence(&mut events, Duration::from_secs(1)).await;
    turns.add_permits(1);
    asked.await.unwrap().unwrap();
    assert_eq!(state(&mut events).await, State::Up);
    assert_eq!(state(&mut events).await, State::RefreshRequested);

    // A way that is lost was found again by the request, ...
    let asked = refresh("net");
    requests(3).await;
    hop.says(&answer, State::Down);
    turns.add_permits(1);
    asked.await.unwrap().unwrap();
    assert_eq!(state(&mut events).await, State::Up);
    silence(&mut events, Duration::from_secs(1)).await;

    // ... unless that fails.
    let asked = refresh("fails");
    requests(4).await;
    hop.says(&answer, State::Down);
    turns.add_permits(1);
    asked.await.unwrap().unwrap_err();
    assert_eq!(state(&mut events).await, State::Down);
}
