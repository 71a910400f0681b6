//! What happens while a stream is sent: by the element, or beside it and then repaired by it.
//!
//! Each flow is a state and one change, done again and again. `element` holds what the element does
//! alone, `claims` where several connections meet on a policy, `repair` what it finds and puts right,
//! `control` what must leak.

mod claims;
mod control;
mod element;
mod kernels_best;
mod repair;

use crate::Error;
use crate::stage::Stage;
use crate::world::Link;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use nsm_netlink::Family;
use serde::{Serialize, Serializer};
use std::fmt;

pub use kernels_best::KernelsBest;

/// A flow that has begun.
pub trait Flow {
    /// Makes one change.
    ///
    /// # Errors
    /// When the element or the kernel does not want to.
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error>;

    /// The link that the stream leaves by after the last change.
    fn home(&self) -> Link {
        Link::Nsm0
    }
}

/// A flow by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// The negative control: the rule is deleted, then added.
    Control,
    /// A request that changes nothing.
    Refresh,
    /// The element dies, and all connections return.
    Restart,
    /// All policies change their next hop.
    NextHop,
    /// Routes come and go beside the one that the stream takes.
    RoutesBeside,
    /// A route to the stream's destination comes and goes in front of the default route.
    NarrowerRoute,
    /// Policies come and go in the same connection.
    PoliciesBeside,
    /// Another connection comes and goes.
    ConnectionBeside,
    /// A connection that wants exactly the same comes and goes.
    Ghost,
    /// A connection that wants the same by another interface comes and goes.
    HandOver,
    /// The two interfaces swap their names, and the connections return.
    NameSwap,
    /// The rule stands at a wrong priority.
    PriorityMove,
    /// A second rule stands for the same policy.
    Duplicates,
    /// The rule stands on the table of another.
    SharedTable,
    /// The connection is closed, and requested again.
    Reconnect,
    /// The route is gone.
    LostRoute,
}

impl Name {
    /// All flows, the control first: where that one shows nothing, the others say nothing.
    pub const ALL: [Self; 16] = [
        Self::Control,
        Self::Refresh,
        Self::Restart,
        Self::NextHop,
        Self::RoutesBeside,
        Self::NarrowerRoute,
        Self::PoliciesBeside,
        Self::ConnectionBeside,
        Self::Ghost,
        Self::HandOver,
        Self::NameSwap,
        Self::PriorityMove,
        Self::Duplicates,
        Self::SharedTable,
        Self::Reconnect,
        Self::LostRoute,
    ];

    /// As it is written.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Control => "control-delete-then-add",
            Self::Refresh => "refresh",
            Self::Restart => "restart",
            Self::NextHop => "next-hop",
            Self::RoutesBeside => "routes-beside",
            Self::NarrowerRoute => "narrower-route",
            Self::PoliciesBeside => "policies-beside",
            Self::ConnectionBeside => "connection-beside",
            Self::Ghost => "ghost",
            Self::HandOver => "hand-over",
            Self::NameSwap => "name-swap",
            Self::PriorityMove => "priority-move",
            Self::Duplicates => "duplicates",
            Self::SharedTable => "shared-table",
            Self::Reconnect => "reconnect",
            Self::LostRoute => "lost-route",
        }
    }

    /// What one change is.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Control => "the rule is deleted and added by hand: this must leak",
            Self::Refresh => "a request that changes nothing",
            Self::Restart => "the element forgets all, and two connections return at once",
            Self::NextHop => "all policies change to the other next hop",
            Self::RoutesBeside => "routes to other prefixes come and go",
            Self::NarrowerRoute => "a narrower route to the destination comes or goes",
            Self::PoliciesBeside => "other policies of the connection come and go",
            Self::ConnectionBeside => "another connection comes or goes",
            Self::Ghost => "a connection that wants the same comes or goes",
            Self::HandOver => "a connection that wants the same by nsm-1 comes or goes",
            Self::NameSwap => "the interfaces swap their names, two connections return",
            Self::PriorityMove => "the rule, put at a wrong priority by hand, is moved back",
            Self::Duplicates => "a second rule for the policy, added by hand, is removed",
            Self::SharedTable => "two rules, put on one table by hand, are set apart",
            Self::Reconnect => "the connection is closed and requested again: sockets must return",
            Self::LostRoute => "the route, deleted by hand, is put back: sockets must return",
        }
    }

    /// The links that the stream may leave by. By any other it has leaked.
    pub const fn links(self) -> &'static [Link] {
        match self {
            Self::HandOver | Self::NameSwap => &[Link::Nsm0, Link::Nsm1],
            _ => &[Link::Nsm0],
        }
    }

    /// Whether there is a gap that is not the element's. What leaves by others then is no fault; that
    /// a socket is not back after the gap is one.
    pub const fn has_a_gap(self) -> bool {
        matches!(self, Self::Control | Self::Reconnect | Self::LostRoute)
    }

    /// Whether an IPv6 route is deleted that the stream has taken until then. Who has just found it
    /// may find nothing in its table: that is the kernel's own, so the figure is reported beside the
    /// kernel's best.
    pub fn deletes_route_in_use(self, family: Family) -> bool {
        use Name::{HandOver, NameSwap, NarrowerRoute, NextHop};
        family == Family::V6 && matches!(self, NextHop | NarrowerRoute | HandOver | NameSwap)
    }

    /// Begins: what must stand stands afterwards.
    ///
    /// # Errors
    /// When the element or the kernel does not want to.
    pub fn begin(self, stage: &mut Stage) -> Result<Box<dyn Flow>, Error> {
        Ok(match self {
            Self::Control => Box::new(control::Control::begin(stage)?),
            Self::Refresh => Box::new(element::Refresh::begin(stage)?),
            Self::Restart => Box::new(element::Restart::begin(stage)?),
            Self::NextHop => Box::new(element::NextHop::begin(stage)?),
            Self::RoutesBeside => Box::new(element::RoutesBeside::begin(stage)?),
            Self::NarrowerRoute => Box::new(element::NarrowerRoute::begin(stage)?),
            Self::PoliciesBeside => Box::new(element::PoliciesBeside::begin(stage)?),
            Self::ConnectionBeside => Box::new(claims::Other::beside(stage)?),
            Self::Ghost => Box::new(claims::Other::ghost(stage)?),
            Self::HandOver => Box::new(claims::Other::hand_over(stage)?),
            Self::NameSwap => Box::new(claims::NameSwap::begin(stage)?),
            Self::PriorityMove => Box::new(repair::PriorityMove::begin(stage)?),
            Self::Duplicates => Box::new(repair::Duplicates::begin(stage)?),
            Self::SharedTable => Box::new(repair::SharedTable::begin(stage)?),
            Self::Reconnect => Box::new(element::Reconnect::begin(stage)?),
            Self::LostRoute => Box::new(repair::LostRoute::begin(stage)?),
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl ValueEnum for Name {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.text()).help(self.about()))
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}
