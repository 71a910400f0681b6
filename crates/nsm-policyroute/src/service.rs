use crate::config::Config;
use crate::error::{ELEMENT, Error};
use crate::metrics::Metrics;
use crate::namespace::{NamespaceError, NamespaceSource};
use crate::policy::{self, Limits, Want};
use crate::registry::Registry;
use crate::space::Change;
use http::Extensions;
use nsm_api::ConnectionId;
use nsm_api::connection::Connection;
use nsm_chain::{BoxFuture, Call, ErrorChain, NetworkService, Operation, take_ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;
use tower::{Layer, Service};

/// Puts [`PolicyRoute`] into a chain. What is remembered lives here: clones share it.
///
/// See the [crate's page](crate) for an example.
pub struct PolicyRouteLayer<S: NamespaceSource> {
    policies: Arc<Policies<S>>,
}

impl<S: NamespaceSource> PolicyRouteLayer<S> {
    /// Installs policies in the namespaces that `source` finds. Figures go to the meter provider
    /// that is the global one at this moment.
    pub fn new(source: S, config: Config) -> Self {
        let registry = Registry::new(config, Metrics::global());
        Self {
            policies: Arc::new(Policies { source, registry }),
        }
    }

    /// How many network namespaces are held at the moment: those with claims, and those with
    /// left-over rules that wait for their end.
    pub fn namespaces_held(&self) -> usize {
        self.policies.registry.held()
    }
}

impl<S: NamespaceSource> Clone for PolicyRouteLayer<S> {
    fn clone(&self) -> Self {
        Self {
            policies: Arc::clone(&self.policies),
        }
    }
}

impl<S: NamespaceSource> std::fmt::Debug for PolicyRouteLayer<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let config = self.policies.registry.config();
        f.debug_struct("PolicyRouteLayer")
            .field("config", config)
            .finish_non_exhaustive()
    }
}

impl<S: NamespaceSource, T> Layer<T> for PolicyRouteLayer<S> {
    type Service = PolicyRoute<S, T>;

    fn layer(&self, inner: T) -> Self::Service {
        PolicyRoute {
            policies: Arc::clone(&self.policies),
            inner,
        }
    }
}

/// Turns the policies of each connection into rules and routing tables, and takes them back.
///
/// A request goes on first, and the policies of its answer are installed; a close removes them and
/// goes on in any case. Nothing is rolled back here: the chain closes what a first request leaves.
///
/// Dropping the future of a call stops the waiting, not the work in a namespace once it has begun.
pub struct PolicyRoute<S: NamespaceSource, T> {
    policies: Arc<Policies<S>>,
    inner: T,
}

impl<S: NamespaceSource, T: Clone> Clone for PolicyRoute<S, T> {
    fn clone(&self) -> Self {
        Self {
            policies: Arc::clone(&self.policies),
            inner: self.inner.clone(),
        }
    }
}

impl<S: NamespaceSource, T> std::fmt::Debug for PolicyRoute<S, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyRoute").finish_non_exhaustive()
    }
}

impl<S: NamespaceSource, T: NetworkService> Service<Call> for PolicyRoute<S, T> {
    type Response = Connection;
    type Error = nsm_chain::Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let mut inner = take_ready(&mut self.inner);
        let policies = Arc::clone(&self.policies);
        Box::pin(async move {
            let id = call.connection_id().map_err(|e| {
                nsm_chain::Error::new(nsm_chain::ErrorKind::InvalidArgument, ELEMENT, e)
            })?;
            let work = Caller {
                id,
                extensions: call.extensions.clone(),
                deadline: call.deadline,
            };
            match &call.operation {
                Operation::Request(_) => {
                    let asked = policies.had(call.connection());
                    let connection = inner.call(call).await?;
                    policies.install(&work, &connection, asked).await?;
                    Ok(connection)
                }
                Operation::Close(connection) => {
                    let removed = policies.remove(&work, connection).await;
                    let closed = inner.call(call).await;
                    both(removed, closed)
                }
            }
        })
    }
}

/// Who calls, kept while the call itself goes on.
struct Caller {
    id: ConnectionId,
    extensions: Extensions,
    deadline: Option<Instant>,
}

struct Policies<S: NamespaceSource> {
    source: S,
    registry: Arc<Registry<S::Namespace>>,
}

