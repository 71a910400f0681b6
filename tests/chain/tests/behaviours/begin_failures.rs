//! Behaviours of `begin`: what becomes of what a failed call has made.

use std::error::Error as _;

use chain_suite::{Begun, connection, path, request, send};
use http::HeaderValue;
use nsm_api::connection::{Connection, Mechanism};
use nsm_chain::begin::{AnswerLayer, Outcome};
use nsm_chain::test_util::{FailOn, Fault, Recorder, echo};
use nsm_chain::{Call, Error, ErrorKind, Side};
use tokio::time::{Duration, Instant};
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_first_request_that_fails_is_closed_downstream_once() {
    let begun = Begun::new(Side::Server, FailOn::request(1).layer(echo()));

    let error = begun.request(connection("c")).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.element(), "fail_on");
    assert_eq!(begun.below.operations(), ["request", "close"]);
    assert_eq!(begun.below.last().connection().id, "c");
    assert_eq!(begun.layer.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_close_of_a_failed_request_carries_what_the_request_carried() {
    #[derive(Clone, Debug, PartialEq)]
    struct Peer(&'static str);
    let begun = Begun::new(Side::Server, FailOn::request(1).layer(echo()));
    let mut call = request(connection("c"));
    call.metadata.insert("nsm", HeaderValue::from_static("on"));
    call.extensions.insert(Peer("nsmgr"));

    send(&begun.chain, call).await.unwrap_err();

    let close = begun.below.last();
    assert_eq!(close.operation.name(), "close");
    assert_eq!(close.metadata.get("nsm").unwrap(), "on");
    assert_eq!(close.extensions.get(), Some(&Peer("nsmgr")));
}

#[tokio::test(start_paused = true)]
async fn the_close_of_a_request_that_ran_out_of_time_has_the_full_time_again() {
    let inner = ServiceBuilder::new()
        .layer(FailOn::request(1).with(Fault::Delay(SECOND)))
        .layer(FailOn::request(1).with(Fault::Error(ErrorKind::DeadlineExceeded)))
        .service(echo());
    let begun = Begun::new(Side::Server, inner);
    let mut call = request(connection("c"));
    call.deadline = Some(Instant::now() + SECOND);

    send(&begun.chain, call).await.unwrap_err();

    let close = begun.below.last();
    assert_eq!(close.operation.name(), "close");
    assert_eq!(close.deadline, Some(Instant::now() + SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_close_of_a_failed_request_names_the_hops_that_had_answered() {
    let next_hop = Recorder::new();
    let answered = Connection {
        path: Some(path(0, &[("nsc", "c"), ("nse", "e")])),
        network_service_endpoint_name: "nse".to_owned(),
        ..connection("c")
    };
    let end = {
        let answered = answered.clone();
        service_fn(move |_| {
            let answered = answered.clone();
            async move { Ok::<_, Error>(answered) }
        })
    };
    let inner = ServiceBuilder::new()
        .layer(FailOn::request(1).on_the_way_up())
        .layer(AnswerLayer)
        .layer(next_hop.clone())
        .service(end);
    let begun = Begun::new(Side::Client, inner);
    let asked = Connection {
        path: Some(path(0, &[("nsc", "c")])),
        network_service: "of the request".to_owned(),
        ..connection("c")
    };

    begun.request(asked).await.unwrap_err();

    let expected = Connection {
        network_service: "of the request".to_owned(),
        ..answered
    };
    assert_eq!(next_hop.operations(), ["request", "close"]);
    assert_eq!(*next_hop.last().connection(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_that_close_is_reported_with_the_error_of_the_request() {
    let inner = ServiceBuilder::new()
        .layer(FailOn::close(1).with(Fault::Error(ErrorKind::NotFound)))
        .layer(FailOn::request(1))
        .service(echo());
    let begun = Begun::new(Side::Server, inner);

    let error = begun.request(connection("c")).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.source().is_some());
    assert_eq!(
        error.report().to_string(),
        "begin: unavailable: what the request had made could not be closed \
         (fail_on: not found: injected), after: fail_on: unavailable: injected"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_closes_nothing_and_leaves_what_was_known() {
    let begun = Begun::new(Side::Server, FailOn::request(2).layer(echo()));
    let first = Connection {
        network_service: "of the first".to_owned(),
        ..connection("c")
    };

    begun.request(first.clone()).await.unwrap();
    begun.request(connection("c")).await.unwrap_err();
    let closed = begun.close(connection("c")).await.unwrap();

    assert_eq!(begun.below.operations(), ["request", "request", "close"]);
    assert_eq!(closed.network_service, "of the first");
}

fn returns() -> [Connection; 2] {
    [
        Connection {
            path: Some(path(0, &[("forwarder", "c"), ("nse", "e")])),
            ..connection("c")
        },
        Connection {
            mechanism: Some(Mechanism::kernel()),
            ..connection("c")
        },
    ]
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_returns_after_a_restart_and_fails_is_not_closed() {
    for returning in returns() {
        let begun = Begun::new(Side::Server, FailOn::request(1).layer(echo()));

        begun.request(returning).await.unwrap_err();

        assert_eq!(begun.below.operations(), ["request"]);
        assert_eq!(begun.layer.connections(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_has_returned_is_like_any_other() {
    for returning in returns() {
        let begun = Begun::new(Side::Server, FailOn::request(2).layer(echo()));

        begun.request(returning.clone()).await.unwrap();
        begun.request(connection("c")).await.unwrap_err();
        let closed = begun.close(connection("c")).await.unwrap();

        assert_eq!(begun.below.operations(), ["request", "request", "close"]);
        assert_eq!(closed, returning);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_below_is_an_internal_error_and_closed_like_any_other() {
    let inner = FailOn::request(1).with(Fault::Panic).layer(echo());
    let begun = Begun::new(Side::Server, inner);

    let error = begun.request(connection("c")).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(error.element(), "begin");
    assert_eq!(begun.below.operations(), ["request", "close"]);
    assert_eq!(begun.layer.connections(), 0);
    begun.request(connection("c")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_an_element_returns_its_future_is_an_internal_error_too() {
    let inner = service_fn(|call: Call| {
        assert!(call.operation.name() == "close", "only closes are fine");
        echo().oneshot(call)
    });
    let begun = Begun::new(Side::Server, inner);

    let error = begun.request(connection("c")).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(begun.below.operations(), ["request", "close"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_during_a_refresh_leaves_the_connection_up() {
    let inner = FailOn::request(2).with(Fault::Panic).layer(echo());
    let begun = Begun::new(Side::Server, inner);

    begun.request(connection("c")).await.unwrap();
    begun.request(connection("c")).await.unwrap_err();
    begun.request(connection("c")).await.unwrap();

    assert_eq!(begun.below.operations(), ["request"; 3]);
}

#[tokio::test(start_paused = true)]
async fn after_a_close_nothing_is_known_even_if_it_fails_or_panics() {
    for fault in [Fault::Error(ErrorKind::Unavailable), Fault::Panic] {
        let inner = FailOn::close(1).with(fault).layer(echo());
        let begun = Begun::new(Side::Server, inner);

        begun.request(connection("c")).await.unwrap();
        assert_eq!(begun.layer.connections(), 1);
        begun.close(connection("c")).await.unwrap_err();

        assert_eq!(begun.layer.connections(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_closed_and_ran_out_of_time_with_stays_known_as_closed() {
    for kind in [ErrorKind::DeadlineExceeded, ErrorKind::Cancelled] {
        for (side, known) in [(Side::Server, 1), (Side::Client, 0)] {
            let fault = FailOn::close(1).with(Fault::Error(kind));
            let begun = Begun::new(side, fault.layer(echo()));
            begun.request(connection("c")).await.unwrap();
            let events = begun.events();

            begun.close(connection("c")).await.unwrap_err();

            assert_eq!(begun.layer.connections(), known);
            assert_eq!(events.request().await.unwrap(), Outcome::NotKnown);
            assert_eq!(events.close().await.unwrap().done().is_some(), known == 1);
            assert_eq!(begun.layer.connections(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_closed_is_forgotten_when_nobody_tries_again() {
    let begun = Begun::new(Side::Server, FailOn::close(1).layer(echo()));
    begun.request(connection("c")).await.unwrap();
    let events = begun.events();

    events.forget().await;
    assert_eq!(begun.layer.connections(), 1, "what stands stays");
    events.close().await.unwrap_err();
    events.forget().await;

    assert_eq!(begun.layer.connections(), 0);
}
