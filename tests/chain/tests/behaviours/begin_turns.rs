//! Behaviours of `begin`: whose turn it is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chain_suite::{Begun, connection, eventually, request, send};
use nsm_chain::test_util::{FailOn, Fault, Recorder, echo, poll_n_then_drop};
use nsm_chain::{BeginLayer, Call, ErrorKind, NetworkService, Side};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Duration, Instant, advance, timeout};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);

/// Answers the first request after a second.
fn slow_first() -> impl NetworkService {
    FailOn::request(1).with(Fault::Delay(SECOND)).layer(echo())
}

#[tokio::test(start_paused = true)]
async fn calls_for_one_connection_go_one_after_the_other_in_the_order_in_which_they_came() {
    let at_work = Arc::new(AtomicUsize::new(0));
    let inner = service_fn(move |call: Call| {
        let at_work = Arc::clone(&at_work);
        async move {
            assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0);
            tokio::time::sleep(SECOND).await;
            at_work.fetch_sub(1, Ordering::SeqCst);
            echo().oneshot(call).await
        }
    });
    let mut begun = Begun::new(Side::Server, inner);
    let calls = || [request(connection("c")), Call::close(connection("c"))];
    let start = Instant::now();

    // Each is called before the first is polled, and they are polled the wrong way round.
    let answers: Vec<_> = calls()
        .into_iter()
        .chain(calls())
        .map(|call| begun.chain.call(call))
        .collect();
    for answer in answers.into_iter().rev() {
        answer.await.unwrap();
    }

    assert_eq!(
        begun.below.operations(),
        ["request", "close", "request", "close"]
    );
    assert_eq!(start.elapsed(), 4 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn different_connections_go_in_parallel() {
    let slow = FailOn::request(1).and_later().with(Fault::Delay(SECOND));
    let begun = Begun::new(Side::Server, slow.layer(echo()));
    let start = Instant::now();

    let (a, b) = tokio::join!(
        begun.request(connection("a")),
        begun.request(connection("b"))
    );

    assert!(a.is_ok() && b.is_ok());
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_requests_and_closes_over_twenty_connections_never_interleave() {
    for side in [Side::Client, Side::Server] {
        let at_work: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let handled = Arc::new(AtomicUsize::new(0));
        let inner = {
            let (at_work, handled) = (Arc::clone(&at_work), Arc::clone(&handled));
            service_fn(move |call: Call| {
                let (at_work, handled) = (Arc::clone(&at_work), Arc::clone(&handled));
                async move {
                    let id = call.connection().id.clone();
                    *at_work.lock().unwrap().entry(id.clone()).or_default() += 1;
                    yield_now().await;
                    let together = at_work.lock().unwrap().remove(&id);
                    assert_eq!(together, Some(1), "calls for {id} interleave");
                    handled.fetch_add(1, Ordering::SeqCst);
                    echo().oneshot(call).await
                }
            })
        };
        let begun = Begun::with(BeginLayer::new(side).queue(1000), inner);

        let mut callers = JoinSet::new();
        for n in 0..1000 {
            let begun = begun.clone();
            callers.spawn(async move {
                let id = format!("c{}", n % 20);
                begun.request(connection(&id)).await?;
                begun.close(connection(&id)).await
            });
        }
        for answer in callers.join_all().await {
            answer.unwrap();
        }

        assert_eq!(handled.load(Ordering::SeqCst), 2000);
        eventually(|| begun.layer.connections() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_a_call_and_leaves_other_connections_alone() {
    let begun = Begun::with(BeginLayer::new(Side::Server).queue(2), slow_first());
    let mut chain = begun.chain.clone();

    let at_work = chain.call(request(connection("c")));
    eventually(|| !begun.below.calls().is_empty()).await;
    let waiting = [(); 2].map(|()| chain.call(request(connection("c"))));
    let refused = begun.request(connection("c")).await.unwrap_err();

    assert_eq!(refused.kind(), ErrorKind::ResourceExhausted);
    assert_eq!(refused.element(), "begin");
    begun.request(connection("other")).await.unwrap();
    at_work.await.unwrap();
    for answer in waiting {
        answer.await.unwrap();
    }
    begun.request(connection("c")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_deadline_passes_before_its_turn_is_refused_and_goes_no_further() {
    let begun = Begun::new(Side::Server, slow_first());
    let mut chain = begun.chain.clone();
    let mut late = request(connection("c"));
    late.deadline = Some(Instant::now() + SECOND / 2);

    let first = chain.call(request(connection("c")));
    let late = chain.call(late);

    first.await.unwrap();
    let error = late.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(begun.below.operations(), ["request"]);
}

#[tokio::test(start_paused = true)]
async fn a_close_gets_its_full_time_from_when_its_turn_comes() {
    let begun = Begun::new(Side::Server, slow_first());
    let mut chain = begun.chain.clone();
    let mut close = Call::close(connection("c"));
    close.deadline = Some(Instant::now() + SECOND / 2);

    let request = chain.call(request(connection("c")));
    let close = chain.call(close);

    request.await.unwrap();
    close.await.unwrap();
    let passed = begun.below.last();
    assert_eq!(passed.operation.name(), "close");
    assert_eq!(passed.deadline, Some(Instant::now() + SECOND / 2));
}

#[tokio::test(start_paused = true)]
async fn a_limit_below_is_no_deadlock_for_a_call_that_needs_a_second_turn() {
    let inner = ServiceBuilder::new()
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(FailOn::request(1))
        .service(echo());
    let begun = Begun::new(Side::Server, inner);

    // The first fails and has to be closed while the others wait, each with a chain of its own.
    let calls = async {
        tokio::join!(
            begun.request(connection("c")),
            begun.request(connection("c")),
            begun.request(connection("d"))
        )
    };
    let (first, second, other) = timeout(SECOND, calls).await.expect("a deadlock");

    assert_eq!(first.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(second.is_ok() && other.is_ok());
    assert!(begun.below.operations().contains(&"close"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_by_again_inside_the_chain_passes() {
    let again = BeginLayer::new(Side::Client);
    let below = Recorder::new();
    let inner = ServiceBuilder::new()
        .layer(again.clone())
        .layer(below.clone())
        .service(echo());
    let begun = Begun::new(Side::Server, inner);

    begun.request(connection("c")).await.unwrap();
    begun.request(connection("c")).await.unwrap();
    assert_eq!(again.connections(), 0);
    begun.close(connection("c")).await.unwrap();

    assert_eq!(below.operations(), ["request", "request", "close"]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_id_is_refused() {
    let begun = Begun::new(Side::Server, echo());

    for call in [request(connection("")), Call::close(connection(""))] {
        let error = send(&begun.chain, call).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert!(begun.below.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn chains_of_one_layer_share_what_is_known() {
    let layer = BeginLayer::new(Side::Server);
    let one = Begun::with(layer.clone(), echo());
    let other = Begun::with(layer.clone(), echo());
    let mut known = connection("c");
    known.network_service = "from the first".to_owned();

    one.request(known.clone()).await.unwrap();
    let closed = other.close(connection("c")).await.unwrap();

    assert_eq!(closed.network_service, "from the first");
    assert_eq!(layer.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_at_any_await_stops_waiting_and_not_the_work() {
    for polls in 0.. {
        let begun = Begun::new(Side::Server, slow_first());

        let call = begun.chain.clone().oneshot(request(connection("c")));
        let polled = poll_n_then_drop(call, polls).await;
        advance(SECOND).await;
        let closed = begun.close(connection("c")).await.unwrap();

        // Without a poll the call was never made.
        let expected: &[_] = if polls == 0 {
            &["close"]
        } else {
            &["request", "close"]
        };
        assert_eq!(begun.below.operations(), expected);
        assert_eq!(closed.id, "c");
        assert_eq!(begun.layer.connections(), 0);
        if polled.output.is_some() {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_when_the_chain_itself_is_gone() {
    let end = Recorder::new();
    let slow = FailOn::request(1).with(Fault::Delay(SECOND));
    let Begun { chain, below, .. } = Begun::new(Side::Server, slow.layer(end.layer(echo())));

    let answer = chain.oneshot(request(connection("c")));
    answer.await.unwrap();

    assert_eq!(below.operations(), ["request"]);
    assert_eq!(end.operations(), ["request"]);
}
