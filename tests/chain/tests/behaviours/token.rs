//! Behaviours of `token`: who says until when he stands for a connection, and where.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

use chain_suite::{connection, path, request, send};
use http::{HeaderMap, HeaderValue};
use nsm_api::connection::Connection;
use nsm_chain::test_util::{Recorder, echo};
use nsm_chain::token::{EXPIRES, TOKEN, Token, TokenSource, Unsigned};
use nsm_chain::{
    BoxError, BoxNetworkService, Call, ErrorKind, Side, TokenLayer, UpdatePathLayer, now,
};
use prost_types::Timestamp;
use tokio::time::{Duration, advance};
use tower::{Layer, ServiceBuilder};

const MINUTE: Duration = Duration::from_secs(60);

fn unsigned(name: &str) -> Unsigned {
    Unsigned::new(name, 10 * MINUTE)
}

/// The second hop of a path, that sees these headers.
fn at_the_second_hop(headers: HeaderMap) -> Call {
    let mut call = request(Connection {
        path: Some(path(1, &[("nsc", "c"), ("forwarder", "d")])),
        ..connection("d")
    });
    call.metadata = headers;
    call
}

fn headers(token: &[&'static str], expires: &[&'static str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in token {
        headers.append(TOKEN, HeaderValue::from_static(value));
    }
    for value in expires {
        headers.append(EXPIRES, HeaderValue::from_static(value));
    }
    headers
}

fn close_of(call: &Call) -> Call {
    let mut close = Call::close(call.connection().clone());
    close.metadata = call.metadata.clone();
    close
}

#[tokio::test(start_paused = true)]
async fn a_server_writes_the_callers_token_and_its_own_into_the_path() {
    let below = Recorder::new();
    let chain = TokenLayer::new(Side::Server, unsigned("forwarder")).layer(below.layer(echo()));
    let theirs = headers(&["of nsc"], &["2026-01-02T03:04:05.000000006Z"]);
    let call = at_the_second_hop(theirs);

    for call in [close_of(&call), call] {
        send(&chain, call).await.unwrap();

        let seen = below.last();
        let segments = &seen.connection().path.as_ref().unwrap().path_segments;
        assert_eq!(segments[0].token, "of nsc");
        let expires = segments[0].expires.unwrap();
        assert_eq!(expires.to_string(), "2026-01-02T03:04:05.000000006Z");
        assert_eq!(segments[1].token, "forwarder");
        let own = Timestamp::from(now() + 10 * MINUTE);
        assert_eq!(segments[1].expires, Some(own));
    }
}

#[tokio::test(start_paused = true)]
async fn the_callers_token_does_not_go_on_to_the_next_hop() {
    let below = Recorder::new();
    let end = below.layer(echo());
    let theirs = headers(&["of nsc"], &["2026-01-02T03:04:05Z"]);

    let server = TokenLayer::new(Side::Server, unsigned("forwarder")).layer(end.clone());
    send(&server, at_the_second_hop(theirs.clone()))
        .await
        .unwrap();
    assert!(!below.last().metadata.contains_key(TOKEN));
    assert!(!below.last().metadata.contains_key(EXPIRES));

    let client = TokenLayer::new(Side::Client, unsigned("forwarder")).layer(end);
    send(&client, at_the_second_hop(theirs)).await.unwrap();
    let sent: Vec<_> = below
        .last()
        .metadata
        .get_all(TOKEN)
        .iter()
        .cloned()
        .collect();
    assert_eq!(sent, ["forwarder"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_sends_a_new_token_with_each_call() {
    let below = Recorder::new();
    let chain = TokenLayer::new(Side::Client, unsigned("nsc")).layer(below.layer(echo()));
    let call = request(connection("c"));

    for call in [close_of(&call), call] {
        advance(MINUTE).await;
        send(&chain, call).await.unwrap();

        let sent = below.last().metadata;
        assert_eq!(sent[TOKEN], "nsc");
        assert!(sent[TOKEN].is_sensitive());
        let expires: Timestamp = sent[EXPIRES].to_str().unwrap().parse().unwrap();
        assert_eq!(expires, Timestamp::from(now() + 10 * MINUTE));
    }
}

#[tokio::test(start_paused = true)]
async fn every_hop_of_a_path_sees_the_end_of_the_one_before() {
    let hop = |name: &'static str, inner: BoxNetworkService| {
        let chain = ServiceBuilder::new()
            .layer(UpdatePathLayer::new(name))
            .layer(TokenLayer::new(Side::Server, unsigned(name)))
            .layer(UpdatePathLayer::new(name))
            .layer(TokenLayer::new(Side::Client, unsigned(name)))
            .service(inner);
        BoxNetworkService::new(chain)
    };
    let endpoint = hop("nse", BoxNetworkService::new(echo()));
    let client = ServiceBuilder::new()
        .layer(UpdatePathLayer::new("nsc"))
        .layer(TokenLayer::new(Side::Client, unsigned("nsc")))
        .service(hop("forwarder", endpoint));

    let answer = send(&client, request(connection("c"))).await.unwrap();

    let segments = answer.path.unwrap().path_segments;
    let tokens: Vec<_> = segments.iter().map(|segment| &*segment.token).collect();
    assert_eq!(tokens, ["nsc", "forwarder", "nse"]);
    assert!(segments.iter().all(|segment| segment.expires.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_a_token_is_served_and_its_segment_left_alone() {
    let below = Recorder::new();
    let chain = TokenLayer::new(Side::Server, unsigned("forwarder")).layer(below.layer(echo()));

    send(&chain, at_the_second_hop(HeaderMap::new()))
        .await
        .unwrap();

    let seen = below.last();
    let segments = &seen.connection().path.as_ref().unwrap().path_segments;
    assert_eq!(segments[0].expires, None);
    assert_eq!(segments[1].token, "forwarder");
}

#[tokio::test(start_paused = true)]
async fn headers_that_are_no_token_are_refused_in_words_that_do_not_repeat_them() {
    let end = "2026-01-02T03:04:05Z";
    let mut not_text = headers(&[], &[end]);
    not_text.insert(TOKEN, HeaderValue::from_bytes(b"secret-\xff").unwrap());
    let times = [
        "",
        "secret-",
        "tomorrow",
        "2026-01-02",
        "2026-13-02T03:04:05Z",
        "1767323045",
    ];
    let mut wrong = vec![
        (
            headers(&["secret-"], &[]),
            "the header nsm-client-token-expires is missing beside the other one of the token",
        ),
        (
            headers(&[], &[end]),
            "the header nsm-client-token is missing beside the other one of the token",
        ),
        (
            headers(&["secret-1", "secret-2"], &[end]),
            "the header nsm-client-token comes more than once",
        ),
        (
            headers(&["secret-"], &[end, end]),
            "the header nsm-client-token-expires comes more than once",
        ),
        (not_text, "the header nsm-client-token is not text"),
    ];
    wrong.extend(times.map(|time| {
        (
            headers(&["secret-"], &[time]),
            "the header nsm-client-token-expires is no time of RFC 3339",
        )
    }));
    for (headers, words) in wrong {
        let below = Recorder::new();
        let chain = TokenLayer::new(Side::Server, unsigned("forwarder")).layer(below.layer(echo()));
        let call = at_the_second_hop(headers);
        let close = close_of(&call);

        let error = send(&chain, call).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let report = error.report().to_string();
        assert_eq!(report, format!("token: invalid argument: {words}"));
        assert!(below.calls().is_empty());

        // Whoever says goodbye is let go.
        send(&chain, close).await.unwrap();
        assert_eq!(below.operations(), ["close"]);
        assert!(!below.last().metadata.contains_key(TOKEN));
    }
}

#[tokio::test(start_paused = true)]
async fn times_of_other_zones_and_of_any_precision_are_read() {
    let below = Recorder::new();
    let chain = TokenLayer::new(Side::Server, unsigned("forwarder")).layer(below.layer(echo()));

    for (text, same) in [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T05:04:05.25+02:00", "2026-01-02T03:04:05.250Z"),
        (
            "2026-01-02T03:04:05.123456789Z",
            "2026-01-02T03:04:05.123456789Z",
        ),
    ] {
        let call = at_the_second_hop(headers(&["t"], &[text]));
        send(&chain, call).await.unwrap();

        let seen = below.last();
        let expires = seen.connection().previous_segment().unwrap().expires;
        assert_eq!(expires, Some(same.parse().unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_without_a_hop_before_or_that_points_nowhere_does_no_harm() {
    let chain = TokenLayer::new(Side::Server, unsigned("nsc")).layer(echo());
    let theirs = headers(&["t"], &["2026-01-02T03:04:05Z"]);
    for path in [
        None,
        Some(path(0, &[])),
        Some(path(7, &[("nsc", "c")])),
        Some(path(u32::MAX, &[])),
    ] {
        let mut call = request(Connection {
            path,
            ..connection("c")
        });
        call.metadata = theirs.clone();

        send(&chain, call).await.unwrap();
    }
}

struct Broken;

impl TokenSource for Broken {
    fn token(&self, _: &Call) -> Result<Token, BoxError> {
        Err("no identity yet".into())
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_token_of_ours_a_request_fails_and_a_close_goes_on() {
    for side in [Side::Server, Side::Client] {
        let below = Recorder::new();
        let broken = TokenLayer::new(side, Broken).layer(below.layer(echo()));

        let error = send(&broken, request(connection("c"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(
            error.report().to_string(),
            "token: unavailable: no identity yet"
        );

        send(&broken, Call::close(connection("c"))).await.unwrap();
        assert_eq!(below.operations(), ["close"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_no_header_or_never_ends_is_an_error_of_the_source() {
    for source in [unsigned("n\u{f6}\n"), Unsigned::new("nsc", Duration::MAX)] {
        let chain = TokenLayer::new(Side::Client, source).layer(echo());

        let error = send(&chain, request(connection("c"))).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
}
