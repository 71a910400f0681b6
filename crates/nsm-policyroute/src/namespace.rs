//! Where the network namespace of a connection comes from.

use http::Extensions;
use nsm_api::connection::Connection;
use nsm_chain::ErrorKind;
use nsm_netlink::{Namespace, NetnsId};
use std::marker::PhantomData;
use std::sync::Arc;
use thiserror::Error;

/// Finds the network namespace that a connection's policies are installed in.
///
/// In a client that is its own namespace, whatever the connection says. In a forwarder it is one
/// whose descriptor came with the connection: a path that a peer names means something else here.
pub trait NamespaceSource: Send + Sync + 'static {
    /// The namespaces that it gives.
    type Namespace: Namespace;

    /// The namespace of a connection. `extensions` are those of the call.
    ///
    /// # Errors
    /// See [`NamespaceError`]. Nothing is opened that did not come from the peer as a descriptor.
    fn namespace(
        &self,
        connection: &Connection,
        extensions: &Extensions,
    ) -> Result<Arc<Self::Namespace>, NamespaceError>;
}

/// Why a connection has no namespace to work in.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// It was given and is no more.
    #[error("network namespace {reference} is gone")]
    Gone {
        /// What the connection calls it.
        reference: String,
    },
    /// None was given.
    #[error("the connection came without a network namespace")]
    NotGiven,
    /// What was given is no network namespace, or not one that may be worked in.
    #[error("{reference} cannot be used as network namespace")]
    NotUsable {
        /// What the connection calls it.
        reference: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl NamespaceError {
    /// The kind of the error, as the chain sees it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Gone { .. } => ErrorKind::NotFound,
            Self::NotGiven | Self::NotUsable { .. } => ErrorKind::FailedPrecondition,
        }
    }
}

/// One namespace for every connection: the client's own, or the only one of a test.
///
/// Open it once at start, before there are other threads: a thread may have been moved elsewhere.
#[derive(Debug)]
pub struct OneNamespace<N>(Arc<N>);

impl<N> OneNamespace<N> {
    /// Works in this namespace always.
    pub fn new(namespace: N) -> Self {
        Self(Arc::new(namespace))
    }
}

impl<N: Namespace> NamespaceSource for OneNamespace<N> {
    type Namespace = N;

    fn namespace(&self, _: &Connection, _: &Extensions) -> Result<Arc<N>, NamespaceError> {
        Ok(Arc::clone(&self.0))
    }
}

/// The namespace that came with the call as a descriptor.
///
/// Whoever receives descriptors (the edge of a forwarder) puts the namespace that the connection's
/// mechanism names into the call's extensions as [`Received`].
#[derive(Debug)]
pub struct ReceivedNamespace<N> {
    own: Option<NetnsId>,
    received: PhantomData<fn() -> N>,
}

impl<N> ReceivedNamespace<N> {
    /// Takes the namespace of each call from its extensions, and refuses `own`: a peer that shares
    /// the forwarder's namespace would have its policies act on the node.
    pub const fn except(own: NetnsId) -> Self {
        Self {
            own: Some(own),
            received: PhantomData,
        }
    }

    /// Takes the namespace of each call from its extensions, whichever it is.
    pub const fn any() -> Self {
        Self {
            own: None,
            received: PhantomData,
        }
    }
}

/// A namespace whose descriptor was received with a call.
#[derive(Debug)]
pub struct Received<N>(pub Arc<N>);

impl<N> Clone for Received<N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<N: Namespace> NamespaceSource for ReceivedNamespace<N> {
    type Namespace = N;

    fn namespace(&self, _: &Connection, extensions: &Extensions) -> Result<Arc<N>, NamespaceError> {
        let received = extensions
            .get::<Received<N>>()
            .ok_or(NamespaceError::NotGiven)?;
        let id = received.0.id();
        if self.own == Some(id) {
            return Err(NamespaceError::NotUsable {
                reference: id.to_string(),
                source: Box::new(OwnNamespace),
            });
        }
        Ok(Arc::clone(&received.0))
    }
}

#[derive(Debug, Error)]
#[error("it is the forwarder's own, and no pod's: the client has to send the one of its pod")]
struct OwnNamespace;

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_netlink::fake::FakeNamespace;

    fn asked(source: &ReceivedNamespace<FakeNamespace>, came: Option<&FakeNamespace>) -> ErrorKind {
        let mut extensions = Extensions::new();
        if let Some(netns) = came {
            extensions.insert(Received(Arc::new(netns.clone())));
        }
        source
            .namespace(&Connection::default(), &extensions)
            .unwrap_err()
            .kind()
    }

    #[test]
    fn a_call_without_a_namespace_or_with_the_forwarders_own_is_refused() {
        let own = FakeNamespace::new();
        let source = ReceivedNamespace::except(own.id());

        assert_eq!(asked(&source, None), ErrorKind::FailedPrecondition);
        assert_eq!(asked(&source, Some(&own)), ErrorKind::FailedPrecondition);

        let mut extensions = Extensions::new();
        extensions.insert(Received(Arc::new(FakeNamespace::new())));
        assert!(
            source
                .namespace(&Connection::default(), &extensions)
                .is_ok()
        );
    }
}
