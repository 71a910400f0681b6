//! Behaviours over a day: a client, a hop in the middle and an endpoint in one process, with tokens
//! that end, on paused time.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use chain_suite::{connection, pass, request, send};
use nsm_api::connection::Connection;
use nsm_chain::begin::AnswerLayer;
use nsm_chain::test_util::{Recorder, echo};
use nsm_chain::token::Unsigned;
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, DeadlineLayer, Error, HealLayer, MetadataLayer, Monitor,
    MonitorLayer, NetworkService, RefreshLayer, RelayLayer, Side, TimeoutLayer, TokenLayer,
    UpdatePathLayer, now,
};
use tokio::time::{Duration, Instant, sleep};
use tower::ServiceBuilder;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// One hop that answers, and what it knows.
#[derive(Clone)]
struct Hop {
    chain: BoxNetworkService,
    begin: BeginLayer,
    timeout: TimeoutLayer,
    monitor: Monitor,
    below: Recorder,
}

impl Hop {
    fn new(name: &str, life: Duration, behind: impl FnOnce(&Monitor) -> BoxNetworkService) -> Self {
        let begin = BeginLayer::new(Side::Server);
        let timeout = TimeoutLayer::new();
        let monitor = Monitor::new();
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(DeadlineLayer::new(TIMEOUT))
            .layer(UpdatePathLayer::new(name))
            .layer(begin.clone())
            .layer(TokenLayer::new(Side::Server, Unsigned::new(name, life)))
            .layer(MetadataLayer::new(Side::Server))
            .layer(timeout.clone())
            .layer(MonitorLayer::new(monitor.clone()))
            .layer(below.clone())
            .service(behind(&monitor));
        Self {
            chain,
            begin,
            timeout,
            monitor,
            below,
        }
    }

    fn closes(&self) -> usize {
        let operations = self.below.operations();
        operations.iter().filter(|it| **it == "close").count()
    }

    fn is_empty(&self) -> bool {
        self.begin.connections() == 0
            && self.timeout.timers() == 0
            && self.monitor.connections() == 0
            && self.monitor.subscribers() == 0
    }
}

/// A hop as the one before calls it.
fn as_next_hop(hop: &Hop) -> impl NetworkService + use<> {
    ServiceBuilder::new()
        .layer(AnswerLayer)
        .map_request(|call: Call| Call {
            extensions: http::Extensions::new(),
            ..call
        })
        .service(hop.chain.clone())
}

/// All three, with tokens that live that long.
struct Mesh {
    nse: Hop,
    forwarder: Hop,
    refresh: RefreshLayer,
    heal: HealLayer,
    /// What the client asks for.
    asked: Recorder,
    client: BoxNetworkService,
    /// How long the endpoint takes to answer, in milliseconds.
    slow: Arc<AtomicU64>,
}

impl Mesh {
    fn new(lives: [Duration; 3]) -> Self {
        let [client_life, forwarder_life, nse_life] = lives;
        let slow = Arc::<AtomicU64>::default();
        let slowly = Arc::clone(&slow);
        let nse = Hop::new("nse", nse_life, |_| {
            let answer = move |connection: Connection| {
                let time = Duration::from_millis(slowly.load(Relaxed));
                async move {
                    sleep(time).await;
                    Ok::<_, Error>(connection)
                }
            };
            ServiceBuilder::new()
                .layer(BoxNetworkService::layer())
                .and_then(answer)
                .service(echo())
        });
        let forwarder = Hop::new("forwarder", forwarder_life, |monitor| {
            ServiceBuilder::new()
                .layer(BoxNetworkService::layer())
                .layer(RelayLayer::new(monitor.clone(), nse.monitor.clone()))
                .layer(TokenLayer::new(
                    Side::Client,
                    Unsigned::new("forwarder", forwarder_life),
                ))
                .service(as_next_hop(&nse))
        });
        let (refresh, asked) = (RefreshLayer::new(), Recorder::new());
        let heal = HealLayer::new(forwarder.monitor.clone());
        let client = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(DeadlineLayer::new(TIMEOUT))
            .layer(UpdatePathLayer::new("nsc"))
            .layer(BeginLayer::new(Side::Client))
            .layer(MetadataLayer::new(Side::Client))
            .layer(refresh.clone())
            .layer(heal.clone())
            .layer(TokenLayer::new(
                Side::Client,
                Unsigned::new("nsc", client_life),
            ))
            .layer(asked.clone())
            .service(as_next_hop(&forwarder));
        Self {
            nse,
            forwarder,
            refresh,
            heal,
            asked,
            client,
            slow,
        }
    }

