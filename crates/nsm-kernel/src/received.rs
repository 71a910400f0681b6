//! Descriptors that were received, made to network namespaces.
//!
//! How a descriptor is found is a function, so that nothing here depends on a transport.

use crate::endpoint::{Endpoint, EndpointSlot};
use crate::error::Error;
use crate::mark::Side;
use http::Extensions;
use nsm_api::connection::Connection;
use nsm_chain::metadata::Store;
use nsm_chain::{BoxFuture, Call, NetworkService, Operation, take_ready};
use nsm_netlink::{Namespace, Netns, NetnsId};
use nsm_policyroute::Received;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{Layer, Service};

type Find<T> = Arc<dyn Fn(&T) -> Option<Arc<OwnedFd>> + Send + Sync>;

/// Makes network namespaces of descriptors, right above what receives them: of the client's in the
/// server chain, of the endpoint's in the client chain.
#[derive(Clone)]
pub struct ReceivedNetnsLayer {
    of: Of,
    own: Option<NetnsId>,
}

#[derive(Clone)]
enum Of {
    Client(Find<Extensions>),
    Endpoint(Find<Store>),
}

impl ReceivedNetnsLayer {
    /// Puts the client's namespace into the extensions of each call, as [`Received`]. `find` finds
    /// the descriptor among them.
    ///
    /// A request whose descriptor is no network namespace, or is the forwarder's own, is refused
    /// before it goes on. A close goes on without one. A call that came without a descriptor goes on
    /// too: whoever needs one says so.
    pub fn of_client(
        find: impl Fn(&Extensions) -> Option<Arc<OwnedFd>> + Send + Sync + 'static,
    ) -> Self {
        let of = Of::Client(Arc::new(find));
        Self { of, own: None }
    }

    /// Tells the server chain where the endpoint's end goes, through its [`EndpointSlot`]. `find`
    /// finds the descriptor in the connection's store of the client side.
    ///
    /// It sits below what translates the mechanism: it reads the mechanism as the endpoint answered
    /// it. Answers of another mechanism than KERNEL, or with a VLAN, tell nothing.
    pub fn of_endpoint(
        find: impl Fn(&Store) -> Option<Arc<OwnedFd>> + Send + Sync + 'static,
    ) -> Self {
        let of = Of::Endpoint(Arc::new(find));
        Self { of, own: None }
    }

    /// Refuses this namespace, the forwarder's own: what is wanted in a pod must not be done to the
    /// node.
    #[must_use]
    pub fn except(mut self, own: NetnsId) -> Self {
        self.own = Some(own);
        self
    }

    fn netns(&self, fd: &OwnedFd, side: Side) -> Result<Arc<Netns>, Error> {
        let netns = Netns::from_fd(fd).map_err(|source| Error::NotANamespace { side, source })?;
        if self.own == Some(netns.id()) {
            let netns = netns.id();
            return Err(Error::OwnNamespace { side, netns });
        }
        Ok(Arc::new(netns))
    }

    fn receive(&self, fd: Option<Arc<OwnedFd>>, call: &mut Call) -> Result<(), Error> {
        let Some(fd) = fd else {
            return Ok(());
        };
        match (self.netns(&fd, Side::Client), &call.operation) {
            (Ok(netns), _) => {
                call.extensions.insert(Received(netns));
            }
            (Err(error), Operation::Request(_)) => return Err(error),
            (Err(error), Operation::Close(_)) => {
                tracing::debug!(%error, "a close goes on without a namespace");
            }
        }
        Ok(())
    }

    fn tell(&self, fd: &OwnedFd, answer: &Connection, slot: &EndpointSlot) -> Result<(), Error> {
        let kernel = answer.kernel_mechanism();
        if let Some(kernel) = kernel.filter(|kernel| kernel.vlan() == 0) {
            slot.fill(Endpoint {
                netns: self.netns(fd, Side::Endpoint)?,
                interface: kernel.interface_name().map(str::to_owned),
            });
        }
        Ok(())
    }
}

impl<S> Layer<S> for ReceivedNetnsLayer {
    type Service = ReceivedNetns<S>;

    fn layer(&self, inner: S) -> ReceivedNetns<S> {
        ReceivedNetns {
            layer: self.clone(),
            inner,
        }
    }
}

/// The service of [`ReceivedNetnsLayer`].
///
/// # Errors
/// [`FailedPrecondition`](nsm_chain::ErrorKind::FailedPrecondition) when what was sent is no network
/// namespace, or the forwarder's own.
#[derive(Clone, Debug)]
pub struct ReceivedNetns<S> {
    layer: ReceivedNetnsLayer,
    inner: S,
}

impl<S: NetworkService> Service<Call> for ReceivedNetns<S> {
    type Response = Connection;
    type Error = nsm_chain::Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let mut inner = take_ready(&mut self.inner);
        let layer = self.layer.clone();
        Box::pin(async move {
            let find = match (&layer.of, &call.operation) {
                (Of::Client(find), _) => {
                    layer.receive(find(&call.extensions), &mut call)?;
                    return inner.call(call).await;
                }
                (Of::Endpoint(_), Operation::Close(_)) => return inner.call(call).await,
                (Of::Endpoint(find), Operation::Request(_)) => find,
            };
            let slot = EndpointSlot::of(&call.extensions).cloned();
            let store = Store::of(&call, nsm_chain::Side::Client).cloned();
            let answer = inner.call(call).await?;
            let fd = store.and_then(|store| find(&store));
            if let (Some(slot), Some(fd)) = (slot, fd) {
                layer.tell(&fd, &answer, &slot)?;
            }
            Ok(answer)
        })
    }
}

impl fmt::Debug for ReceivedNetnsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.of {
            Of::Client(_) => Side::Client,
            Of::Endpoint(_) => Side::Endpoint,
        };
        f.debug_struct("ReceivedNetnsLayer")
            .field("of", &side)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}
