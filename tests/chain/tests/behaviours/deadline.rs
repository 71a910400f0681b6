//! Behaviours of `deadline`: how long a caller waits.

use chain_suite::{Begun, connection, request, send};
use nsm_chain::test_util::{FailOn, Fault, Recorder, echo};
use nsm_chain::{BeginLayer, Call, DeadlineLayer, ErrorKind, Side};
use tokio::time::{Duration, Instant};
use tower::{Layer, ServiceBuilder};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_call_without_a_deadline_gets_one() {
    let below = Recorder::new();
    let chain = DeadlineLayer::new(15 * SECOND).layer(below.layer(echo()));

    for call in [request(connection("c")), Call::close(connection("c"))] {
        send(&chain, call).await.unwrap();
        assert_eq!(below.last().deadline, Some(Instant::now() + 15 * SECOND));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_keeps_the_deadline_that_it_has() {
    let below = Recorder::new();
    let chain = DeadlineLayer::new(15 * SECOND).layer(below.layer(echo()));

    for deadline in [SECOND, 60 * SECOND].map(|time| Instant::now() + time) {
        let mut call = request(connection("c"));
        call.deadline = Some(deadline);
        send(&chain, call).await.unwrap();
        assert_eq!(below.last().deadline, Some(deadline));
    }
}

#[tokio::test(start_paused = true)]
async fn the_caller_stops_waiting_at_the_deadline_and_the_work_goes_on() {
    let slow = FailOn::request(1).with(Fault::Delay(20 * SECOND));
    let begun = Begun::with(BeginLayer::new(Side::Server), slow.layer(echo()));
    let chain = ServiceBuilder::new()
        .layer(DeadlineLayer::new(15 * SECOND))
        .service(begun.chain.clone());
    let start = Instant::now();

    let error = send(&chain, request(connection("c"))).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(error.element(), "deadline");
    assert_eq!(start.elapsed(), 15 * SECOND);

    // The connection comes up without its caller, so what comes next is a refresh.
    send(&chain, request(connection("c"))).await.unwrap();
    assert_eq!(start.elapsed(), 20 * SECOND);
    assert_eq!(begun.below.operations(), ["request", "request"]);
    assert_eq!(begun.layer.connections(), 1);
}
