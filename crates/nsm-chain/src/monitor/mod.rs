//! Tells others what becomes of the connections of this hop, and hears it from the hop behind.
//!
//! A [`Monitor`] knows the connections that stand, as this hop sees them: under its own id for each,
//! with the path's index at its own segment. Whoever [subscribes](Monitor::subscribe) gets what
//! there is at once and each change from then on; that is the service
//! `connection.MonitorConnection` of the mesh. A [`MonitorLayer`] keeps it up to date.
//!
//! A hop in the middle of a path [relays](RelayLayer): it [watches](Watch) each connection at the
//! hop behind and tells on what it hears there. So a client learns within moments that an endpoint
//! is gone, whichever hop it is behind, or that the endpoint has something new for it.
//!
//! | event | connection | meaning |
//! | --- | --- | --- |
//! | `INITIAL_STATE_TRANSFER` | all that stand | the first event of every stream |
//! | `UPDATE` | `UP` | it was requested, and stands |
//! | `UPDATE` | `REFRESH_REQUESTED` | it is to be requested again: there is something new |
//! | `UPDATE` | `DOWN` | the way behind this hop is lost |
//! | `DELETE` | | it was closed |
//!
//! A refresh that fails is no event: what stands, stands. When it failed because the hop behind is
//! gone, the relay says so.

pub(crate) mod heard;
mod hub;
mod layer;
mod relay;
mod selector;
mod subscription;

use futures_util::stream::BoxStream;
use http::Extensions;
use nsm_api::connection::{ConnectionEvent, MonitorScopeSelector};

pub use hub::Monitor;
pub use layer::{MonitorLayer, Monitored};
pub use relay::{RelayLayer, Relayed};
pub use selector::{of_segment, selects};
pub use subscription::Subscription;

use crate::Error;

/// What is heard of connections: the first event is an `INITIAL_STATE_TRANSFER`. The end of the
/// stream, with an error or without, means that nothing is heard any more.
pub type EventStream = BoxStream<'static, Result<ConnectionEvent, Error>>;

/// Hears from the next hop what becomes of connections there.
///
/// The edge implements it over gRPC.
pub trait Watch: Send + Sync + 'static {
    /// What of a call's extensions says where the next hop is, if there are several. Whoever watches
    /// for longer than the call takes keeps this and no more: extensions hold descriptors, too.
    fn next_hop(&self, call: &Extensions) -> Extensions {
        let _ = call;
        Extensions::new()
    }

    /// Opens a stream of the connections that are selected, at the [next hop](Self::next_hop) of a
    /// call.
    ///
    /// The stream is opened when it is first polled, waits no longer than a limit of its own for the
    /// next hop and its first event, and is closed when it is dropped. A next hop that has gone
    /// silent ends it within a bound that the implementation states.
    fn watch(&self, to: &Extensions, selector: MonitorScopeSelector) -> EventStream;
}
