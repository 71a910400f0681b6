//! A tower middleware that turns the policies of an NSM connection into `ip rule`s and routing
//! tables, and finds them again after a restart.
//!
//! A connection's IP context carries *policies*: traffic with this source, protocol and ports
//! leaves by this connection. [`PolicyRouteLayer`] makes each a rule and a table in the pod's
//! network namespace. A refresh, and the first request after a restart, find the rules that stand
//! and keep them: same rule, same priority, same table. What is right is not written again.
//!
//! ```
//! use nsm_api::connection::{Connection, Mechanism};
//! use nsm_api::connectioncontext::PolicyRoute;
//! use nsm_api::mechanism::INTERFACE_NAME;
//! use nsm_api::networkservice::NetworkServiceRequest;
//! use nsm_chain::Call;
//! use nsm_netlink::fake::FakeNamespace;
//! use nsm_netlink::{Family, Owner};
//! use nsm_policyroute::{Config, OneNamespace, PolicyRouteLayer};
//! use tower::{ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pod = FakeNamespace::new();
//! let link = pod.add_link("nsm-1")?;
//! pod.set_up(link)?;
//! let owner = Owner { protocol: 79.try_into()?, tables: "25000-29999".parse()? };
//!
//! let chain = ServiceBuilder::new()
//!     .layer(PolicyRouteLayer::new(OneNamespace::new(pod.clone()), Config::new(owner)))
//!     .service(nsm_chain::End);
//!
//! let mut connection = Connection {
//!     id: "nsc-1".to_owned(),
//!     mechanism: Some(Mechanism::kernel().with_parameter(INTERFACE_NAME, "nsm-1")),
//!     ..Connection::default()
//! };
//! connection.ip_context_mut().policies.push(PolicyRoute {
//!     from: "172.16.1.2/32".to_owned(),
//!     ..PolicyRoute::default()
//! });
//! let request = NetworkServiceRequest { connection: Some(connection), ..Default::default() };
//! chain.oneshot(Call::request(request)).await?;
//!
//! let rules = pod.rules(Family::V4);
//! assert!(rules.iter().any(|rule| rule.table == 25000 && rule.protocol == 79));
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! 1. *Reattach, never recreate.* An unchanged refresh makes no netlink write.
//! 2. *Touch only what is ours*: what carries our protocol number **and** lies in our tables.
//! 3. *Never neither.* Whatever stops the process, each policy is on its old or its new content.
//! 4. *No gap, no leak.* Routes stand before their rule, and a change adds before it deletes.
//! 5. *The kernel is the truth.* Memory holds who wants what, never what is installed. What has
//!    drifted is repaired by the next request, or at once with [`Config::watch`].
//! 6. *Always ends.* Every step has a deadline and every search is bounded.
//!
//! # How to read it
//!
//! `policy` parses and validates, `claims` and `desired` say what is wanted of each selector,
//! `actual` what stands, `seat` which rule and table each selector keeps or gets, `content` what a
//! table lacks, and `plan` in which order it is written; `concern` says what of all that others do
//! matters, and `pace` when it is repaired. These do no IO. `read`, `write` with what it takes back
//! in `progress`, `reconcile` and `watch` are the thin shell, `registry` holds the namespaces,
//! `service` is the tower side.

mod actual;
mod canonical;
mod claims;
mod concern;
mod config;
mod content;
mod desired;
mod error;
mod field;
mod leftover;
mod metrics;
mod namespace;
mod pace;
mod plan;
mod policy;
mod priority;
mod progress;
mod protocol_names;
mod read;
mod read_back;
mod reconcile;
mod registry;
mod report;
mod seat;
mod service;
mod space;
mod time;
mod watch;
mod write;

pub use canonical::canonical;
pub use config::{Band, Config};
pub use error::Error;
pub use namespace::{NamespaceError, NamespaceSource, OneNamespace, Received, ReceivedNamespace};
pub use policy::{PolicyError, Reason};
pub use service::{PolicyRoute, PolicyRouteLayer};
