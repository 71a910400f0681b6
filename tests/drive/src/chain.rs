//! The chain that is driven: update_path, begin, policyroute, and an endpoint within the process.

use http::Extensions;
use nsm_api::connection::{Connection, Path, PathSegment};
use nsm_chain::begin::BeginLayer;
use nsm_chain::update_path::UpdatePathLayer;
use nsm_chain::{BoxNetworkService, Call, Error, Operation, Side};
use nsm_netlink::Netns;
use nsm_policyroute::{Config, NamespaceError, NamespaceSource, PolicyRouteLayer};
use std::future::{Ready, ready};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// The chain, and how often its endpoint has seen a close.
#[derive(Debug)]
pub struct Chain {
    /// What is called.
    pub service: BoxNetworkService,
    closed: Arc<AtomicU64>,
}

impl Chain {
    /// One that remembers nothing.
    pub fn new(config: Config) -> Self {
        let closed = Arc::default();
        let endpoint = Endpoint {
            closed: Arc::clone(&closed),
        };
        let policyroute = PolicyRouteLayer::new(Named, config).layer(endpoint);
        let begin = BeginLayer::new(Side::Server).layer(policyroute);
        Self {
            service: BoxNetworkService::new(UpdatePathLayer::new("drive").layer(begin)),
            closed,
        }
    }

    /// How often the endpoint has been told that a connection ends.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }
}

/// What the endpoint answers, beside the call.
#[derive(Debug, Clone)]
pub struct Answered(pub Connection);

#[derive(Debug, Clone)]
struct Endpoint {
    closed: Arc<AtomicU64>,
}

impl Service<Call> for Endpoint {
    type Response = Connection;
    type Error = Error;
    type Future = Ready<Result<Connection, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let answered = call.extensions.remove::<Answered>();
        ready(Ok(match call.operation {
            Operation::Close(connection) => {
                self.closed.fetch_add(1, Ordering::Relaxed);
                connection
            }
            Operation::Request(request) => {
                let mut connection = request.connection.unwrap_or_default();
                if let Some(Answered(answered)) = answered {
                    connection.context = answered.context;
                    connection.mechanism = answered.mechanism;
                }
                sign(&mut connection);
                connection
            }
        }))
    }
}

/// As an endpoint does: with a segment of its own in the path.
fn sign(connection: &mut Connection) {
    const NAME: &str = "endpoint";
    NAME.clone_into(&mut connection.network_service_endpoint_name);
    let path = connection.path.get_or_insert_with(Path::default);
    path.path_segments.truncate(path.index as usize + 1);
    path.path_segments.push(PathSegment {
        name: NAME.to_owned(),
        id: format!("{}-at-the-endpoint", connection.id),
        ..PathSegment::default()
    });
}

/// Opens what the mechanism names at each call, as the Go element does.
#[derive(Debug, Clone, Copy)]
struct Named;

impl NamespaceSource for Named {
    type Namespace = Netns;

    fn namespace(
        &self,
        connection: &Connection,
        _: &Extensions,
    ) -> Result<Arc<Netns>, NamespaceError> {
        let url = connection.kernel_mechanism().and_then(|k| k.netns_url());
        let reference = url.ok_or(NamespaceError::NotGiven)?;
        let path = FilePath::new(reference.trim_start_matches("file://"));
        match Netns::open_path(path) {
            Ok(netns) => Ok(Arc::new(netns)),
            Err(_) if !path.exists() => Err(NamespaceError::Gone {
                reference: reference.to_owned(),
            }),
            Err(source) => Err(NamespaceError::NotUsable {
                reference: reference.to_owned(),
                source: source.into(),
            }),
        }
    }
}
