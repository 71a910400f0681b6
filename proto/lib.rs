//! The Network Service Mesh API: messages, clients and servers, and typed views of the messages.
//!
//! Each protobuf package is a module of the same name, generated from the definitions in this
//! folder. They are wire compatible with the mesh's Go components: packages, numbers, types and
//! so the gRPC paths are equal. The views are methods on the messages, plus [`ConnectionId`],
//! [`InterfaceName`], [`parse_net`] and [`mechanism`], and they hold for any message that a peer may send: every
//! part can be absent.
//!
//! Maps are sorted, so equal messages have equal bytes. A field that a newer peer knows and this
//! crate does not is dropped when a message is decoded.
//!
//! ```
//! use nsm_api::connection::{Connection, Mechanism};
//! use nsm_api::connectioncontext::{PolicyRoute, Route};
//! use nsm_api::mechanism::{INTERFACE_NAME, NETNS_URL};
//!
//! let mut connection = Connection {
//!     id: "nsc-7d4f".to_owned(),
//!     mechanism: Some(
//!         Mechanism::kernel()
//!             .with_parameter(INTERFACE_NAME, "nsm-1")
//!             .with_parameter(NETNS_URL, "inode://4/4026532581"),
//!     ),
//!     ..Connection::default()
//! };
//! assert!(connection.policies().is_empty());
//!
//! connection.ip_context_mut().policies.push(PolicyRoute {
//!     proto: "6".to_owned(),
//!     dst_port: "6666".to_owned(),
//!     routes: vec![Route {
//!         prefix: "172.16.2.0/24".to_owned(),
//!         next_hop: "172.16.1.1".to_owned(),
//!     }],
//!     ..PolicyRoute::default()
//! });
//! assert_eq!(connection.policies()[0].dst_port, "6666");
//!
//! let interface = connection.kernel_mechanism().and_then(|kernel| kernel.interface_name());
//! assert_eq!(interface, Some("nsm-1"));
//! ```

mod connection_id;
mod context;
mod interface_name;
pub mod mechanism;
mod net;
mod path;

#[cfg(test)]
mod grpc_tests;
#[cfg(test)]
mod wire_tests;

pub use connection_id::{ConnectionId, EmptyConnectionId};
pub use interface_name::{InterfaceName, InterfaceNameError};
pub use net::parse_net;

// The packages are siblings: what is generated finds another package at `super::super`.

/// The service of every hop: request a connection, close it.
#[allow(missing_docs, clippy::all)]
pub mod networkservice {
    tonic::include_proto!("networkservice");
}

/// A connection, its path and its mechanism, and the service that watches connections.
#[allow(missing_docs, clippy::all)]
pub mod connection {
    tonic::include_proto!("connection");
}

/// What a connection carries: addresses, routes, policies, names.
#[allow(missing_docs, clippy::all)]
pub mod connectioncontext {
    tonic::include_proto!("connectioncontext");
}

/// Network services and the endpoints that offer them, and the services that register both.
#[allow(missing_docs, clippy::all)]
pub mod registry {
    tonic::include_proto!("registry");
}
