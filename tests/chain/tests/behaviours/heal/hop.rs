//! A client whose connection is healed, and a next hop that can be away, refuse to tell, and forget.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use chain_suite::{connection, request, send};
use futures_util::{FutureExt, StreamExt, stream};
use http::Extensions;
use nsm_api::connection::{Connection, MonitorScopeSelector, State};
use nsm_chain::heal::{HealLayer, Liveness};
use nsm_chain::monitor::{EventStream, Watch};
use nsm_chain::test_util::{Recorder, echo};
use nsm_chain::{
    BeginLayer, BoxFuture, BoxNetworkService, Call, Error, ErrorKind, Monitor, MonitorLayer,
    NetworkService, Operation, Side, UpdatePathLayer,
};
use tokio::sync::watch;
use tokio::time::Duration;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

/// Whether the next hop tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    Yes,
    /// It is not reached.
    Away,
    /// It answers with this.
    Not(ErrorKind),
}

#[derive(Clone)]
pub struct Hop {
    monitor: Arc<Mutex<Monitor>>,
    tells: watch::Sender<Tells>,
    /// What the next requests are answered with.
    refusals: Arc<Mutex<VecDeque<ErrorKind>>>,
    /// What all requests are answered with that name an endpoint.
    gone: Arc<Mutex<Option<ErrorKind>>>,
    watched: Arc<Mutex<usize>>,
}

impl Hop {
    pub fn new() -> Self {
        Self {
            monitor: Arc::default(),
            tells: watch::Sender::new(Tells::Yes),
            refusals: Arc::default(),
            gone: Arc::default(),
            watched: Arc::default(),
        }
    }

    pub fn monitor(&self) -> Monitor {
        lock(&self.monitor).clone()
    }

    pub fn tells(&self, tells: Tells) {
        self.tells.send_replace(tells);
        if tells != Tells::Yes {
            self.monitor().close();
            let told = self.monitor();
            let fresh = Monitor::new();
            // What it knows it knows after that as well.
            if let Some(connection) = told.connection(&ID.try_into().unwrap()) {
                fresh.update(&connection);
            }
            *lock(&self.monitor) = fresh;
        }
    }

    /// It ends, and its successor knows nothing.
    pub fn restart(&self) {
        let former = std::mem::take(&mut *lock(&self.monitor));
        former.close();
    }

    /// Refuses the next requests.
    pub fn refuse(&self, kinds: impl IntoIterator<Item = ErrorKind>) {
        lock(&self.refusals).extend(kinds);
    }

    /// Refuses all requests that name an endpoint.
    pub fn endpoint_is_gone(&self, kind: Option<ErrorKind>) {
        *lock(&self.gone) = kind;
    }

    /// Says something of the connection.
    pub fn says(&self, state: State) {
        self.monitor().state(&ID.try_into().unwrap(), state);
    }

    /// How often somebody has begun to listen.
    pub fn watched(&self) -> usize {
        *lock(&self.watched)
    }

    fn answer(&self, connection: &Connection) -> Result<(), Error> {
        let refused = lock(&self.refusals).pop_front();
        let named = !connection.network_service_endpoint_name.is_empty();
        let gone = lock(&self.gone).filter(|_| named);
        match refused.or(gone) {
            Some(kind) => Err(Error::new(kind, "hop", "refused")),
            None => Ok(()),
        }
    }
}

impl Watch for Hop {
    fn watch(&self, to: &Extensions, selector: MonitorScopeSelector) -> EventStream {
        *lock(&self.watched) += 1;
        let (hop, to) = (self.clone(), to.clone());
        let opened = async move {
            let mut tells = hop.tells.subscribe();
            let tells = tells.wait_for(|tells| *tells != Tells::Away).await;
            match tells.map(|tells| *tells) {
                Ok(Tells::Not(kind)) => {
                    stream::iter([Err(Error::new(kind, "hop", "it does not tell"))]).boxed()
                }
                _ => hop.monitor().watch(&to, selector),
            }
        };
        opened.flatten_stream().boxed()
    }
}

impl<S> Layer<S> for Hop {
    type Service = Answering<S>;

    fn layer(&self, inner: S) -> Answering<S> {
        Answering {
            inner,
            hop: self.clone(),
        }
    }
}

/// The hop's chain, which tells the monitor that the hop has at that moment.
#[derive(Clone)]
pub struct Answering<S> {
    inner: S,
    hop: Hop,
}

impl<S: NetworkService> Service<Call> for Answering<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let chain = MonitorLayer::new(self.hop.monitor()).layer(self.inner.clone());
        let hop = self.hop.clone();
        Box::pin(async move {
            if let Operation::Request(_) = call.operation {
                hop.answer(call.connection())?;
            }
            let mut answer = chain.oneshot(call).await?;
            answer.network_service_endpoint_name = "nse".to_owned();
            Ok(answer)
        })
    }
}

/// The id of the connection at the hop.
const ID: &str = "at-the-hop";

/// Lets the next hop know the client's connection `c` by a certain id.
fn known_by(mut call: Call) -> Call {
    let path = call.connection_mut().path.get_or_insert_default();
    if path.path_segments[0].id != "c" {
        return call;
    }
    let index = path.index as usize;
    path.path_segments[index].id = ID.to_owned();
    call.connection_mut().id = ID.to_owned();
    call
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// A client whose connection is healed.
pub struct Client {
    pub hop: Hop,
    pub heal: HealLayer,
    /// What comes out below.
    pub below: Recorder,
    pub chain: BoxNetworkService,
}

impl Client {
    /// One that is healed like that.
    pub fn new(how: impl FnOnce(HealLayer) -> HealLayer) -> Self {
        let hop = Hop::new();
        let heal = how(HealLayer::new(hop.clone()));
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(UpdatePathLayer::new("nsc"))
            .layer(BeginLayer::new(Side::Client))
            .layer(heal.clone())
            .layer(below.clone())
            .layer(UpdatePathLayer::new("forwarder"))
            .map_request(known_by)
            .layer(hop.clone())
            .service(echo());
        Self {
            hop,
            heal,
            below,
            chain,
        }
    }

    /// One whose connection stands, as its next hop says, after which that is forgotten.
    pub async fn standing(how: impl FnOnce(HealLayer) -> HealLayer) -> Self {
        let client = Self::new(how);
        client.request().await.unwrap();
        client.listens().await;
        client
    }

    pub async fn request(&self) -> Result<Connection, Error> {
        send(&self.chain, request(connection("c"))).await
    }

    pub async fn close(&self) -> Result<Connection, Error> {
        send(&self.chain, Call::close(connection("c"))).await
    }

    /// Waits until somebody listens to the hop.
    pub async fn listens(&self) {
        let monitor = self.hop.monitor();
        chain_suite::eventually(|| monitor.subscribers() == 1).await;
    }

    /// The requests and closes since the first one.
    pub fn since(&self) -> Vec<&'static str> {
        self.below.operations()[1..].to_vec()
    }
}

/// Answers that can be switched off.
#[derive(Clone)]
pub struct Switch(watch::Sender<bool>);

impl Switch {
    pub fn on() -> Self {
        Self(watch::Sender::new(true))
    }

    pub fn set(&self, alive: bool) {
        self.0.send_replace(alive);
    }
}

impl Liveness for Switch {
    fn is_alive<'a>(
        &'a self,
        _: &'a Connection,
    ) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async {
            let alive = *self.0.borrow();
            if !alive {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            alive
        })
    }
}
