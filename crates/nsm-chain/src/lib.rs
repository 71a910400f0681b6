//! The chain that handles a connection of the Network Service Mesh, and those of its elements
//! that touch no kernel.
//!
//! A hop of the mesh answers two operations, *request* (establish or refresh a connection) and
//! *close*. Here both are one [`tower::Service`] of [`Call`], a [`NetworkService`], so that
//! everything made for tower fits. An element is a layer: what it does before it calls the inner
//! service happens on the way down, what it does after that on the way up.
//!
//! A chain reads from top to bottom as a call passes it. Elements have spans of the names that are
//! given here (see [`Elements`]):
//!
//! ```
//! use nsm_api::networkservice::NetworkServiceRequest;
//! use nsm_chain::begin::AnswerLayer;
//! use nsm_chain::{
//!     BeginLayer, BoxNetworkService, Call, DeadlineLayer, Elements, End, Error, MetadataLayer, Side,
//!     TraceLayer, UpdatePathLayer,
//! };
//! use tokio::time::Duration;
//! use tower::limit::ConcurrencyLimitLayer;
//! use tower::{ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let chain = ServiceBuilder::new()
//!     // Hides the chain's type.
//!     .layer(BoxNetworkService::layer())
//!     // Sees every call with all that happens to it, and logs its error.
//!     .layer(TraceLayer)
//!     // The caller waits no longer than this. What begin has started goes on.
//!     .server("deadline", DeadlineLayer::new(Duration::from_secs(15)))
//!     // Gives the connection its id of this hop, by which begin tells connections apart.
//!     .server("updatepath", UpdatePathLayer::new("forwarder-1"))
//!     // From here on: one call at a time for a connection, each goes to its end, and a first
//!     // request that fails is undone.
//!     .server("begin", BeginLayer::new(Side::Server))
//!     // Elements below remember things of a connection.
//!     .server("metadata", MetadataLayer::new(Side::Server))
//!     // Any layer of tower's fits.
//!     .layer(ConcurrencyLimitLayer::new(64))
//!     // .server("policyroute", PolicyRouteLayer::new(..))
//!     // Right above the next hop, so that an undone request is undone there too.
//!     .client("answer", AnswerLayer)
//!     // .service(the client that calls the next hop)
//!     .service(End);
//!
//! let call = Call::request(NetworkServiceRequest::default());
//! let connection = chain.oneshot(call).await?;
//!
//! assert_eq!(connection.current_segment().unwrap().name, "forwarder-1");
//! # Ok(())
//! # }
//! ```
//!
//! # What an element may rely on
//!
//! Below [`begin`] there is one call at a time for a connection, no caller that goes away, and no
//! need to undo what other elements did. In return an element accepts a close of something it
//! never knew or half made, honours the deadline of the call, and passes a close on whatever
//! happens to its own part.

pub mod begin;
mod call;
pub mod client_info;
mod clock;
mod deadline;
mod error;
pub mod excluded_prefixes;
pub mod heal;
pub mod mechanisms;
pub mod metadata;
pub mod monitor;
pub mod refresh;
pub mod retry;
mod service;
#[cfg(feature = "test-util")]
pub mod test_util;
pub mod timeout;
mod timers;
pub mod token;
pub mod trace;
pub mod update_path;

pub use begin::BeginLayer;
pub use call::{Call, Operation, TimeBudget};
pub use client_info::{ClientInfo, ClientInfoLayer};
pub use clock::now;
pub use deadline::{Deadline, DeadlineLayer};
pub use error::{BoxError, Error, ErrorChain, ErrorKind};
pub use excluded_prefixes::ExcludedPrefixesLayer;
pub use heal::HealLayer;
pub use mechanisms::MechanismsLayer;
pub use metadata::MetadataLayer;
pub use monitor::{Monitor, MonitorLayer, RelayLayer};
pub use refresh::RefreshLayer;
pub use retry::RetryLayer;
pub use service::{BoxFuture, BoxNetworkService, End, NetworkService, Side, take_ready};
pub use timeout::TimeoutLayer;
pub use token::TokenLayer;
pub use trace::{Elements, TraceLayer};
pub use update_path::UpdatePathLayer;
