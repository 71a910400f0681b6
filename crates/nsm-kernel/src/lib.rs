//! A tower middleware that joins a client and an endpoint of the mesh with a pair of kernel
//! interfaces, and finds what it made again after a restart.
//!
//! [`KernelLayer`] makes one veth pair directly between the client's and the endpoint's network
//! namespace, with the addresses, routes and neighbours that the connection's context says, the
//! same way at both ends. Both ends are born where they belong; nothing passes through the
//! forwarder's own namespace, and there is no bridge.
//!
//! ```
//! use nsm_chain::{BeginLayer, MetadataLayer, Side};
//! use nsm_kernel::{Config, KernelLayer};
//! use tower::ServiceBuilder;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server_chain = ServiceBuilder::new()
//!     .layer(BeginLayer::new(Side::Server))
//!     .layer(MetadataLayer::new(Side::Server))
//!     // .layer(what receives descriptors)
//!     // .layer(ReceivedNetnsLayer::of_client(..))   the client's descriptor becomes its namespace
//!     // .layer(PolicyRouteLayer::new(..))     above: it needs the interface, and goes first
//!     .layer(KernelLayer::new(Config::new(78.try_into()?))?)
//!     .service(nsm_chain::End); // the client chain
//!
//! // In the client chain, from top to bottom:
//! //     MetadataLayer::new(Side::Client)
//! //     what translates the mechanism
//! //     ReceivedNetnsLayer::of_endpoint(..)        the endpoint's descriptor becomes its namespace
//! //     what receives descriptors
//! # let _ = server_chain;
//! # Ok(())
//! # }
//! ```
//!
//! # One layer for all
//!
//! The mesh's Go components have an element for each of links, addresses, routes, neighbours, MTU
//! and ping groups. Here it is one, because they are one piece of work: on the way up all of it is
//! read, compared and written in one hand-over to a thread that may block; on a close it is enough
//! to remove the interface, which takes the rest with it. `policyroute` sits above, so that it acts
//! after addresses and routes on the way up, and before they go on a close.
//!
//! # Where the namespaces come from
//!
//! The client's is the [`Received`](nsm_policyroute::Received) in the call's extensions;
//! [`ReceivedNetnsLayer`] puts it there. The endpoint's comes with the answer, which has no
//! extensions: the layer puts an [`EndpointSlot`] into those of the request, and another
//! [`ReceivedNetnsLayer`] fills it in the client chain. So a forwarder has to carry the slot over
//! from one chain to the other.
//!
//! # What it promises
//!
//! 1. *Ours is what is marked.* Both ends carry `nsm:NUMBER:NAMESPACE:ID` as alias: the forwarder's
//!    protocol number, the inode of the client's namespace, and the client's own id of the
//!    connection. Addresses, routes and neighbours carry the number (`IFA_PROTO`, `rtm_protocol`,
//!    `NDA_PROTOCOL`). What is not ours is never touched; where it is in the way, the error says so.
//!    The kernel makes no interface with an alias: until it has one it is in a group of its own, so
//!    that what a killed process leaves is nobody's riddle.
//! 2. *Adopt, never recreate.* An unchanged refresh, and the first request after a restart, only
//!    read. What somebody changed meanwhile is repaired. A pair that is not right in full (not the
//!    name that is asked for, another namespace, half of it gone) is made anew.
//! 3. *The pod's routes stay.* A route of ours stands beside one of others and before it: in IPv4
//!    in front of it at the same metric, in IPv6 at a lower one. So nothing has to be restored,
//!    whoever dies in between: when ours goes, and be it with its interface, theirs is used again.
//! 4. *Checked first.* What makes no sense is refused before anything is written.
//! 5. *A close always works.* It acts where the connection is, with or without a namespace of its
//!    own, after a restart in the one that it brings, and takes what has gone already as done. If
//!    the chain below fails, what is here has gone all the same, and the error is reported. What the
//!    client has come for since by another way, as one does that forgot its path, stays. An address
//!    is free when no interface has it: where one cannot be removed, which is tried for as long as a
//!    request may take, the close goes no further, and may come again.
//! 6. *An answer is a start.* When a request is answered, both ends send, and hear who asks for their
//!    addresses: the first packet passes. What is new is waited for, some milliseconds and no more
//!    than 300; a refresh that changes nothing waits for nothing.
//! 7. *Nothing is held.* A client's namespace is held as long as its connections are remembered, an
//!    endpoint's no longer than a call.
//!
//! # Names
//!
//! The client's end has the name that the client asks for, and no other. When another connection of
//! ours in that pod has it, whoever asks for it *anew* gets it: so two that swap their names come out
//! right, and a client that returns under another id takes its own interface over. Whoever lost a
//! name is told so at its next refresh.
//!
//! The endpoint's end has the name that the endpoint asks for, or one made of the mark when nobody
//! asks, or when an earlier client has that name. The first that the mark makes is
//! [proposed](EndpointSlot::proposed) to the endpoint, and is no wish when it comes back. An end that
//! stands keeps the name that it has when nobody asks for one: a former process may have given
//! another, and what the endpoint answers is then the name proposed, not that of the end.
//!
//! # Limits
//!
//! * Mechanisms other than KERNEL, and those with a VLAN, get nothing.
//! * Client and endpoint in one namespace are refused.
//! * Before Linux 5.18 the kernel keeps no mark of an address: all permanent ones on an interface of
//!   ours count as ours. Neighbours likewise.
//! * `ip_neighbors` of the context go to the client's end. The Go components tell them to both ends,
//!   where an entry may be the endpoint's own address.
//! * `net.ipv4.ping_group_range` and IPv6 on the interface are switched on and not switched back.
//!   If the first fails it is a warning: nothing that the connection carries needs it.
//! * Nobody looks for duplicates on an interface of ours, of no address (`accept_dad` is 0). Where
//!   `net.ipv6.conf.all.accept_dad` is above 0 that does not hold for link-local addresses, and a
//!   neighbour that is asked for on behalf of others waits for them, for a second or two.
//! * Before Linux 6.8 the carrier of an end whose index is that of the other one may be noticed only
//!   after the wait. What such an end cannot do until then is to have a link-local address.
//! * A connection that nobody closes and that does not return after a restart of the forwarder is
//!   unknown to the new process: its interface stays until its pod ends, or until another
//!   connection asks for its name.
//!
//! # How to read it
//!
//! `wanted` parses and checks, `mark` says what is ours, `pair`, `address`, `route` and `neighbour`
//! decide what is to be done. These do no IO. `work`, `site` and `ready` are the thin shell, `claim` and
//! `space` remember who has what where, `service` is the tower side.

mod address;
mod claim;
mod endpoint;
mod error;
mod mark;
mod neighbour;
mod pair;
mod ping_group;
mod ready;
mod received;
mod route;
mod service;
mod site;
mod space;
mod time;
mod wanted;
mod work;

pub use endpoint::{Endpoint, EndpointSlot};
pub use error::Error;
pub use mark::Side;
pub use received::{ReceivedNetns, ReceivedNetnsLayer};
pub use service::{Config, Kernel, KernelLayer};
pub use wanted::Invalid;
