//! Where the endpoint's end of a connection goes, told by a forwarder's client chain to its server
//! chain.

use http::Extensions;
use nsm_netlink::Netns;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The endpoint's side of a connection.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its network namespace.
    pub netns: Arc<Netns>,
    /// The name that it asks for.
    pub interface: Option<String>,
}

/// A place that [`Kernel`](crate::Kernel) puts into the extensions of each request, and reads when
/// the answer has come.
///
/// What comes back up a chain is a connection, without extensions, and the endpoint's mechanism is
/// not the client's. So whoever sees the endpoint's answer as it came puts down here where its end
/// goes: [`ReceivedNetnsLayer`](crate::ReceivedNetnsLayer). The extensions have to be carried over
/// from the server chain to the client chain.
#[derive(Clone, Default)]
pub struct EndpointSlot {
    endpoint: Arc<Mutex<Option<Endpoint>>>,
    proposed: Option<String>,
}

impl EndpointSlot {
    /// The slot of a call, if there is a [`KernelLayer`](crate::KernelLayer) above.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// One for an endpoint that may give its end this name.
    pub fn proposing(name: Option<String>) -> Self {
        Self {
            proposed: name,
            ..Self::default()
        }
    }

    /// The name that the endpoint's end gets if it asks for no other. An endpoint that is asked for an
    /// interface of this name asks for no other, also in another process: some make a new name each
    /// time that they are asked without one.
    pub fn proposed(&self) -> Option<&str> {
        self.proposed.as_deref()
    }

    /// Puts down where the endpoint's end goes. The last one counts.
    pub fn fill(&self, endpoint: Endpoint) {
        *self.endpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(endpoint);
    }

    /// Takes what was put down.
    pub fn take(&self) -> Option<Endpoint> {
        let mut endpoint = self.endpoint.lock().unwrap_or_else(PoisonError::into_inner);
        endpoint.take()
    }
}

impl fmt::Debug for EndpointSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointSlot").finish_non_exhaustive()
    }
}
