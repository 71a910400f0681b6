//! Rules, routes and links as plain values, and the kernel behind one small trait.
//!
//! [`Namespace`] opens a [`Kernel`], and a kernel does three things: it executes a burst of
//! [`Op`]s, one message each, in order; it dumps rules, routes and links; and it tells of every
//! operation what became of it. [`Namespace::listen`] tells of what others do there. [`Netns`] and
//! [`Rtnl`] are the real ones. With the feature `fake`
//! there is a fake kernel that behaves as the real one does, and decorators over either that put
//! faults in its way and count what it is asked.
//!
//! ```
//! # #[cfg(feature = "fake")] {
//! use nsm_netlink::fake::FakeNamespace;
//! use nsm_netlink::{Family, Kernel, Namespace, Op, Rule, Selector};
//!
//! let namespace = FakeNamespace::new();
//! let from = Some("10.1.0.1/32".parse()?);
//! let selector = Selector { from, ..Selector::any(Family::V4) };
//! let rule = Rule::lookup(31745, selector, 20000, 78);
//!
//! let mut kernel = namespace.open()?;
//! let add = Op::AddRule(rule.clone());
//! let outcomes = kernel.execute(&[add.clone(), add])?;
//!
//! assert!(outcomes[0].is_ok());
//! assert_eq!(outcomes[1].as_ref().map_err(|refusal| refusal.errno), Err(nsm_netlink::Errno::EEXIST));
//! assert!(kernel.rules(Family::V4)?.items.contains(&rule));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the kernel does and few expect
//!
//! * A rule is deleted by the *first* rule that has all fields that are named: an empty delete
//!   takes `0: from all lookup local`. Deletes here name everything.
//! * There is no replacing of rules, and a replaced route takes other writers' legs with it. So
//!   there are adds and deletes, nothing else.
//! * A refused message does not stop the ones behind it, and nothing is rolled back.
//! * Rules are dumped by index: a dump of several reads may lack some when others change them, and
//!   says nothing of it. [`Dump::reads`] tells how many there were.
//! * An IPv6 multipath route is dumped under the protocol of its first leg. See
//!   [`Route::mark_is_known`].
//! * A socket stays in the namespace that it was made in, and pins it.

mod attributes;
#[cfg(feature = "fake")]
pub mod counted;
mod event;
#[cfg(feature = "fake")]
pub mod fake;
mod family;
#[cfg(feature = "fake")]
pub mod fault;
mod interface;
mod kernel;
mod link;
mod netns;
mod notification;
mod owner;
mod route;
mod rtnl;
mod rule;
#[cfg(feature = "sandbox")]
pub mod sandbox;
mod table;
mod text;

pub use attributes::Attributes;
pub use event::{Change, Event, Object};
pub use family::Family;
pub use interface::{Interface, InterfaceAddress, InterfaceChange, Neighbour, Peer};
pub use kernel::{Dump, Kernel, KernelError, Namespace, NetnsId, Op, OpKind, Placement, Refusal};
pub use link::Link;
pub use netns::{Netns, NetnsError};
pub use nix::errno::Errno;
pub use notification::{Notification, Notifications, Subject};
pub use owner::Owner;
pub use route::{Hop, Part, Route, RouteKind, SCOPE_LINK, SCOPE_UNIVERSE};
pub use rtnl::{
    DuplicateDetection, InterfaceEvent, InterfaceMonitor, InterfaceSubject, LinkState, Monitor,
    Rtnl, RtnlNotifications, SetupError, SetupFailure, VethEnd,
};
pub use rule::{Action, PortRange, PortRangeError, Rule, Selector};
pub use table::{TableId, TableRange, TableRangeError};
pub use text::RouteText;
