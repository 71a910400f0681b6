//! Behaviours of `begin`: a connection that is moved to another endpoint from within.

use chain_suite::{Begun, connection, request, send};
use nsm_api::connection::{Connection, Mechanism, State};
use nsm_chain::begin::Outcome;
use nsm_chain::test_util::{FailOn, Fault, echo};
use nsm_chain::{BeginLayer, ErrorKind, Side};
use tokio::time::{Duration, Instant};
use tower::{Layer, ServiceBuilder};

const SECOND: Duration = Duration::from_secs(1);

fn selected() -> Connection {
    Connection {
        mechanism: Some(Mechanism::kernel()),
        network_service: "service".to_owned(),
        network_service_endpoint_name: "nse-1".to_owned(),
        ..connection("c")
    }
}

/// What [`selected`] becomes by a reselect.
fn unselected() -> Connection {
    Connection {
        mechanism: None,
        network_service_endpoint_name: String::new(),
        state: State::ReselectRequested.into(),
        ..selected()
    }
}

#[tokio::test(start_paused = true)]
async fn a_reselect_closes_what_stands_and_asks_for_another_endpoint() {
    let begun = Begun::new(Side::Client, echo());
    begun.request(selected()).await.unwrap();

    let answer = begun.events().reselect().await.unwrap().done().unwrap();

    let calls = begun.below.calls();
    assert_eq!(begun.below.operations(), ["request", "close", "request"]);
    assert_eq!(*calls[1].connection(), selected());
    assert_eq!(*calls[2].connection(), unselected());
    assert_eq!(answer.state(), State::Up);
}

#[tokio::test(start_paused = true)]
async fn a_reselect_asks_with_the_full_time_even_if_the_close_fails_which_has_two_seconds() {
    let inner = ServiceBuilder::new()
        .layer(FailOn::close(1).with(Fault::Delay(3 * SECOND)))
        .layer(FailOn::close(1).with(Fault::Error(ErrorKind::DeadlineExceeded)))
        .service(echo());
    let begun = Begun::new(Side::Client, inner);
    let mut call = request(selected());
    call.deadline = Some(Instant::now() + 3 * SECOND);
    send(&begun.chain, call).await.unwrap();
    let start = Instant::now();

    begun.events().reselect().await.unwrap();

    let calls = begun.below.calls();
    assert_eq!(begun.below.operations(), ["request", "close", "request"]);
    assert_eq!(calls[1].deadline, Some(start + 2 * SECOND));
    assert_eq!(calls[2].deadline, Some(start + 6 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn an_event_may_be_given_less_time_and_never_more() {
    let begun = Begun::new(Side::Client, echo());
    let mut call = request(selected());
    call.deadline = Some(Instant::now() + 3 * SECOND);
    send(&begun.chain, call).await.unwrap();
    for (limit, given) in [(SECOND, SECOND), (9 * SECOND, 3 * SECOND)] {
        begun.events().request_within(limit).await.unwrap();
        assert_eq!(begun.below.last().deadline, Some(Instant::now() + given));

        begun.events().reselect_within(limit).await.unwrap();
        assert_eq!(begun.below.last().deadline, Some(Instant::now() + given));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_request_for_another_endpoint_has_made_is_undone_when_it_fails() {
    let inner = ServiceBuilder::new()
        .layer(FailOn::request(1))
        .service(echo());
    let begun = Begun::new(Side::Server, inner);
    // It goes on behind us, and has been given up.
    let path = chain_suite::path(0, &[("us", "c"), ("nse", "far")]);
    let given_up = Connection {
        path: Some(path),
        ..unselected()
    };

    begun.request(given_up).await.unwrap_err();

    assert_eq!(begun.below.operations(), ["request", "close"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_reselect_changes_can_be_chosen() {
    let keep_endpoint = |connection: &mut Connection| {
        connection.mechanism = None;
        connection.set_state(State::ReselectRequested);
    };
    let layer = BeginLayer::new(Side::Client).reselect(keep_endpoint);
    let begun = Begun::with(layer, echo());
    begun.request(selected()).await.unwrap();

    begun.events().reselect().await.unwrap();

    let asked = begun.below.last().connection().clone();
    assert_eq!(asked.network_service_endpoint_name, "nse-1");
    assert_eq!(asked.mechanism, None);
}

#[tokio::test(start_paused = true)]
async fn a_reselect_that_fails_is_undone_and_can_be_tried_again() {
    let begun = Begun::new(Side::Client, FailOn::request(2).layer(echo()));
    begun.request(selected()).await.unwrap();

    begun.events().reselect().await.unwrap_err();
    assert_eq!(
        begun.below.operations(),
        ["request", "close", "request", "close"]
    );

    // The connection does not stand, so there is nothing to refresh, and nothing more to close.
    assert_eq!(begun.events().request().await.unwrap(), Outcome::NotKnown);
    let answer = begun.events().reselect().await.unwrap().done().unwrap();
    assert_eq!(answer.state(), State::Up);
    assert_eq!(begun.below.operations()[4..], ["request"]);
    assert_eq!(*begun.below.last().connection(), unselected());
    assert!(begun.events().request().await.unwrap().done().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_caller_too_can_bring_back_a_connection_that_a_reselect_has_lost() {
    let begun = Begun::new(Side::Client, FailOn::request(2).layer(echo()));
    let told = begun.request(selected()).await.unwrap();

    begun.events().reselect().await.unwrap_err();
    begun.request(told).await.unwrap();

    // The endpoint that is gone is not asked for again.
    assert_eq!(*begun.below.last().connection(), unselected());
    assert!(begun.events().request().await.unwrap().done().is_some());
}

#[tokio::test(start_paused = true)]
async fn on_a_server_a_reselect_is_a_request() {
    let begun = Begun::new(Side::Server, echo());
    begun.request(selected()).await.unwrap();

    begun.events().reselect().await.unwrap();

    assert_eq!(begun.below.operations(), ["request", "request"]);
    assert_eq!(*begun.below.last().connection(), selected());
}
