//! An endpoint in the process of the suite, whose answers a case can hold back or replace.

use crate::Mesh;
use crate::mesh::flags;
use clap::Parser;
use nsm_api::connection::Connection;
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{
    BoxFuture, BoxNetworkService, Call, Error, ErrorKind, Monitor, Operation, take_ready,
};
use nsm_endpoint::{Policies, PolicyList};
use nsm_grpc::{Listener, Server};
use nsm_netlink::Netns;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tower::{Layer, Service};

/// What becomes of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Way {
    /// It is served.
    #[default]
    Open,
    /// It is served, and the answer waits until this changes.
    Held,
    /// It comes to nothing, and is answered with an error of this kind.
    Refused(ErrorKind),
}

/// Where all calls of a [`GatedEndpoint`] come by.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    requests: watch::Sender<Way>,
    closes: watch::Sender<Way>,
    invents: AtomicBool,
    seen: Mutex<Seen>,
}

/// What has come by a [`Gate`].
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// What the endpoint has answered to requests, whether or not it was let through.
    pub answers: Vec<Connection>,
    /// How many closes were served.
    pub closes: usize,
    /// How many closes were refused.
    pub refused: usize,
}

impl Gate {
    /// What becomes of requests from now on, and of those that are held.
    pub fn requests(&self, way: Way) {
        self.0.requests.send_replace(way);
    }

    /// The same of closes.
    pub fn closes(&self, way: Way) {
        self.0.closes.send_replace(way);
    }

    /// From now on the endpoint makes up another name each time that it is asked for an interface
    /// without one, as the mesh's Go endpoints do.
    pub fn invent_names(&self) {
        self.0.invents.store(true, Relaxed);
    }

    /// What has come by.
    pub fn seen(&self) -> Seen {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, is_close: bool, answer: &Connection) {
        let mut seen = self.lock();
        if is_close {
            seen.closes += 1;
        } else {
            seen.answers.push(answer.clone());
        }
    }
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated {
            gate: self.clone(),
            inner,
        }
    }
}

/// The service of [`Gate`].
#[derive(Debug, Clone)]
pub struct Gated<S> {
    gate: Gate,
    inner: S,
}

impl<S: nsm_chain::NetworkService> Service<Call> for Gated<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let (gate, mut inner) = (self.gate.clone(), take_ready(&mut self.inner));
        Box::pin(async move {
            let is_close = matches!(call.operation, Operation::Close(_));
            let way = match is_close {
                true => &gate.0.closes,
                false => &gate.0.requests,
            };
            let mut way = way.subscribe();
            let now = *way.borrow_and_update();
            if let Way::Refused(kind) = now {
                gate.lock().refused += usize::from(is_close);
                return Err(Error::new(kind, "gate", "the case wants it so"));
            }
            if let (Operation::Request(request), true) =
                (&mut call.operation, gate.0.invents.load(Relaxed))
            {
                make_up_names(request);
            }
            let answer = inner.call(call).await?;
            gate.note(is_close, &answer);
            // The gate outlives its calls.
            way.wait_for(|way| *way != Way::Held).await.ok();
            Ok(answer)
        })
    }
}

/// Names each interface that is asked for without a name.
fn make_up_names(request: &mut NetworkServiceRequest) {
    let chosen = request.connection.as_mut();
    let chosen = chosen.and_then(|connection| connection.mechanism.as_mut());
    let asked = chosen.into_iter().chain(&mut request.mechanism_preferences);
    for mechanism in asked {
        let name = mechanism.parameters.entry(INTERFACE_NAME.to_owned());
        name.or_insert_with(|| format!("nse-{:08x}", fastrand::u32(..)));
    }
}

/// The chain of an endpoint behind a [`Gate`], served in its network until this value is dropped.
#[derive(Debug)]
pub struct GatedEndpoint {
    /// The gate.
    pub gate: Gate,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl GatedEndpoint {
    /// Starts it, with flags as [`Mesh::endpoint`] takes them.
    pub fn start(mesh: &Mesh, network: usize, more: &[&str]) -> Self {
        let own = flags(&mesh.endpoint_flags(network), more);
        let config = nse::Config::parse_from(["nse".to_owned()].into_iter().chain(own));
        let list = PolicyList::read(&config.pbr_config_path).unwrap();
        let gate = Gate::default();
        let (layer, netns) = (
            gate.clone(),
            Netns::from_fd(&mesh.networks[network]).unwrap(),
        );
        let (stop, stopped) = oneshot::channel();
        let serve = async move {
            let monitor = Monitor::new();
            let policies = Policies::new(list.unwrap_or_default(), monitor.clone());
            let chain = nse::chain::chain(&config, policies, monitor);
            let chain = BoxNetworkService::new(layer.layer(chain));
            let listener = Listener::bind(&config.listen_on).await.unwrap();
            let stopped = async { drop(stopped.await) };
            let server = Server::new(chain).drain_limit(std::time::Duration::ZERO);
            server.serve(listener, stopped).await;
        };
        // All of it in a thread that is in the network: an endpoint sends the namespace it is in.
        let thread = thread::spawn(move || {
            let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
            netns.enter(|| runtime().block_on(serve)).unwrap();
        });
        Self {
            gate,
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for GatedEndpoint {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
