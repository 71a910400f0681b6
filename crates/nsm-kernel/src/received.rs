//! Descriptors that were received, made to network namespaces.
//!
//! Two layers that a forwarder puts right below those that receive descriptors, one in each chain.
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

/// Puts the client's namespace into the extensions of each call, as [`Received`].
///
/// A request whose descriptor is no network namespace, or is the forwarder's own, is refused with
/// [`FailedPrecondition`](nsm_chain::ErrorKind::FailedPrecondition) before it goes on. A close goes
/// on without one. A call that came without a descriptor goes on too: whoever needs one says so.
#[derive(Clone)]
pub struct ReceivedNetnsLayer<F> {
    own: Option<NetnsId>,
    find: F,
}

impl<F> ReceivedNetnsLayer<F>
where
    F: Fn(&Extensions) -> Option<Arc<OwnedFd>> + Clone + Send + Sync + 'static,
{
    /// Finds the descriptor among a call's extensions, and takes any namespace.
    pub const fn new(find: F) -> Self {
        Self { own: None, find }
    }

    /// Refuses this namespace, the forwarder's own: what a client wants in its pod must not be done
    /// to the node.
    #[must_use]
    pub fn except(mut self, own: NetnsId) -> Self {
        self.own = Some(own);
        self
    }
}

impl<F: Clone, S> Layer<S> for ReceivedNetnsLayer<F> {
    type Service = ReceivedNetns<F, S>;

    fn layer(&self, inner: S) -> Self::Service {
        ReceivedNetns {
            layer: self.clone(),
            inner,
        }
    }
}

/// The service of [`ReceivedNetnsLayer`].
#[derive(Clone)]
pub struct ReceivedNetns<F, S> {
    layer: ReceivedNetnsLayer<F>,
    inner: S,
}

impl<F, S: NetworkService> Service<Call> for ReceivedNetns<F, S>
where
    F: Fn(&Extensions) -> Option<Arc<OwnedFd>> + Clone + Send + Sync + 'static,
{
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
            if let Some(fd) = (layer.find)(&call.extensions) {
                match (netns(&fd, Side::Client, layer.own), &call.operation) {
                    (Ok(netns), _) => {
                        call.extensions.insert(Received(netns));
                    }
                    (Err(error), Operation::Request(_)) => return Err(error.into()),
                    (Err(error), Operation::Close(_)) => {
                        tracing::debug!(%error, "a close goes on without a namespace");
                    }
                }
            }
            inner.call(call).await
        })
    }
}

/// Tells the server chain where the endpoint's end goes, through its [`EndpointSlot`].
///
/// It sits in the client chain, above what receives descriptors and below what translates the
/// mechanism: it reads the mechanism as the endpoint answered it. Answers of another mechanism than
/// KERNEL, or with a VLAN, tell nothing.
#[derive(Clone)]
pub struct EndpointLayer<F> {
    own: Option<NetnsId>,
    find: F,
}

impl<F> EndpointLayer<F>
where
    F: Fn(&Store) -> Option<Arc<OwnedFd>> + Clone + Send + Sync + 'static,
{
    /// Finds the descriptor in the connection's store of the client side, and takes any namespace.
    pub const fn new(find: F) -> Self {
        Self { own: None, find }
    }

    /// Refuses this namespace, the forwarder's own.
    #[must_use]
    pub fn except(mut self, own: NetnsId) -> Self {
        self.own = Some(own);
        self
    }
}

impl<F: Clone, S> Layer<S> for EndpointLayer<F> {
    type Service = EndpointNetns<F, S>;

    fn layer(&self, inner: S) -> Self::Service {
        EndpointNetns {
            layer: self.clone(),
            inner,
        }
    }
}

/// The service of [`EndpointLayer`].
///
/// # Errors
/// [`FailedPrecondition`](nsm_chain::ErrorKind::FailedPrecondition) when what the endpoint sent is
/// no network namespace, or the forwarder's own.
#[derive(Clone)]
pub struct EndpointNetns<F, S> {
    layer: EndpointLayer<F>,
    inner: S,
}

impl<F, S: NetworkService> Service<Call> for EndpointNetns<F, S>
where
    F: Fn(&Store) -> Option<Arc<OwnedFd>> + Clone + Send + Sync + 'static,
{
    type Response = Connection;
    type Error = nsm_chain::Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let mut inner = take_ready(&mut self.inner);
        if let Operation::Close(_) = call.operation {
            return Box::pin(inner.call(call));
        }
        let layer = self.layer.clone();
        let slot = EndpointSlot::of(&call.extensions).cloned();
        let store = Store::of(&call, nsm_chain::Side::Client).cloned();
        Box::pin(async move {
            let connection = inner.call(call).await?;
            let kernel = connection.kernel_mechanism();
            let fd = store.and_then(|store| (layer.find)(&store));
            if let (Some(kernel), Some(slot), Some(fd)) = (kernel, slot, fd)
                && kernel.vlan() == 0
            {
                slot.fill(Endpoint {
                    netns: netns(&fd, Side::Endpoint, layer.own)?,
                    interface: kernel.interface_name().map(str::to_owned),
                });
            }
            Ok(connection)
        })
    }
}

fn netns(fd: &OwnedFd, side: Side, own: Option<NetnsId>) -> Result<Arc<Netns>, Error> {
    let netns = Netns::from_fd(fd).map_err(|source| Error::NotANamespace { side, source })?;
    if own == Some(netns.id()) {
        let netns = netns.id();
        return Err(Error::OwnNamespace { side, netns });
    }
    Ok(Arc::new(netns))
}

impl<F> fmt::Debug for ReceivedNetnsLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivedNetnsLayer").finish_non_exhaustive()
    }
}

impl<F, S> fmt::Debug for ReceivedNetns<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivedNetns").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for EndpointLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointLayer").finish_non_exhaustive()
    }
}

impl<F, S> fmt::Debug for EndpointNetns<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointNetns").finish_non_exhaustive()
    }
}