impl<S: NamespaceSource> Policies<S> {
    /// Installs what the answer to a request says.
    async fn install(
        &self,
        caller: &Caller,
        connection: &Connection,
        asked: Vec<Want>,
    ) -> Result<(), Error> {
        let home = self.registry.home(&caller.id);
        let kernel = connection
            .kernel_mechanism()
            .filter(|kernel| kernel.vlan() == 0);
        let Some(kernel) = kernel else {
            if !connection.policies().is_empty() && self.registry.is_unserved(&caller.id) {
                tracing::warn!(
                    connection.id = %caller.id,
                    policies = connection.policies().len(),
                    "policies are not installed: the mechanism is not a kernel interface without VLAN"
                );
            }
            self.leave(caller, home).await;
            return Ok(());
        };
        self.registry.is_served(&caller.id);
        let limits = self.limits();
        let wants = policy::parse(connection.policies(), connection.src_ip_addrs(), &limits)?;
        if wants.is_empty() && asked.is_empty() && home.is_none() {
            return Ok(());
        }
        let interface = match kernel.interface_name() {
            Some(name) => name.to_owned(),
            None if wants.is_empty() => {
                self.leave(caller, home).await;
                return Ok(());
            }
            None => return Err(Error::NoInterface),
        };
        let netns = match self.source.namespace(connection, &caller.extensions) {
            Ok(netns) => netns,
            // Nothing to install, and nowhere to look for what a former process may have left.
            Err(_) if wants.is_empty() => {
                self.leave(caller, home).await;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let change = Change::Request {
            connection: caller.id.clone(),
            interface,
            wants,
            asked,
        };
        self.registry.work(netns, change, caller.deadline).await
    }

    /// Removes what a connection has, or leaves what it names to a grace when it has no claim.
    async fn remove(&self, caller: &Caller, connection: &Connection) -> Result<(), Error> {
        self.registry.is_served(&caller.id);
        let had = self.had(connection);
        // Where the claim was made, never where the close points: that may be another pod.
        let netns = match self.registry.home(&caller.id) {
            Some(home) => home,
            None => match self.source.namespace(connection, &caller.extensions) {
                Ok(netns) if had.is_empty() && !self.registry.holds(&netns) => return Ok(()),
                Ok(netns) => netns,
                Err(NamespaceError::NotUsable { .. }) if had.is_empty() => return Ok(()),
                Err(NamespaceError::Gone { .. } | NamespaceError::NotGiven) => return Ok(()),
                Err(error @ NamespaceError::NotUsable { .. }) => return Err(error.into()),
            },
        };
        let change = Change::Close {
            connection: caller.id.clone(),
            had,
        };
        self.registry.work(netns, change, caller.deadline).await
    }

    /// The policies that a peer says a connection has. Nothing is installed from it, so what cannot
    /// be read counts as absent.
    fn had(&self, connection: &Connection) -> Vec<Want> {
        let limits = Limits {
            strict: false,
            ..self.limits()
        };
        policy::readable(connection.policies(), connection.src_ip_addrs(), &limits)
    }

    fn limits(&self) -> Limits {
        let config = self.registry.config();
        Limits {
            policies: config.max_policies,
            routes: config.max_routes,
            strict: config.strict,
        }
    }

    /// Ends the claim of a connection that wants nothing any more.
    async fn leave(&self, caller: &Caller, home: Option<Arc<S::Namespace>>) {
        let Some(netns) = home else { return };
        let registry = Arc::clone(&self.registry);
        let left = registry.leave(netns, caller.id.clone(), caller.deadline);
        left.await;
    }
}

/// Both outcomes of a close in one.
fn both(
    removed: Result<(), Error>,
    closed: Result<Connection, nsm_chain::Error>,
) -> Result<Connection, nsm_chain::Error> {
    match (removed, closed) {
        (Ok(()), closed) => closed,
        (Err(here), Ok(_)) => Err(here.into()),
        (Err(here), Err(below)) => {
            let kind = here.kind();
            Err(nsm_chain::Error::new(
                kind,
                ELEMENT,
                BothFailed { here, below },
            ))
        }
    }
}

/// A close that failed here and below.
#[derive(Debug, thiserror::Error)]
#[error("{}; and the rest of the chain: {}", ErrorChain(here), below.report())]
struct BothFailed {
    here: Error,
    below: nsm_chain::Error,
}
