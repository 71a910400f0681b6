//! Behaviours of `begin`: calls that elements below it start by themselves.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

use chain_suite::{Begun, connection, eventually, request, send};
use http::HeaderValue;
use nsm_chain::begin::Outcome;
use nsm_chain::test_util::{FailOn, Fault, echo, poll_n_then_drop};
use nsm_chain::{BeginLayer, Call, ErrorKind, Side};
use tokio::time::{Duration, Instant, advance};
use tower::{Layer, Service};

const SECOND: Duration = Duration::from_secs(1);

fn with_value(value: &'static str) -> Call {
    let mut call = request(connection("c"));
    let value = HeaderValue::from_static(value);
    call.metadata.insert("value", value.clone());
    call.extensions.insert(value);
    call
}

fn value_of(call: &Call) -> &HeaderValue {
    let value = call.metadata.get("value").unwrap();
    assert_eq!(call.extensions.get(), Some(value));
    value
}

#[tokio::test(start_paused = true)]
async fn a_request_event_asks_again_for_the_connection_as_it_was_answered() {
    for side in [Side::Client, Side::Server] {
        let begun = Begun::new(side, echo());
        begun.request(connection("c")).await.unwrap();

        let answer = begun.events().request().await.unwrap();

        assert_eq!(answer, Outcome::Done(connection("c")));
        assert_eq!(begun.below.operations(), ["request", "request"]);
        assert_eq!(*begun.below.last().connection(), connection("c"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_fails_leaves_the_connection_as_it_was() {
    let begun = Begun::new(Side::Client, FailOn::request(2).layer(echo()));
    begun.request(connection("c")).await.unwrap();

    let error = begun.events().request().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(begun.below.operations(), ["request", "request"]);
    assert_eq!(
        begun.events().request().await.unwrap(),
        Outcome::Done(connection("c"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_carries_what_the_last_request_that_succeeded_carried() {
    for side in [Side::Client, Side::Server] {
        let begun = Begun::new(side, FailOn::request(3).layer(echo()));

        send(&begun.chain, with_value("first")).await.unwrap();
        send(&begun.chain, with_value("second")).await.unwrap();
        send(&begun.chain, with_value("failed")).await.unwrap_err();

        begun.events().request().await.unwrap();
        assert_eq!(value_of(&begun.below.last()), "second");
        begun.events().close().await.unwrap();
        assert_eq!(value_of(&begun.below.last()), "second");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_has_the_time_that_the_first_request_had() {
    for side in [Side::Client, Side::Server] {
        let begun = Begun::new(side, echo());
        for seconds in [3, 5] {
            let mut call = request(connection("c"));
            call.deadline = Some(Instant::now() + seconds * SECOND);
            send(&begun.chain, call).await.unwrap();
        }
        advance(100 * SECOND).await;

        begun.events().request().await.unwrap();
        assert_eq!(
            begun.below.last().deadline,
            Some(Instant::now() + 3 * SECOND)
        );
        begun.events().close().await.unwrap();
        assert_eq!(
            begun.below.last().deadline,
            Some(Instant::now() + 3 * SECOND)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_event_closes_the_connection_that_is_known() {
    for side in [Side::Client, Side::Server] {
        let begun = Begun::new(side, echo());
        begun.request(connection("c")).await.unwrap();

        let closed = begun.events().close().await.unwrap();

        assert_eq!(closed, Outcome::Done(connection("c")));
        assert_eq!(begun.below.operations(), ["request", "close"]);
        assert_eq!(begun.layer.connections(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_event_that_fails_can_be_tried_again() {
    let begun = Begun::new(Side::Server, FailOn::close(1).layer(echo()));
    begun.request(connection("c")).await.unwrap();
    let events = begun.events();

    events.close().await.unwrap_err();
    assert_eq!(events.request().await.unwrap(), Outcome::NotKnown);
    let closed = events.close().await.unwrap();

    assert_eq!(closed, Outcome::Done(connection("c")));
    assert_eq!(begun.below.operations(), ["request", "close", "close"]);
    assert_eq!(begun.layer.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_has_no_events_any_more() {
    let begun = Begun::new(Side::Client, echo());
    begun.request(connection("c")).await.unwrap();
    let events = begun.events();
    begun.close(connection("c")).await.unwrap();

    assert_eq!(events.request().await.unwrap(), Outcome::NotKnown);
    assert_eq!(events.reselect().await.unwrap(), Outcome::NotKnown);
    assert_eq!(events.close().await.unwrap(), Outcome::NotKnown);
    assert_eq!(begun.below.operations(), ["request", "close"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_behind_a_close_establishes_anew_and_events_go_on() {
    for side in [Side::Client, Side::Server] {
        let slow = FailOn::close(1).with(Fault::Delay(SECOND));
        let begun = Begun::new(side, slow.layer(echo()));
        let mut chain = begun.chain.clone();
        send(&chain, with_value("first")).await.unwrap();

        let close = chain.call(Call::close(connection("c")));
        let request = chain.call(with_value("second"));
        close.await.unwrap();
        request.await.unwrap();

        begun.events().request().await.unwrap();
        assert_eq!(
            begun.below.operations(),
            ["request", "close", "request", "request"]
        );
        assert_eq!(value_of(&begun.below.last()), "second");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_behind_a_close_does_not_happen() {
    let slow = FailOn::close(1).with(Fault::Delay(SECOND));
    let begun = Begun::new(Side::Client, slow.layer(echo()));
    begun.request(connection("c")).await.unwrap();
    let events = begun.events();

    let close = begun.chain.clone().call(Call::close(connection("c")));
    let (event, closed) = tokio::join!(events.reselect(), close);

    assert_eq!(event.unwrap(), Outcome::NotKnown);
    assert!(closed.is_ok());
    assert_eq!(begun.below.operations(), ["request", "close"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_dropped_before_its_turn_does_not_happen() {
    let slow = FailOn::request(2).with(Fault::Delay(SECOND));
    let begun = Begun::new(Side::Client, slow.layer(echo()));
    begun.request(connection("c")).await.unwrap();
    let events = begun.events();

    let refresh = begun.chain.clone().call(request(connection("c")));
    poll_n_then_drop(events.close(), 1).await;
    refresh.await.unwrap();
    events.request().await.unwrap();

    assert_eq!(begun.below.operations(), ["request"; 3]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_dropped_after_its_turn_has_come_goes_on() {
    let slow = FailOn::close(1).with(Fault::Delay(SECOND));
    let begun = Begun::new(Side::Client, slow.layer(echo()));
    begun.request(connection("c")).await.unwrap();
    let events = begun.events();

    let timer = tokio::spawn(async move { events.close().await });
    eventually(|| begun.below.operations().contains(&"close")).await;
    timer.abort();
    advance(SECOND).await;

    eventually(|| begun.layer.connections() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_is_refused_by_a_full_queue() {
    let slow = FailOn::request(2).with(Fault::Delay(SECOND));
    let begun = Begun::with(BeginLayer::new(Side::Client).queue(1), slow.layer(echo()));
    begun.request(connection("c")).await.unwrap();
    let events = begun.events();
    let mut chain = begun.chain.clone();

    let at_work = chain.call(request(connection("c")));
    eventually(|| begun.below.calls().len() == 2).await;
    let waiting = chain.call(request(connection("c")));
    let error = events.request().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    at_work.await.unwrap();
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_is_gone_has_no_events_any_more() {
    let begun = Begun::new(Side::Client, echo());
    begun.request(connection("c")).await.unwrap();
    let events = begun.events();
    let below = begun.below.clone();

    drop(begun);

    assert_eq!(events.request().await.unwrap(), Outcome::ChainGone);
    assert_eq!(below.operations(), ["request"]);
}
