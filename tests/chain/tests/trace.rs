//! Behaviours of `trace`: what is logged, and what never is.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

mod captured;

use captured::Captured;
use chain_suite::{connection, path, request, send};
use http::HeaderValue;
use nsm_api::connection::Connection;
use nsm_chain::begin::Events;
use nsm_chain::test_util::{FailOn, Fault, Recorder, echo, poll_n_then_drop};
use nsm_chain::trace::ElementLayer;
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, DeadlineLayer, Elements, MetadataLayer, NetworkService,
    Side, TraceLayer, UpdatePathLayer,
};
use tokio::time::{Duration, advance};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);

fn chain(inner: impl NetworkService) -> BoxNetworkService {
    let chain = ServiceBuilder::new()
        .layer(TraceLayer)
        .layer(DeadlineLayer::new(15 * SECOND))
        .layer(UpdatePathLayer::new("nse"))
        .layer(BeginLayer::new(Side::Server))
        .layer(MetadataLayer::new(Side::Server))
        .layer(ElementLayer::new("innermost", Side::Server))
        .service(inner);
    BoxNetworkService::new(chain)
}

#[tokio::test(start_paused = true)]
async fn an_error_is_logged_once_with_all_its_causes() {
    let log = Captured::start();
    let chain = chain(FailOn::request(1).layer(echo()));

    send(&chain, request(connection("c"))).await.unwrap_err();

    let errors = log.events(Level::WARN);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!(errors[0].level, Level::ERROR);
    let expected = "request failed error=fail_on: unavailable: injected";
    assert_eq!(errors[0].text, expected);
    assert_eq!(errors[0].spans, ["call operation=request connection.id=c"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_comes_when_the_caller_has_gone_is_logged_once_too() {
    let log = Captured::start();
    let inner = ServiceBuilder::new()
        .layer(FailOn::request(1).with(Fault::Delay(SECOND)))
        .layer(FailOn::request(1))
        .service(echo());
    let chain = chain(inner);

    poll_n_then_drop(send(&chain, request(connection("c"))), 1).await;
    advance(2 * SECOND).await;
    send(&chain, request(connection("c"))).await.unwrap();

    let errors = log.events(Level::WARN);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!(
        errors[0].text,
        "failed after the caller had gone error=fail_on: unavailable: injected"
    );
    assert_eq!(errors[0].spans, ["call operation=request connection.id=c"]);
}

#[tokio::test(start_paused = true)]
async fn the_life_of_a_connection_is_logged_and_its_refreshes_are_not() {
    let log = Captured::start();
    let chain = chain(echo());

    send(&chain, request(connection("c"))).await.unwrap();
    send(&chain, request(connection("c"))).await.unwrap();
    send(&chain, Call::close(connection("c"))).await.unwrap();

    let events = log.events(Level::INFO);
    let texts: Vec<_> = events.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(texts, ["connection established", "connection closed"]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_gets_its_id_on_the_way_down_has_it_in_its_span() {
    let log = Captured::start();

    let connection = send(&chain(echo()), request(connection(""))).await.unwrap();

    let expected = format!("call operation=request connection.id={}", connection.id);
    assert!(log.spans().contains(&expected), "{:#?}", log.spans());
}

#[tokio::test(start_paused = true)]
async fn what_an_element_logs_is_in_the_spans_of_its_call_and_of_its_own() {
    let log = Captured::start();
    let chain = chain(service_fn(|call: Call| {
        tracing::debug!("at work");
        echo().oneshot(call)
    }));

    send(&chain, request(connection("c"))).await.unwrap();

    let events = log.events(Level::DEBUG);
    let at_work = events.iter().find(|event| event.text == "at work");
    assert_eq!(
        at_work.unwrap().spans,
        [
            "call operation=request connection.id=c",
            "element otel.name=innermost/innermostServer.Request connection.id=c"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn each_element_of_a_chain_has_a_span_within_that_of_the_one_above() {
    let log = Captured::start();
    let chain = ServiceBuilder::new()
        .layer(TraceLayer)
        .server("updatepath", UpdatePathLayer::new("forwarder"))
        .server("begin", BeginLayer::new(Side::Server))
        .client("metadata", MetadataLayer::new(Side::Client))
        .service(service_fn(|call: Call| {
            tracing::debug!("at work");
            echo().oneshot(call)
        }));

    send(&chain, Call::close(connection("c"))).await.unwrap();

    let events = log.events(Level::DEBUG);
    let at_work = events.iter().find(|event| event.text == "at work");
    let spans = &at_work.unwrap().spans;
    let names: Vec<_> = spans.iter().map(|span| span.split(' ').nth(1)).collect();
    assert_eq!(
        names,
        [
            Some("operation=close"),
            Some("otel.name=updatepath/updatepathServer.Close"),
            Some("otel.name=begin/beginServer.Close"),
            Some("otel.name=metadata/metadataClient.Close"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_has_a_span_of_its_own_wherever_it_starts() {
    let log = Captured::start();
    let below = Recorder::new();
    let end = service_fn(|call: Call| {
        tracing::debug!("at work");
        echo().oneshot(call)
    });
    let chain = chain(below.layer(end));
    send(&chain, request(connection("c"))).await.unwrap();
    let events: Events = below.last().extensions.get().cloned().unwrap();

    let timer = tracing::info_span!("timer");
    tracing::Instrument::instrument(events.request(), timer)
        .await
        .unwrap();

    let logged = log.events(Level::DEBUG);
    let last = logged.iter().rfind(|event| event.text == "at work");
    let last = last.unwrap();
    assert_eq!(
        last.spans,
        [
            "event operation=request connection.id=c",
            "element otel.name=innermost/innermostServer.Request connection.id=c"
        ]
    );
}

/// A call whose every place for secrets has one.
fn with_secrets() -> Call {
    let mut path = path(0, &[("nsc", "c")]);
    path.path_segments[0].token = "secret-token".to_owned();
    let mut call = request(Connection {
        path: Some(path),
        ..connection("c")
    });
    let token = HeaderValue::from_static("secret-token");
    call.metadata.insert("authorization", token.clone());
    call.extensions.insert(token);
    call
}

#[tokio::test(start_paused = true)]
async fn a_token_is_never_logged() {
    let log = Captured::start();
    let inner = ServiceBuilder::new()
        .layer(FailOn::request(1))
        .layer(FailOn::request(1).with(Fault::Panic))
        .layer(FailOn::close(1))
        .service(echo());
    let mut chain = chain(inner);

    for _ in 0..4 {
        let _ = send(&chain, with_secrets()).await;
        let mut close = with_secrets();
        let connection = close.connection().clone();
        close.operation = Call::close(connection).operation;
        let _ = chain.ready().await.unwrap().call(close).await;
    }

    assert!(!log.events(Level::TRACE).is_empty());
    assert!(!log.everything().contains("secret"));
}

#[test]
fn the_debug_form_of_a_call_names_it_and_shows_no_token() {
    let shown = format!("{:?}", with_secrets());

    assert!(shown.contains(r#"Request { id: "c""#), "{shown}");
    assert!(shown.contains("authorization"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
}
