//! Gives each connection the endpoint's policies, which stand in a file.
//!
//! The policies of an answer are exactly those of the endpoint's [list](PolicyList) that are for
//! the connection. An address that a policy names as its `from` becomes a source address of the
//! client, once, for the policy's traffic comes from nowhere else. When the policy goes, so does the
//! address, unless it was there before: what the client or the IPAM has stays. A `from` that is a
//! network selects traffic and is never assigned; one with host bits, such as `172.16.2.201/24`,
//! selects the network and names the host.
//!
//! The [file](PolicyFile) is followed. Each connection that a change of the list gives other
//! policies is asked to refresh at once, through the [monitor](nsm_chain::Monitor) of the chain, and
//! gets them with that request.

mod apply;
mod file;
mod found;
mod given;
mod item;
mod layer;
mod list;
mod watch;

pub use file::{Place, PolicyFileError};
pub use given::Policies;
pub use layer::{PoliciesLayer, WithPolicies};
pub use list::PolicyList;
pub use watch::PolicyFile;
