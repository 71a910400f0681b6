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
pub struct EndpointSlot(Arc<Mutex<Option<Endpoint>>>);

impl EndpointSlot {
    /// The slot of a call, if there is a [`KernelLayer`](crate::KernelLayer) above.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Puts down where the endpoint's end goes. The last one counts.
    pub fn fill(&self, endpoint: Endpoint) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(endpoint);
    }

    /// Takes what was put down.
    pub fn take(&self) -> Option<Endpoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for EndpointSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointSlot").finish_non_exhaustive()
    }
}
