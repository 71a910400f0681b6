//! Hops that tell of their connections, and ways between them that break.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use chain_suite::request;
use chain_suite::send;
use futures_util::{FutureExt, StreamExt, stream};
use http::Extensions;
use nsm_api::connection::{
    Connection, ConnectionEvent, ConnectionEventType, MonitorScopeSelector, State,
};
use nsm_chain::monitor::{EventStream, RelayLayer, Watch};
use nsm_chain::{
    BeginLayer, BoxFuture, BoxNetworkService, Call, Error, ErrorKind, Monitor, MonitorLayer,
    NetworkService, Side, UpdatePathLayer,
};
use tokio::sync::watch;
use tokio::time::{Duration, timeout};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

/// One hop: its chain, and what it tells.
#[derive(Clone)]
pub struct Hop {
    pub chain: BoxNetworkService,
    pub monitor: Monitor,
}

impl Hop {
    /// The last hop of a path.
    pub fn last(name: &str, inner: impl NetworkService) -> Self {
        let monitor = Monitor::new();
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(UpdatePathLayer::new(name))
            .layer(BeginLayer::new(Side::Server))
            .layer(MonitorLayer::new(monitor.clone()))
            .service(inner);
        Self { chain, monitor }
    }

    /// One in the middle, which listens to the one behind.
    pub fn before(name: &str, way: &Way) -> (Self, RelayLayer) {
        let monitor = Monitor::new();
        let relay = RelayLayer::new(monitor.clone(), way.clone());
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(UpdatePathLayer::new(name))
            .layer(BeginLayer::new(Side::Server))
            .layer(MonitorLayer::new(monitor.clone()))
            .layer(relay.clone())
            .service(way.clone());
        (Self { chain, monitor }, relay)
    }

    /// The connection as this hop knows it, if there is one.
    pub fn knows(&self, answer: &Connection) -> Connection {
        let segments = &answer.path.as_ref().unwrap().path_segments;
        let ids = segments.iter().map(|it| it.id.as_str().try_into().unwrap());
        let mut known = ids.filter_map(|id| self.monitor.connection(&id));
        known.next().unwrap()
    }

    /// Says something of a connection.
    pub fn says(&self, answer: &Connection, state: State) {
        let id = self.knows(answer).connection_id().unwrap();
        self.monitor.state(&id, state);
    }
}

/// The way to a hop, which breaks and is mended.
#[derive(Clone)]
pub struct Way {
    to: Hop,
    stands: watch::Sender<bool>,
    /// How often somebody has begun to listen.
    watched: Arc<AtomicUsize>,
}

impl Way {
    pub fn to(hop: &Hop) -> Self {
        Self {
            to: hop.clone(),
            stands: watch::Sender::new(true),
            watched: Arc::default(),
        }
    }

    pub fn breaks(&self) {
        self.stands.send_replace(false);
    }

    pub fn is_mended(&self) {
        self.stands.send_replace(true);
    }

    pub fn watched(&self) -> usize {
        self.watched.load(Relaxed)
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "way", "it is broken")
}

impl Watch for Way {
    fn watch(&self, to: &Extensions, selector: MonitorScopeSelector) -> EventStream {
        self.watched.fetch_add(1, Relaxed);
        let mut stands = self.stands.subscribe();
        let broken = async move {
            stands.wait_for(|stands| !*stands).await.ok();
        };
        let end = stream::once(async { Err(gone()) });
        match *self.stands.borrow() {
            true => self
                .to
                .monitor
                .watch(to, selector)
                .take_until(broken.boxed())
                .chain(end)
                .boxed(),
            false => end.boxed(),
        }
    }
}

impl Service<Call> for Way {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let way = self.clone();
        // Nothing of a call but its message goes over a wire.
        call.extensions = Extensions::new();
        Box::pin(async move {
            match *way.stands.borrow() {
                true => {}
                false => return Err(gone()),
            }
            way.to.chain.oneshot(call).await
        })
    }
}

/// Asks for a connection of a client.
pub async fn ask(hop: &Hop, connection: Connection) -> Result<Connection, Error> {
    let client = UpdatePathLayer::new("nsc").layer(hop.chain.clone());
    send(&client, request(connection)).await
}

/// Closes it.
pub async fn close(hop: &Hop, connection: Connection) -> Result<Connection, Error> {
    let client = UpdatePathLayer::new("nsc").layer(hop.chain.clone());
    send(&client, Call::close(connection)).await
}

/// Listens to the connection of a client at a hop.
pub fn listen(hop: &Hop, selector: MonitorScopeSelector) -> EventStream {
    hop.monitor.watch(&Extensions::new(), selector)
}

/// What is told next.
pub async fn told(events: &mut EventStream) -> (ConnectionEventType, Vec<Connection>) {
    let event = timeout(Duration::from_secs(60), events.next()).await;
    let event: ConnectionEvent = event.unwrap().unwrap().unwrap();
    let kind = event.r#type();
    let mut connections: Vec<_> = event.connections.into_values().collect();
    connections.sort_by(|one, other| one.id.cmp(&other.id));
    (kind, connections)
}

/// What state an update tells.
pub async fn state(events: &mut EventStream) -> State {
    let (kind, connections) = told(events).await;
    assert_eq!(kind, ConnectionEventType::Update);
    connections[0].state()
}

/// Nothing is told for a time.
pub async fn silence(events: &mut EventStream, time: Duration) {
    let heard = timeout(time, events.next()).await;
    assert!(heard.is_err(), "{heard:?}");
}
