//! Behaviours of `timeout`: when a connection is closed that nobody asks for again.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

use std::sync::{Arc, Mutex};

use chain_suite::{Begun, connection, eventually, pass, path_that_ends, request, send};
use nsm_api::connection::{Connection, Path};
use nsm_chain::test_util::{FailOn, Fault, Recorder, echo};
use nsm_chain::{Call, Error, ErrorKind, NetworkService, Side, TimeoutLayer, now};
use prost_types::Timestamp;
use tokio::time::{Duration, Instant};
use tower::{Layer, ServiceBuilder};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A server with `timeout`; it knows when which operation came out below.
struct Server {
    begun: Begun,
    timeout: TimeoutLayer,
    below: Recorder,
    closes: Arc<Mutex<Vec<Instant>>>,
}

impl Server {
    fn new() -> Self {
        Self::over(echo())
    }

    fn over(inner: impl NetworkService) -> Self {
        let timeout = TimeoutLayer::new();
        let below = Recorder::new();
        let closes = Arc::<Mutex<Vec<Instant>>>::default();
        let times = Arc::clone(&closes);
        let inner = ServiceBuilder::new()
            .layer(timeout.clone())
            .layer(below.clone())
            .map_request(move |call: Call| {
                if call.operation.name() == "close" {
                    times.lock().unwrap().push(Instant::now());
                }
                call
            })
            .service(inner);
        Self {
            begun: Begun::new(Side::Server, inner),
            timeout,
            below,
            closes,
        }
    }

    /// A request of a hop before whose token lives so long, with that time for the call.
    async fn request(&self, life: Duration, time: Option<Duration>) -> Result<Connection, Error> {
        let mut call = request(known_until(life));
        call.deadline = time.map(|time| Instant::now() + time);
        send(&self.begun.chain, call).await
    }

    fn closes(&self) -> Vec<Instant> {
        self.closes.lock().unwrap().clone()
    }

    /// Whether nothing of any connection is left.
    fn is_empty(&self) -> bool {
        self.begun.layer.connections() == 0 && self.timeout.timers() == 0
    }
}

/// A connection at the second hop, whose first one's token lives so long.
fn known_until(life: Duration) -> Connection {
    Connection {
        path: Some(path_that_ends(1, &[life, 60 * MINUTE])),
        ..connection("id-1")
    }
}

