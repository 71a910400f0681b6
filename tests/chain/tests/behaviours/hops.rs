//! Behaviours of whole chains: two hops of a connection, in one process.

use chain_suite::{request, send};
use nsm_api::connection::Connection;
use nsm_chain::begin::AnswerLayer;
use nsm_chain::test_util::{FailOn, Recorder, echo, poll_n_then_drop};
use nsm_chain::trace::ElementLayer;
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, DeadlineLayer, ErrorKind, MetadataLayer, NetworkService,
    Side, TraceLayer, UpdatePathLayer,
};
use tokio::time::Duration;
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

/// One hop: its chain, what it knows, and what comes out below.
#[derive(Clone)]
struct Hop {
    chain: BoxNetworkService,
    begin: BeginLayer,
    metadata: MetadataLayer,
    below: Recorder,
}

impl Hop {
    fn new(name: &str, inner: impl NetworkService) -> Self {
        let begin = BeginLayer::new(Side::Server);
        let metadata = MetadataLayer::new(Side::Server);
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(TraceLayer)
            .layer(DeadlineLayer::new(Duration::from_secs(15)))
            .layer(UpdatePathLayer::new(name))
            .layer(begin.clone())
            .layer(metadata.clone())
            .layer(ElementLayer::new("recorder", Side::Server))
            .layer(below.clone())
            .service(inner);
        Self {
            chain,
            begin,
            metadata,
            below,
        }
    }

    fn is_empty(&self) -> bool {
        self.begin.connections() == 0 && self.metadata.connections() == 0
    }

    /// The chain as the hop before calls it.
    fn as_next_hop(&self) -> impl NetworkService + use<> {
        ServiceBuilder::new()
            .layer(AnswerLayer)
            .map_request(|call: Call| Call {
                extensions: http::Extensions::new(),
                ..call
            })
            .service(self.chain.clone())
    }
}

fn nse() -> Hop {
    Hop::new("nse", echo())
}

#[tokio::test(start_paused = true)]
async fn a_connection_lives_at_both_hops_and_leaves_nothing_behind() {
    let nse = nse();
    let forwarder = Hop::new("forwarder", nse.as_next_hop());

    let answer = send(&forwarder.chain, request(Connection::default()))
        .await
        .unwrap();
    let again = send(&forwarder.chain, request(answer.clone()))
        .await
        .unwrap();
    assert_eq!(again, answer);
    send(&forwarder.chain, Call::close(answer)).await.unwrap();

    for hop in [&forwarder, &nse] {
        assert_eq!(hop.below.operations(), ["request", "request", "close"]);
        assert!(hop.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_between_the_hops_is_undone_at_both() {
    let nse = nse();
    let element = FailOn::request(1).on_the_way_up();
    let forwarder = Hop::new("forwarder", element.layer(nse.as_next_hop()));

    send(&forwarder.chain, request(Connection::default()))
        .await
        .unwrap_err();

    for hop in [&forwarder, &nse] {
        let calls = hop.below.calls();
        assert_eq!(hop.below.operations(), ["request", "close"]);
        assert_eq!(calls[0].connection().id, calls[1].connection().id);
        assert!(hop.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_forwarder_that_restarts_and_fails_at_first_leaves_the_connection_at_the_endpoint() {
    let nse = nse();
    let before = Hop::new("forwarder", nse.as_next_hop());
    let answer = send(&before.chain, request(Connection::default()))
        .await
        .unwrap();
    drop(before);

    let element = FailOn::request(1).on_the_way_up();
    let after = Hop::new("forwarder", element.layer(nse.as_next_hop()));
    send(&after.chain, request(answer.clone()))
        .await
        .unwrap_err();
    let again = send(&after.chain, request(answer.clone())).await.unwrap();

    assert_eq!(again, answer);
    assert_eq!(nse.below.operations(), ["request"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_close_reaches_the_endpoint_through_a_forwarder_that_has_restarted() {
    let nse = nse();
    let before = Hop::new("forwarder", nse.as_next_hop());
    let answer = send(&before.chain, request(Connection::default()))
        .await
        .unwrap();
    drop(before);

    let after = Hop::new("forwarder", nse.as_next_hop());
    send(&after.chain, Call::close(answer)).await.unwrap();

    assert_eq!(nse.below.operations(), ["request", "close"]);
    assert!(nse.is_empty() && after.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_at_any_await_leaves_something_that_can_be_closed() {
    for polls in 0.. {
        let nse = nse();
        let forwarder = Hop::new("forwarder", nse.as_next_hop());
        let connection = Connection {
            id: "c".to_owned(),
            ..Connection::default()
        };

        let call = send(&forwarder.chain, request(connection.clone()));
        let polled = poll_n_then_drop(call, polls).await;
        send(&forwarder.chain, Call::close(connection))
            .await
            .unwrap();

        assert!(forwarder.is_empty() && nse.is_empty(), "{polls} polls");
        if polled.output.is_some() {
            return;
        }
    }
}

/// A limit refuses an instance that was not polled to readiness, by a panic.
#[tokio::test(start_paused = true)]
async fn every_element_calls_the_instance_that_it_was_ready_with() {
    let limited = || ConcurrencyLimitLayer::new(1).layer(echo());
    let chains = [
        BoxNetworkService::new(TraceLayer.layer(limited())),
        BoxNetworkService::new(ElementLayer::new("element", Side::Server).layer(limited())),
        BoxNetworkService::new(DeadlineLayer::new(Duration::from_secs(1)).layer(limited())),
        BoxNetworkService::new(UpdatePathLayer::new("nse").layer(limited())),
        BoxNetworkService::new(BeginLayer::new(Side::Server).layer(limited())),
        BoxNetworkService::new(MetadataLayer::new(Side::Server).layer(limited())),
        BoxNetworkService::new(AnswerLayer.layer(limited())),
    ];

    for mut chain in chains {
        for _ in 0..2 {
            let connection = Connection {
                id: "c".to_owned(),
                ..Connection::default()
            };
            let ready = chain.ready().await.unwrap();
            ready.call(request(connection)).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn towers_own_layers_fit() {
    let chain = ServiceBuilder::new()
        .layer(BoxNetworkService::layer())
        .map_err(nsm_chain::Error::from)
        .load_shed()
        .concurrency_limit(1)
        .service(FailOn::request(1).layer(echo()));

    let error = send(&chain, request(Connection::default()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);

    let busy = chain
        .clone()
        .ready()
        .await
        .unwrap()
        .call(request(Connection::default()));
    let error = send(&chain, request(Connection::default()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    busy.await.unwrap();
}
