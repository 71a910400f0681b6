//! Behaviours of `refresh`: when a connection is asked for again.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

use std::sync::{Arc, Mutex};

use chain_suite::{Begun, connection, pass, path_that_ends};
use nsm_api::connection::Path;
use nsm_chain::test_util::{FailOn, Fault, echo};
use nsm_chain::{Call, ErrorKind, NetworkService, RefreshLayer, Side};
use tokio::time::{Duration, Instant};
use tower::{Layer, ServiceExt, service_fn};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A client that refreshes over a far end whose hops live so long, in a path that we have that
/// place in. It knows when it was asked.
struct Client {
    begun: Begun,
    refresh: RefreshLayer,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Client {
    fn new(index: u32, lives: &[Duration]) -> Self {
        let lives = lives.to_vec();
        Self::over(move || Some(path_that_ends(index, &lives)), |far| far)
    }

    /// Over faults, one minute of life and one hop.
    fn with_faults<F: NetworkService>(faults: impl FnOnce(FarEnd) -> F) -> Self {
        Self::over(|| Some(path_that_ends(0, &[MINUTE])), faults)
    }

    fn over<F: NetworkService>(
        path: impl Fn() -> Option<Path> + Clone + Send + Sync + 'static,
        faults: impl FnOnce(FarEnd) -> F,
    ) -> Self {
        let asked = Arc::<Mutex<Vec<Instant>>>::default();
        let refresh = RefreshLayer::new();
        let times = Arc::clone(&asked);
        let answers = service_fn(move |mut call: Call| {
            call.connection_mut().path = path();
            echo().oneshot(call)
        });
        let far = FarEnd::new(answers);
        let below = faults(far);
        let counted = tower::ServiceBuilder::new()
            .map_request(move |call: Call| {
                times.lock().unwrap().push(Instant::now());
                call
            })
            .service(below);
        Self {
            begun: Begun::new(Side::Client, refresh.layer(counted)),
            refresh,
            asked,
        }
    }

    async fn request(&self) {
        self.begun.request(connection("c")).await.unwrap();
    }

    /// How long after the one before each request came.
    fn spacing(&self) -> Vec<Duration> {
        let asked = self.asked.lock().unwrap();
        asked.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    fn requests(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

type FarEnd = nsm_chain::BoxNetworkService;

/// Whether a refresh came when it was due, or up to a twentieth before.
fn on_time(came: Duration, due: Duration) -> bool {
    // Timers are as fine as a millisecond.
    came >= due.mul_f64(0.95) && came <= due + MILLISECOND
}

#[tokio::test(start_paused = true)]
async fn a_refresh_comes_after_a_part_of_the_shortest_life_on_the_path() {
    for (index, lives, due) in [
        (0, &[HOUR][..], 20 * MINUTE),
        (0, &[10 * MINUTE, HOUR, HOUR], 2 * MINUTE),
        (1, &[HOUR, 3 * MINUTE], 54 * SECOND),
        (2, &[HOUR, 5 * SECOND, 3 * MINUTE], 5 * SECOND / 3),
        (
            3,
            &[200 * MILLISECOND, MINUTE, 100 * MILLISECOND, HOUR],
            35 * MILLISECOND,
        ),
    ] {
        let client = Client::new(index, lives);
        client.request().await;

        pass(due + 2 * MILLISECOND).await;

        assert!(client.requests() >= 2, "no refresh after {due:?}");
        let came = client.spacing()[0];
        assert!(on_time(came, due), "{came:?} in place of {due:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_refreshed_as_long_as_it_stands_and_keeps_its_id_and_path() {
    let client = Client::new(0, &[MINUTE]);
    client.request().await;
    let first = client.begun.request(connection("c")).await.unwrap();

    pass(10 * MINUTE).await;

    let refreshes = client.spacing();
    assert!((30..=33).contains(&refreshes.len()), "{}", refreshes.len());
    assert!(
        refreshes[1..]
            .iter()
            .all(|came| on_time(*came, 20 * SECOND))
    );
    let last = client.begun.below.last();
    assert_eq!(last.connection().id, first.id);
    let expires = |path: &Option<Path>| path.as_ref().unwrap().path_segments[0].expires;
    let (path, former) = (&last.connection().path, &first.path);
    assert!(expires(path).unwrap().seconds > expires(former).unwrap().seconds);
    assert_eq!(client.refresh.timers(), 1);
}

#[tokio::test(start_paused = true)]
async fn connections_that_came_up_together_drift_apart() {
    let client = Client::new(0, &[HOUR]);
    for connection in 0..20 {
        let connection = chain_suite::connection(&format!("c-{connection}"));
        client.begun.request(connection).await.unwrap();
    }

    pass(20 * MINUTE).await;

    let mut moments = client.asked.lock().unwrap()[20..].to_vec();
    assert_eq!(moments.len(), 20);
    moments.dedup();
    assert!(moments.len() > 10, "only {} moments", moments.len());
}

#[tokio::test(start_paused = true)]
async fn a_close_ends_the_refreshes() {
    for faults in [None, Some(FailOn::close(1))] {
        let client = Client::with_faults(|far| match faults {
            Some(fault) => FarEnd::new(fault.layer(far)),
            None => far,
        });
        client.request().await;

        let _ = client.begun.close(connection("c")).await;
        pass(10 * MINUTE).await;

        assert_eq!(client.begun.below.operations(), ["request", "close"]);
        assert_eq!(client.refresh.timers(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_caller_starts_the_time_anew_and_there_is_one_timer() {
    let client = Client::new(0, &[MINUTE]);
    client.request().await;
    for _ in 0..5 {
        pass(15 * SECOND).await;
        client.request().await;
    }
    assert_eq!(client.requests(), 6);

    pass(20 * SECOND).await;

    assert_eq!(client.requests(), 7);
    assert_eq!(client.refresh.timers(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_first_request_that_fails_is_not_refreshed() {
    let client = Client::with_faults(|far| FailOn::request(1).layer(far));
    client.begun.request(connection("c")).await.unwrap_err();

    pass(10 * MINUTE).await;

    assert_eq!(client.begun.below.operations(), ["request", "close"]);
    assert_eq!(client.refresh.timers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_is_tried_again_after_growing_pauses_until_it_succeeds() {
    let client = Client::with_faults(|far| {
        (2..=7).fold(FarEnd::new(far), |far, nth| {
            FarEnd::new(FailOn::request(nth).layer(far))
        })
    });
    client.request().await;

    pass(2 * MINUTE).await;

    let spacing = client.spacing();
    let pauses: Vec<_> = spacing[1..7].iter().map(Duration::as_secs).collect();
    // A quarter of the life, 15 s, at the most.
    assert_eq!(pauses, [1, 2, 4, 8, 15, 15], "{spacing:?}");
    assert!(on_time(spacing[7], 20 * SECOND), "{spacing:?}");
    assert_eq!(client.refresh.timers(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_caller_ends_the_retries() {
    let client = Client::with_faults(|far| FailOn::request(2).layer(far));
    client.request().await;
    pass(20 * SECOND).await;
    assert_eq!(client.requests(), 2);

    client.request().await;
    pass(15 * SECOND).await;

    assert_eq!(client.requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_time_is_over_already_is_asked_once_a_second() {
    let client = Client::new(1, &[Duration::ZERO, HOUR]);
    client.request().await;

    pass(60 * SECOND + MILLISECOND).await;

    let spacing = client.spacing();
    assert!(spacing.iter().all(|came| *came >= SECOND), "{spacing:?}");
    assert!(spacing.len() >= 58, "{}", spacing.len());
}

#[tokio::test(start_paused = true)]
async fn a_path_on_which_nobody_says_an_end_is_not_refreshed() {
    let nobody = |path: Option<Path>| Client::over(move || path.clone(), |far| far);
    let silent = chain_suite::path(0, &[("nsc", "c"), ("nse", "d")]);
    let mut beyond = silent.clone();
    beyond.path_segments[1].expires = Some(prost_types::Timestamp {
        seconds: i64::MAX,
        nanos: 0,
    });
    for path in [None, Some(silent), Some(beyond)] {
        let client = nobody(path);
        client.request().await;

        pass(24 * HOUR).await;

        assert_eq!(client.requests(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_refresh_is_not_overtaken_by_another() {
    let client = Client::with_faults(|far| {
        FailOn::request(2)
            .with(Fault::Delay(50 * SECOND))
            .layer(far)
    });
    client.request().await;

    pass(69 * SECOND).await;
    assert_eq!(client.requests(), 2);

    pass(25 * SECOND).await;
    assert_eq!(client.requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn timers_end_with_the_chain() {
    let client = Client::new(0, &[MINUTE]);
    client.request().await;
    let asked = Arc::clone(&client.asked);
    drop(client);

    pass(10 * MINUTE).await;

    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_chain_without_begin_above_is_told_so() {
    let chain = RefreshLayer::new().layer(echo());

    let call = chain_suite::request(connection("c"));
    let error = chain_suite::send(&chain, call).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(
        error.report().to_string(),
        "refresh: internal error: there is no `begin` above"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_closes_and_refreshes_of_many_connections_leave_nothing() {
    let client = Client::new(0, &[10 * MILLISECOND]);
    let ids: Vec<_> = (0..20).map(|id| format!("c-{id}")).collect();
    for round in 0..50u64 {
        for (place, id) in ids.iter().enumerate() {
            if (round + place as u64).is_multiple_of(3) {
                client.begun.close(connection(id)).await.unwrap();
            } else {
                client.begun.request(connection(id)).await.unwrap();
            }
        }
        pass(MILLISECOND * (round % 7) as u32).await;
    }
    for id in &ids {
        client.begun.close(connection(id)).await.unwrap();
    }

    let asked = client.requests();
    pass(HOUR).await;

    assert_eq!(client.requests(), asked);
    assert_eq!(client.refresh.timers(), 0);
    assert_eq!(client.begun.layer.connections(), 0);
}
