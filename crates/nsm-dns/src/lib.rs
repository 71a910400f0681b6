//! Names that a connection brings to its client.
//!
//! An endpoint may tell its clients of DNS servers, each with the domains that they are for. A
//! client's programs know of one list of servers only, that of resolv.conf(5). So, as soon as a
//! connection tells of servers, [`DnsLayer`] starts a small DNS proxy and names it there in place of
//! the others. It asks
//!
//! * the servers of those domains that a name ends with, connections' and the file's own alike;
//! * for a name in no such domain, the servers of all connections, all at once: the first good answer
//!   counts;
//! * at last, where nobody has a good answer, the servers that stood in the file.
//!
//! Short names are searched by the resolver of the program that asks, as ever: the domains are added
//! to the `search` line of the file.
//!
//! What stood in the file stays in it, as comments, so that it comes back with the last such
//! connection, at the end, and at the next start after a kill.

mod cache;
mod exchange;
mod layer;
mod local;
mod proxy;
mod resolv_conf;
mod routes;

pub use layer::{Dns, DnsLayer};
pub use local::Settings;
