//! Behaviours of what tests of elements are made with.

use chain_suite::{connection, request, send};
use nsm_chain::test_util::{FailOn, Fault, Polled, Recorder, echo, poll_n_then_drop};
use nsm_chain::{Call, ErrorKind, NetworkService};
use tokio::task::yield_now;
use tokio::time::{Duration, Instant};
use tower::{Layer, ServiceBuilder};

/// Which of four requests, each followed by a close, fail.
async fn failing(chain: impl NetworkService) -> Vec<&'static str> {
    let mut failed = Vec::new();
    for nth in ["1st", "2nd", "3rd", "4th"] {
        if send(&chain, request(connection("c"))).await.is_err() {
            failed.push(nth);
        }
        let closed = send(&chain, Call::close(connection("c"))).await;
        assert!(closed.is_ok());
    }
    failed
}

#[tokio::test]
async fn the_nth_request_fails_and_no_close_does() {
    let failed = failing(FailOn::request(2).layer(echo())).await;
    assert_eq!(failed, ["2nd"]);

    let failed = failing(FailOn::request(3).and_later().layer(echo())).await;
    assert_eq!(failed, ["3rd", "4th"]);
}

#[tokio::test]
async fn several_faults_make_a_script() {
    let script = ServiceBuilder::new()
        .layer(FailOn::request(1))
        .layer(FailOn::request(2));

    // The inner one does not see what the outer one refuses.
    assert_eq!(failing(script.service(echo())).await, ["1st", "3rd"]);
}

#[tokio::test(start_paused = true)]
async fn a_fault_strikes_on_the_way_down_or_up() {
    for (fail_on, seen_below) in [
        (FailOn::request(1), 0),
        (FailOn::request(1).on_the_way_up(), 1),
    ] {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(fail_on.with(Fault::Error(ErrorKind::NotFound)))
            .layer(below.clone())
            .service(echo());

        let error = send(&chain, request(connection("c"))).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(below.calls().len(), seen_below);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_lets_the_call_pass_later() {
    let delay = Duration::from_secs(3);
    let chain = FailOn::request(1).with(Fault::Delay(delay)).layer(echo());
    let start = Instant::now();

    send(&chain, request(connection("c"))).await.unwrap();

    assert_eq!(start.elapsed(), delay);
}

#[tokio::test]
async fn a_future_is_polled_n_times_and_dropped() {
    let two_awaits = || async {
        yield_now().await;
        yield_now().await;
        "done"
    };

    for polls in [0, 1, 2] {
        let polled = poll_n_then_drop(two_awaits(), polls).await;
        assert_eq!(
            polled,
            Polled {
                output: None,
                polls
            }
        );
    }
    let polled = poll_n_then_drop(two_awaits(), 9).await;
    let output = Some("done");
    assert_eq!(polled, Polled { output, polls: 3 });
}
