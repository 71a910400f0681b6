//! What an endpoint of the Network Service Mesh needs, as layers of its chain: addresses for its
//! clients, DNS servers, policies from a file, the choice of a mechanism, a refusal of what is meant for others,
//! and the end of the path.
//!
//! ```
//! use nsm_api::connection::{Connection, Mechanism};
//! use nsm_api::networkservice::NetworkServiceRequest;
//! use nsm_chain::{
//!     BeginLayer, Call, End, MetadataLayer, Monitor, MonitorLayer, Side, UpdatePathLayer,
//! };
//! use nsm_endpoint::{
//!     IpamLayer, IpamPolicy, LastHopLayer, MechanismsLayer, Offer, Policies, PoliciesLayer,
//!     PolicyList, ServicesLayer,
//! };
//! use tower::{ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let prefixes = "172.16.1.0/24, fd00:1::/64".parse()?;
//! let list = PolicyList::parse("policies.yaml", "[ { from: 10.1.0.1, proto: tcp } ]")?;
//!
//! let monitor = Monitor::new();
//! let policies = Policies::new(list, monitor.clone());
//!
//! let chain = ServiceBuilder::new()
//!     .layer(UpdatePathLayer::new("nse-1"))
//!     .layer(BeginLayer::new(Side::Server))
//!     .layer(MetadataLayer::new(Side::Server))
//!     // Tells connections of a change of policies.
//!     .layer(MonitorLayer::new(monitor))
//!     // Nothing comes behind an endpoint.
//!     .layer(LastHopLayer::new("nse-1"))
//!     // Above everything that gives a connection something.
//!     .layer(ServicesLayer::new(["icmp-responder"], "ETHERNET"))
//!     // Below begin: one call at a time for a connection.
//!     .layer(IpamLayer::new(prefixes, IpamPolicy::Polite))
//!     // Below the IPAM, whose addresses it must see.
//!     .layer(PoliciesLayer::new(policies))
//!     // Above send_fd, which sends the descriptor of the namespace that is named here.
//!     .layer(MechanismsLayer::new([Offer::kernel(), Offer::Noop]))
//!     .service(End);
//!
//! let request = NetworkServiceRequest {
//!     connection: Some(Connection {
//!         network_service: "icmp-responder".to_owned(),
//!         ..Connection::default()
//!     }),
//!     mechanism_preferences: vec![Mechanism::kernel()],
//! };
//! let connection = chain.oneshot(Call::request(request)).await?;
//!
//! let addresses = ["172.16.1.1/32", "fd00:1::1/128", "10.1.0.1/32"];
//! assert_eq!(connection.src_ip_addrs(), addresses);
//! assert_eq!(connection.policies()[0].proto, "6");
//! # Ok(())
//! # }
//! ```

pub mod dns;
mod host;
mod interface_name;
pub mod ipam;
pub mod last_hop;
pub mod mechanisms;
pub mod policies;
pub mod services;

pub use dns::{DnsConfigs, DnsConfigsError, DnsLayer};
pub use ipam::{CidrGroups, CidrGroupsError, IpamLayer, IpamPolicy, UnknownIpamPolicy};
pub use last_hop::LastHopLayer;
pub use mechanisms::{MechanismError, MechanismsLayer, Offer};
pub use policies::{Place, Policies, PoliciesLayer, PolicyFile, PolicyFileError, PolicyList};
pub use services::{ServiceError, ServicesLayer};

#[cfg(test)]
mod stories;