fn about(moment: Instant, expected: Instant) -> bool {
    moment >= expected && moment <= expected + 2 * MILLISECOND
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_once_when_the_token_of_the_hop_before_ends() {
    let server = Server::new();
    let end = Instant::now() + 10 * MINUTE;
    server.request(10 * MINUTE, None).await.unwrap();

    pass(5 * MINUTE).await;
    assert_eq!(server.below.operations(), ["request"]);
    pass(60 * MINUTE).await;

    assert_eq!(server.below.operations(), ["request", "close"]);
    assert!(about(server.closes()[0], end));
    assert!(server.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_close_comes_so_early_that_it_has_the_time_of_a_request() {
    let server = Server::new();
    let start = Instant::now();
    let time = Some(15 * SECOND);
    server.request(10 * MINUTE, time).await.unwrap();

    pass(11 * MINUTE).await;

    assert!(about(server.closes()[0], start + 10 * MINUTE - 15 * SECOND));
    let close = server.below.last();
    let deadline = close.deadline.unwrap();
    assert!(about(deadline, start + 10 * MINUTE));
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_token_is_shorter_than_the_time_of_a_request_stands_while_it_is_refreshed()
 {
    let server = Server::new();

    // Ten lives, and more, each refreshed at a fifth.
    for _ in 0..60 {
        server
            .request(10 * SECOND, Some(15 * SECOND))
            .await
            .unwrap();
        pass(2 * SECOND).await;
    }
    assert!(server.closes().is_empty());

    pass(10 * SECOND).await;
    assert_eq!(server.closes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_close_of_the_caller_ends_the_timer() {
    let server = Server::new();
    server.request(MINUTE, None).await.unwrap();

    server.begun.close(known_until(MINUTE)).await.unwrap();
    assert!(server.is_empty());
    pass(10 * MINUTE).await;

    assert_eq!(server.below.operations(), ["request", "close"]);
}

#[tokio::test(start_paused = true)]
async fn a_close_of_the_caller_after_the_end_finds_nothing_left_and_is_passed_on() {
    let server = Server::new();
    server.request(MINUTE, None).await.unwrap();
    pass(2 * MINUTE).await;

    server.begun.close(known_until(MINUTE)).await.unwrap();

    assert_eq!(server.below.operations(), ["request", "close", "close"]);
    assert!(server.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refresh_moves_the_end() {
    let server = Server::new();
    for _ in 0..10 {
        server.request(MINUTE, None).await.unwrap();
        pass(MINUTE / 2).await;
    }
    assert!(server.closes().is_empty());
    assert_eq!(server.timeout.timers(), 1);

    pass(MINUTE).await;

    assert_eq!(server.closes().len(), 1);
    assert!(server.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_leaves_the_end_as_it_was() {
    let server = Server::over(FailOn::request(2).layer(echo()));
    let end = Instant::now() + MINUTE;
    server.request(MINUTE, None).await.unwrap();
    pass(MINUTE / 2).await;

    server.request(10 * MINUTE, None).await.unwrap_err();
    pass(60 * MINUTE).await;

    assert_eq!(server.below.operations(), ["request", "request", "close"]);
    assert!(about(server.closes()[0], end));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_at_the_end_finds_the_connection_or_establishes_it_anew() {
    for early in [true, false] {
        let server = Server::new();
        server.request(MINUTE, None).await.unwrap();
        pass(if early { MINUTE - MILLISECOND } else { MINUTE }).await;

        server.request(MINUTE, None).await.unwrap();
        pass(MINUTE / 2).await;

        assert_eq!(server.below.operations().last(), Some(&"request"));
        assert_eq!(server.timeout.timers(), 1);
        assert_eq!(server.begun.layer.connections(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_of_a_caller_that_ran_out_of_time_is_done_again_at_the_end() {
    for kind in [ErrorKind::DeadlineExceeded, ErrorKind::Cancelled] {
        let fault = FailOn::close(1).with(Fault::Error(kind));
        let server = Server::over(fault.layer(echo()));
        let end = Instant::now() + MINUTE;
        server.request(MINUTE, None).await.unwrap();

        let closed = server.begun.close(known_until(MINUTE)).await;
        assert_eq!(closed.unwrap_err().kind(), kind);
        pass(2 * MINUTE).await;

        assert_eq!(server.below.operations(), ["request", "close", "close"]);
        assert!(about(server.closes()[1], end));
        assert!(server.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_of_a_caller_that_was_refused_is_not_done_again() {
    let server = Server::over(FailOn::close(1).layer(echo()));
    server.request(MINUTE, None).await.unwrap();

    server.begun.close(known_until(MINUTE)).await.unwrap_err();
    pass(2 * MINUTE).await;

    assert_eq!(server.below.operations(), ["request", "close"]);
    assert!(server.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_close_at_the_end_that_fails_is_tried_again_after_growing_pauses() {
    let faults = ServiceBuilder::new()
        .layer(FailOn::close(1))
        .layer(FailOn::close(1))
        .layer(FailOn::close(1))
        .service(echo());
    let server = Server::over(faults);
    server.request(MINUTE, None).await.unwrap();

    pass(2 * MINUTE).await;

    let closes = server.closes();
    let pauses = closes.windows(2).map(|pair| (pair[1] - pair[0]).as_secs());
    assert_eq!(pauses.collect::<Vec<_>>(), [1, 2, 4]);
    assert!(server.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_can_never_be_closed_is_forgotten_after_a_while() {
    let server = Server::over(FailOn::close(1).and_later().layer(echo()));
    server.request(MINUTE, None).await.unwrap();

    pass(15 * MINUTE).await;

    assert_eq!(server.closes().len(), 15);
    eventually(|| server.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_during_the_retries_brings_the_connection_back() {
    let server = Server::over(FailOn::close(1).layer(echo()));
    server.request(MINUTE, None).await.unwrap();
    pass(MINUTE + SECOND / 2).await;
    assert_eq!(server.closes().len(), 1);

    server.request(MINUTE, None).await.unwrap();
    pass(MINUTE / 2).await;

    assert_eq!(server.below.operations(), ["request", "close", "request"]);
    assert_eq!(server.timeout.timers(), 1);
}

/// A path whose hop here has written no token, behind one that ends then.
fn without_a_token_of_ours(expires: Option<Timestamp>) -> Path {
    let mut path = path_that_ends(1, &[MINUTE, MINUTE]);
    path.path_segments[0].expires = expires;
    path.path_segments[1].expires = None;
    path
}

fn with_path(path: Path) -> Connection {
    Connection {
        path: Some(path),
        ..connection("id-1")
    }
}

/// How long a connection of that path stands, with no time for the close.
async fn stands(path: Path) -> Duration {
    let server = Server::new();
    let start = Instant::now();
    server.begun.request(with_path(path)).await.unwrap();
    pass(600 * MINUTE).await;
    assert!(server.is_empty());
    server.closes()[0] - start
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_starts_here_ends_with_our_own_token_and_without_one_never() {
    let starts_here = |lives: &[Duration]| Connection {
        path: Some(path_that_ends(0, lives)),
        ..connection("id-0")
    };
    let server = Server::new();
    server.begun.request(starts_here(&[MINUTE])).await.unwrap();
    pass(600 * MINUTE).await;
    assert_eq!(server.closes().len(), 1);

    let server = Server::new();
    let mut endless = starts_here(&[MINUTE]);
    endless.path.get_or_insert_default().path_segments[0].expires = None;
    server.begun.request(endless).await.unwrap();
    pass(600 * MINUTE).await;
    assert!(server.closes().is_empty());
    assert_eq!(server.timeout.timers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_stands_no_longer_than_our_own_token_does() {
    let day = 24 * 60 * MINUTE;
    for (theirs, expected) in [(day, 2), (2 * MINUTE, 2), (MINUTE, 1)] {
        let stood = stands(path_that_ends(1, &[theirs, 2 * MINUTE])).await;

        assert_eq!(stood.as_secs(), expected * 60, "{theirs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hop_before_whose_clock_is_behind_or_ahead_has_the_life_of_our_own_token() {
    let hour = 60 * MINUTE;
    for ends in [now() - hour, now(), now() + hour] {
        let mut path = path_that_ends(1, &[MINUTE, MINUTE]);
        path.path_segments[0].expires = Some(ends.into());

        assert_eq!(stands(path).await.as_secs(), 60, "{ends:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_hop_that_says_no_end_or_one_that_is_over_is_refused_and_leaves_nothing() {
    let refused = |expires: Option<Timestamp>| async move {
        let server = Server::new();
        let asked = with_path(without_a_token_of_ours(expires));
        let error = server.begun.request(asked).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        // What came below is the close of a first request that failed.
        assert_eq!(server.below.operations(), ["close"]);
        assert!(server.is_empty());
        error.report().to_string()
    };

    assert_eq!(
        refused(None).await,
        "timeout: invalid argument: \"hop-0\", the hop before, has not said when its token ends"
    );
    let ago = now() - MINUTE;
    assert_eq!(
        refused(Some(ago.into())).await,
        "timeout: invalid argument: the token of \"hop-0\", the hop before, has ended already, if its \
         clock and ours agree"
    );
    let before_all_time = Timestamp {
        seconds: i64::MIN,
        nanos: i32::MIN,
    };
    refused(Some(before_all_time)).await;
}

#[tokio::test(start_paused = true)]
async fn an_end_beyond_all_time_is_no_end() {
    let server = Server::new();
    let path = without_a_token_of_ours(Some(Timestamp {
        seconds: i64::MAX,
        nanos: 0,
    }));

    server.begun.request(with_path(path)).await.unwrap();
    pass(600 * MINUTE).await;

    assert!(server.closes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn timers_end_with_the_chain() {
    let server = Server::new();
    server.request(MINUTE, None).await.unwrap();
    let below = server.below.clone();
    drop(server);

    pass(10 * MINUTE).await;

    assert_eq!(below.operations(), ["request"]);
}

#[tokio::test(start_paused = true)]
async fn requests_closes_and_ends_of_many_connections_leave_nothing() {
    let server = Server::new();
    for round in 0..200u64 {
        for id in 0..10 {
            let id = format!("id-{id}");
            let mut path = path_that_ends(1, &[MILLISECOND * 5, MINUTE]);
            path.path_segments[1].id.clone_from(&id);
            let connection = Connection {
                path: Some(path),
                ..connection(&id)
            };
            if round % 4 == 3 {
                server.begun.close(connection).await.unwrap();
            } else {
                server.begun.request(connection).await.unwrap();
            }
        }
        pass(MILLISECOND * (round % 9) as u32).await;
    }

    pass(MINUTE).await;

    assert!(server.is_empty());
}
