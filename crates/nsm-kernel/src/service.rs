use crate::claim::{Claims, Request};
use crate::endpoint::EndpointSlot;
use nsm_api::connection::Connection;
use nsm_chain::metadata::Store;
use nsm_chain::{BoxFuture, Call, NetworkService, Operation, Side, take_ready};
use nsm_netlink::Netns;
use nsm_policyroute::Received;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{Layer, Service};

/// The settings of the middleware.
#[derive(Debug, Clone)]
pub struct Config {
    /// The rtnetlink protocol number that marks our interfaces, addresses, routes and neighbours. A
    /// second forwarder on a node needs one of its own. The same as that of the forwarder's policy
    /// routes will do: those lie in other tables.
    pub protocol: NonZeroU8,
    /// The longest that one piece of work may take, waiting for its turn included. A call with an
    /// earlier deadline ends then.
    pub timeout: Duration,
}

impl Config {
    /// The defaults for a protocol number: 10 seconds.
    pub const fn new(protocol: NonZeroU8) -> Self {
        Self {
            protocol,
            timeout: Duration::from_secs(10),
        }
    }
}

/// Puts [`Kernel`] into a chain. Clones, and services of one layer, share which connection holds
/// which name.
///
/// See the [crate's page](crate) for where it sits.
#[derive(Debug, Clone)]
pub struct KernelLayer {
    claims: Arc<Claims>,
}

impl KernelLayer {
    /// Works with these settings.
    ///
    /// # Errors
    /// When the release of the running kernel cannot be read.
    pub fn new(config: Config) -> std::io::Result<Self> {
        let claims = Arc::new(Claims::new(config)?);
        Ok(Self { claims })
    }

    /// How many clients' network namespaces are held at the moment: those that a connection
    /// remembers.
    pub fn namespaces_held(&self) -> usize {
        self.claims.held()
    }
}

impl<S> Layer<S> for KernelLayer {
    type Service = Kernel<S>;

    fn layer(&self, inner: S) -> Kernel<S> {
        Kernel {
            claims: Arc::clone(&self.claims),
            inner,
        }
    }
}

/// Joins a client's and an endpoint's network namespace with a pair of interfaces.
///
/// A request goes on first, and what its answer says is made, in one piece of work for all of it:
/// links, addresses, routes, neighbours, MTU. A close removes the pair, and goes on when it is gone.
/// Nothing is rolled back here: the chain closes what a first request leaves.
///
/// Dropping the future of a request stops the waiting, not the work once it has begun; a close is
/// done whatever becomes of its caller.
#[derive(Debug, Clone)]
pub struct Kernel<S> {
    claims: Arc<Claims>,
    inner: S,
}

impl<S: NetworkService> Service<Call> for Kernel<S> {
    type Response = Connection;
    type Error = nsm_chain::Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let mut inner = take_ready(&mut self.inner);
        let claims = Arc::clone(&self.claims);
        Box::pin(async move {
            let id = client_id(call.connection()).to_owned();
            let received = call.extensions.get::<Received<Netns>>();
            let client = received.map(|received| Arc::clone(&received.0));
            let store = Store::of(&call, Side::Server).cloned().unwrap_or_default();
            match &call.operation {
                Operation::Request(_) => {
                    let proposed = client.as_ref().and_then(|it| claims.endpoint_name(it, &id));
                    let slot = EndpointSlot::proposing(proposed);
                    call.extensions.insert(slot.clone());
                    let deadline = call.deadline;
                    let mut connection = inner.call(call).await?;
                    let request = Request {
                        id,
                        client,
                        endpoint: slot.take(),
                        store,
                        deadline,
                    };
                    claims.establish(request, &mut connection).await?;
                    Ok(connection)
                }
                Operation::Close(connection) => {
                    // Where the interface stays, the connection does: the endpoint must not give
                    // its addresses to another.
                    claims.close(&id, client, &store, connection).await?;
                    inner.call(call).await
                }
            }
        })
    }
}

/// The client's own id of a connection, which stays when hops behind it are replaced.
fn client_id(connection: &Connection) -> &str {
    let path = connection.path.as_ref();
    let first = path.and_then(|path| path.path_segments.first());
    let id = first.map(|segment| segment.id.as_str());
    id.filter(|id| !id.is_empty()).unwrap_or(&connection.id)
}
