//! Gives each connection the endpoint's policies, which stand in a file.
//!
//! The policies of an answer are exactly those of the endpoint's [list](PolicyList). An address
//! that a policy names as its `from` becomes a source address of the client, once, for the
//! policy's traffic comes from nowhere else. When the policy goes, so does the address, unless it
//! was there before: what the client or the IPAM has stays. A `from` that is a network selects
//! traffic and is never assigned; one with host bits, such as `172.16.2.201/24`, selects the
//! network and names the host.
//!
//! A change of the list reaches a connection with its next request.

mod apply;
mod file;
mod layer;

pub use file::{Place, PolicyFileError, PolicyList};
pub use layer::{Policies, PoliciesLayer, WithPolicies};