    async fn request(&self) -> Connection {
        send(&self.client, request(connection("c"))).await.unwrap()
    }

    /// The time that the endpoint's connection has left at the least.
    fn left(&self) -> Duration {
        let id = self.nse.below.last().connection().id.as_str().try_into();
        let told = self.nse.monitor.connection(&id.unwrap()).unwrap();
        let path = told.path.unwrap();
        let ends = path.path_segments.iter().filter_map(|it| it.expires);
        let left = ends.map(|end| {
            let end = std::time::SystemTime::try_from(end).unwrap();
            end.duration_since(now()).unwrap_or_default()
        });
        left.min().unwrap()
    }

    /// That nothing has been closed, and there is one connection everywhere, watched by one stream.
    fn stands(&self) {
        for hop in [&self.nse, &self.forwarder] {
            assert_eq!(hop.closes(), 0);
            assert_eq!(hop.begin.connections(), 1);
            assert_eq!(hop.monitor.subscribers(), 1);
        }
        assert_eq!((self.refresh.timers(), self.heal.connections()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_stands_for_a_day_of_tokens_that_end_and_is_closed_by_nobody() {
    let mesh = Mesh::new([10 * MINUTE; 3]);
    let first = mesh.request().await;

    for _ in 0..24 * 6 {
        pass(10 * MINUTE).await;
        mesh.stands();
        assert!(mesh.left() > 7 * MINUTE, "{:?}", mesh.left());
    }

    let refreshes = mesh.asked.operations().len() - 1;
    assert!((720..760).contains(&refreshes), "{refreshes} in a day");
    let last = mesh.request().await;
    let ids = |connection: &Connection| -> Vec<_> {
        let path = connection.path.iter().flat_map(|path| &path.path_segments);
        path.map(|segment| segment.id.clone()).collect()
    };
    assert_eq!(ids(&last), ids(&first));
    assert_eq!(ids(&last).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_shortest_token_on_the_path_says_when_to_refresh() {
    let mesh = Mesh::new([HOUR, 20 * MINUTE, MINUTE]);
    mesh.request().await;

    for _ in 0..6 * 60 {
        pass(MINUTE).await;
        mesh.stands();
        assert!(mesh.left() > 40 * SECOND, "{:?}", mesh.left());
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_answers_too_late_three_times_in_a_row_loses_nothing() {
    let mesh = Mesh::new([2 * MINUTE; 3]);
    mesh.request().await;

    for _ in 0..10 {
        mesh.slow.store(20_000, Relaxed);
        let asked = mesh.nse.below.operations().len();
        while mesh.nse.below.operations().len() < asked + 3 {
            pass(SECOND).await;
            mesh.stands();
        }
        mesh.slow.store(0, Relaxed);
        pass(MINUTE).await;
        mesh.stands();
        assert!(mesh.left() > MINUTE, "{:?}", mesh.left());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_refresh_any_more_is_closed_once_when_its_token_ends() {
    // The endpoint has time: it is the hop in the middle that closes.
    let mesh = Mesh::new([10 * MINUTE, 20 * MINUTE, 20 * MINUTE]);
    let start = Instant::now();
    mesh.request().await;
    pass(HOUR).await;
    mesh.stands();
    let asked = mesh.asked.operations().len();

    // It is gone without a close, and its streams with it.
    let Mesh {
        nse,
        forwarder,
        client,
        ..
    } = mesh;
    drop(client);
    let gone = Instant::now();
    while forwarder.closes() == 0 {
        pass(SECOND).await;
    }
    let stood = gone.elapsed();
    assert!(stood < 10 * MINUTE, "{stood:?}");
    assert!(stood > 7 * MINUTE, "{stood:?} after {:?}", start.elapsed());
    pass(HOUR).await;

    assert_eq!((nse.closes(), forwarder.closes()), (1, 1));
    assert!(nse.is_empty() && forwarder.is_empty());
    assert!(asked > 20);
}
