//! The chain that a scenario talks to: update_path, begin, policyroute, and an endpoint within the
//! process.

use crate::content::{Content, netns_url};
use http::Extensions;
use nsm_api::connection::Connection;
use nsm_chain::begin::BeginLayer;
use nsm_chain::update_path::UpdatePathLayer;
use nsm_chain::{BoxNetworkService, Call, Error, Operation, Side};
use nsm_netlink::Namespace;
use nsm_policyroute::{Config, NamespaceError, NamespaceSource, PolicyRouteLayer};
use std::collections::BTreeMap;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// A new chain, which remembers nothing. `name` is the name of its process in paths.
pub fn chain<N: Namespace>(name: &str, config: Config, pods: &Directory<N>) -> BoxNetworkService {
    let endpoint = Endpoint;
    let policyroute = PolicyRouteLayer::new(pods.clone(), config).layer(endpoint);
    let begin = BeginLayer::new(Side::Server).layer(policyroute);
    let update_path = UpdatePathLayer::new(name).layer(begin);
    BoxNetworkService::new(update_path)
}

/// Ends the chain: answers a request with the [`Content`] that came with the call.
#[derive(Debug, Clone, Copy)]
struct Endpoint;

impl Service<Call> for Endpoint {
    type Response = Connection;
    type Error = Error;
    type Future = Ready<Result<Connection, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let content = call.extensions.get::<Content>().cloned();
        ready(Ok(match call.operation {
            Operation::Close(connection) => connection,
            Operation::Request(request) => {
                let mut connection = request.connection.unwrap_or_default();
                if let Some(content) = content {
                    content.answer(&mut connection);
                }
                connection
            }
        }))
    }
}

/// The pods' namespaces by what connections call them. Clones are the same directory.
#[derive(Debug)]
pub struct Directory<N> {
    namespaces: Arc<Mutex<BTreeMap<String, Arc<N>>>>,
}

impl<N> Directory<N> {
    /// A directory without pods.
    pub fn new() -> Self {
        Self {
            namespaces: Arc::default(),
        }
    }

    /// Adds a pod.
    pub fn add(&self, pod: &str, namespace: Arc<N>) {
        self.lock().insert(netns_url(pod), namespace);
    }

    /// Forgets a pod: what it is called leads nowhere from now on.
    pub fn remove(&self, pod: &str) {
        self.lock().remove(&netns_url(pod));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<N>>> {
        self.namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<N> Clone for Directory<N> {
    fn clone(&self) -> Self {
        Self {
            namespaces: Arc::clone(&self.namespaces),
        }
    }
}

impl<N: Namespace> NamespaceSource for Directory<N> {
    type Namespace = N;

    fn namespace(&self, connection: &Connection, _: &Extensions) -> Result<Arc<N>, NamespaceError> {
        let url = connection
            .kernel_mechanism()
            .and_then(|kernel| kernel.netns_url());
        let reference = url.ok_or(NamespaceError::NotGiven)?.to_owned();
        let namespace = self.lock().get(&reference).cloned();
        namespace.ok_or(NamespaceError::Gone { reference })
    }
}
