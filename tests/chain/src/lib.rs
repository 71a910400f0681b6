//! What the suites of the chain have in common: messages to send, and a chain that starts with
//! `begin`.

use nsm_api::connection::{Connection, Path, PathSegment};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::begin::Events;
use nsm_chain::test_util::Recorder;
use nsm_chain::{BeginLayer, BoxNetworkService, Call, Error, NetworkService, Side, now};
use tokio::task::yield_now;
use tokio::time::{Duration, sleep};
use tower::{ServiceBuilder, ServiceExt};

/// A connection of that id.
pub fn connection(id: &str) -> Connection {
    Connection {
        id: id.to_owned(),
        ..Connection::default()
    }
}

/// A request for a connection.
pub fn request(connection: Connection) -> Call {
    Call::request(NetworkServiceRequest {
        connection: Some(connection),
        ..NetworkServiceRequest::default()
    })
}

/// A path of (name, id) segments.
pub fn path(index: u32, segments: &[(&str, &str)]) -> Path {
    let segment = |(name, id): &(&str, &str)| PathSegment {
        name: (*name).to_owned(),
        id: (*id).to_owned(),
        ..PathSegment::default()
    };
    Path {
        index,
        path_segments: segments.iter().map(segment).collect(),
    }
}

/// A path like the one of [`path`], whose segments end in these times from now.
pub fn path_that_ends(index: u32, lives: &[Duration]) -> Path {
    let segment = |(hop, life): (usize, &Duration)| PathSegment {
        name: format!("hop-{hop}"),
        id: format!("id-{hop}"),
        expires: Some((now() + *life).into()),
        ..PathSegment::default()
    };
    Path {
        index,
        path_segments: lives.iter().enumerate().map(segment).collect(),
    }
}

/// Lets paused time pass, with everything that is due meanwhile at its own moment.
pub async fn pass(time: Duration) {
    sleep(time).await;
}

/// Calls a chain once.
///
/// # Errors
///
/// That of the chain.
pub async fn send(chain: &impl NetworkService, call: Call) -> Result<Connection, Error> {
    chain.clone().oneshot(call).await
}

/// Lets all other tasks go on until a condition holds.
///
/// # Panics
///
/// If it never does.
#[track_caller]
pub fn eventually(condition: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        for _ in 0..100_000 {
            if condition() {
                return;
            }
            yield_now().await;
        }
        panic!("what {caller} waits for does not come");
    }
}

/// A chain that is `begin` over something, with a record of what came out below `begin`.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The layer, which knows how many connections are known.
    pub layer: BeginLayer,
    /// What came out below `begin`.
    pub below: Recorder,
    /// The chain.
    pub chain: BoxNetworkService,
}

impl Begun {
    /// `begin` of a side over `inner`.
    pub fn new(side: Side, inner: impl NetworkService) -> Self {
        Self::with(BeginLayer::new(side), inner)
    }

    /// A certain `begin` over `inner`.
    pub fn with(layer: BeginLayer, inner: impl NetworkService) -> Self {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(layer.clone())
            .layer(below.clone())
            .service(inner);
        Self {
            layer,
            below,
            chain,
        }
    }

    /// Sends a request for a connection.
    ///
    /// # Errors
    ///
    /// That of the chain.
    pub async fn request(&self, connection: Connection) -> Result<Connection, Error> {
        send(&self.chain, request(connection)).await
    }

    /// Sends a close of a connection.
    ///
    /// # Errors
    ///
    /// That of the chain.
    pub async fn close(&self, connection: Connection) -> Result<Connection, Error> {
        send(&self.chain, Call::close(connection)).await
    }

    /// What elements below got with the last call, to start events with.
    ///
    /// # Panics
    ///
    /// If there was no call.
    pub fn events(&self) -> Events {
        match self.below.last().extensions.get::<Events>() {
            Some(events) => events.clone(),
            None => panic!("a call below begin has no events"),
        }
    }
}
