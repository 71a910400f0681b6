//! Rules, routes and links as plain values, and the kernel behind one small trait.

mod attributes;
#[cfg(feature = "fake")]
pub mod counted;
mod event;
#[cfg(feature = "fake")]
pub mod fake;
mod family;
#[cfg(feature = "fake")]
pub mod fault;
mod kernel;
mod link;
mod netns;
mod owner;
mod route;
mod rtnl;
mod rule;
mod table;
mod text;

pub use attributes::Attributes;
pub use event::{Change, Event, Object};
pub use family::Family;
pub use kernel::{Dump, Kernel, KernelError, Namespace, NetnsId, Op, OpKind, Placement, Refusal};
pub use link::Link;
pub use netns::{Netns, NetnsError};
pub use nix::errno::Errno;
pub use owner::Owner;
pub use route::{Hop, Part, Route, RouteKind, SCOPE_LINK, SCOPE_UNIVERSE};
pub use rtnl::{DuplicateDetection, LinkState, Monitor, Rtnl, SetupError, SetupFailure, VethEnd};
pub use rule::{Action, PortRange, PortRangeError, Rule, Selector};
pub use table::{TableId, TableRange, TableRangeError};
pub use text::RouteText;
