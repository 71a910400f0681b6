//! Behaviours of `retry`: calls that are made until they succeed.

use chain_suite::{connection, pass, request, send};
use nsm_chain::test_util::{FailOn, Fault, Recorder, echo};
use nsm_chain::{Call, ErrorKind, NetworkService, RetryLayer};
use tokio::time::{Duration, Instant};
use tower::{Layer, ServiceBuilder};

const SECOND: Duration = Duration::from_secs(1);

/// A chain in which something goes wrong, and what comes out below `retry`.
fn retrying(wrong: &FailOn) -> (impl NetworkService, Recorder) {
    let below = Recorder::new();
    let chain = ServiceBuilder::new()
        .layer(RetryLayer::new())
        .layer(below.clone())
        .layer(wrong.clone())
        .service(echo());
    (chain, below)
}

#[tokio::test(start_paused = true)]
async fn a_request_and_a_close_succeed_after_failures() {
    let below = Recorder::new();
    let chain = ServiceBuilder::new()
        .layer(RetryLayer::new())
        .layer(below.clone())
        .layer(FailOn::request(1))
        .layer(FailOn::request(1))
        .layer(FailOn::close(1))
        .service(echo());
    let start = Instant::now();

    let answer = send(&chain, request(connection("c"))).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(400));
    send(&chain, Call::close(answer)).await.unwrap();

    assert_eq!(start.elapsed(), Duration::from_millis(600));
    let expected = ["request", "request", "request", "close", "close"];
    assert_eq!(below.operations(), expected);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_exactly_its_own_deadline() {
    for of_the_call in [None, Some(60 * SECOND)] {
        let (chain, below) = retrying(&FailOn::request(1));

        let start = Instant::now();
        let mut call = request(connection("c"));
        call.deadline = of_the_call.map(|time| start + time);
        send(&chain, call).await.unwrap();

        let deadlines: Vec<_> = below.calls().iter().map(|call| call.deadline).collect();
        let second = start + Duration::from_millis(200);
        let expected = [start, second].map(|begin| Some(begin + 15 * SECOND));
        assert_eq!(deadlines, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_an_attempt_is_never_behind_that_of_the_call() {
    let (chain, below) = retrying(&FailOn::request(0));
    let mut call = Call::close(connection("c"));
    call.deadline = Some(Instant::now() + 4 * SECOND);

    send(&chain, call.clone()).await.unwrap();

    assert_eq!(below.last().deadline, call.deadline);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_hangs_is_given_up_for_another_one() {
    let slow = FailOn::request(1).with(Fault::Delay(3600 * SECOND));
    let (chain, below) = retrying(&slow);
    let start = Instant::now();

    send(&chain, request(connection("c"))).await.unwrap();

    assert_eq!(start.elapsed(), 15 * SECOND + Duration::from_millis(200));
    assert_eq!(below.operations(), ["request"; 2]);
}

#[tokio::test(start_paused = true)]
async fn at_the_calls_deadline_the_last_error_is_told() {
    let (chain, below) = retrying(&FailOn::request(1).and_later());
    let mut call = request(connection("c"));
    call.deadline = Some(Instant::now() + SECOND);
    let start = Instant::now();

    let error = send(&chain, call).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    let report = error.report().to_string();
    assert!(
        report.ends_with("fail_on: unavailable: injected"),
        "{report}"
    );
    assert!(start.elapsed() <= SECOND);
    assert_eq!(below.operations().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_wrong_is_not_repeated() {
    for kind in [ErrorKind::InvalidArgument, ErrorKind::Unimplemented] {
        let (chain, below) = retrying(&FailOn::request(1).with(Fault::Error(kind)));

        let error = send(&chain, request(connection("c"))).await.unwrap_err();

        assert_eq!(error.kind(), kind);
        assert_eq!(below.operations().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_caller_goes_the_attempts_end() {
    let below = Recorder::new();
    let chain = RetryLayer::new().layer(below.layer(FailOn::request(1).and_later().layer(echo())));
    let caller = tokio::spawn(async move { send(&chain, request(connection("c"))).await });
    pass(SECOND).await;
    let so_far = below.operations().len();
    assert!(so_far > 3);

    caller.abort();
    pass(60 * SECOND).await;

    assert_eq!(below.operations().len(), so_far);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_and_a_pause_may_have_all_the_time_there_is() {
    let below = Recorder::new();
    let chain = RetryLayer::new()
        .attempt(Duration::MAX)
        .pause(Duration::MAX)
        .layer(below.layer(FailOn::request(1).layer(echo())));
    let mut call = request(connection("c"));
    call.deadline = Some(Instant::now() + SECOND);

    let error = send(&chain, call).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    send(&chain, request(connection("c"))).await.unwrap();

    assert_eq!(below.calls()[1].deadline, None);
}
