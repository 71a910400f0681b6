use crate::{Attributes, Family};
use ipnet::IpNet;
use std::net::IpAddr;

/// The type of a route (`RTN_*`, linux/rtnetlink.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteKind {
    /// Leaves by an interface.
    Unicast,
    /// Is refused with EHOSTUNREACH.
    Unreachable,
    /// Any other type, by its number.
    Other(u8),
}

/// Where a unicast route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The index of the interface.
    pub dev: u32,
    /// The next hop; `None` is on-link.
    pub via: Option<IpAddr>,
    /// The share of the leg in a multipath route, 1 for a route of one leg.
    pub weight: u16,
}

/// How a [`Route`] stands to the kernel's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// It is the whole of it.
    Whole,
    /// It is the first leg of a multipath route.
    First,
    /// It is a further leg of a multipath route.
    Further,
}

/// A route, or one leg of a multipath route.
///
/// In IPv6 the legs of a multipath route are routes of their own that a dump shows as one; in IPv4
/// they are one object. Either way a leg is a value here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The table that holds it.
    pub table: u32,
    /// The destination, without host bits.
    pub prefix: IpNet,
    /// The type of service; 0 is any.
    pub tos: u8,
    /// The lower metric of two routes of one prefix is taken.
    pub metric: u32,
    /// What it does.
    pub kind: RouteKind,
    /// `RT_SCOPE_*`; always 0 in IPv6.
    pub scope: u8,
    /// Who made the route (`rtm_protocol`).
    pub protocol: u8,
    /// Where it leads; `None` where the type leads nowhere.
    pub hop: Option<Hop>,
    /// Whether the next hop is taken to be on the link without a check (`RTNH_F_ONLINK`).
    pub onlink: bool,
    /// Whether this is a route or a leg.
    pub part: Part,
    /// Whatever else it has: preferred source, metrics, encapsulation, next-hop object ...
    pub rest: Attributes,
}

/// `RT_SCOPE_LINK`: an IPv4 route without a next hop.
pub const SCOPE_LINK: u8 = 253;
/// `RT_SCOPE_UNIVERSE`: every other route.
pub const SCOPE_UNIVERSE: u8 = 0;

impl Route {
    /// A unicast route in the shape in which the kernel gives it back: with the family's default
    /// metric, `onlink` where it has a next hop, and in IPv4 of link scope where it has none.
    pub fn unicast(table: u32, prefix: IpNet, dev: u32, via: Option<IpAddr>, protocol: u8) -> Self {
        let family = Family::of_net(&prefix);
        let on_link = via.is_none() && family == Family::V4;
        Self {
            table,
            prefix,
            tos: 0,
            metric: family.default_metric(),
            kind: RouteKind::Unicast,
            scope: if on_link { SCOPE_LINK } else { SCOPE_UNIVERSE },
            protocol,
            hop: Some(Hop {
                dev,
                via,
                weight: 1,
            }),
            onlink: via.is_some(),
            part: Part::Whole,
            rest: Attributes::NONE,
        }
    }

    /// A route that refuses what no other route of the table takes (metric 4294967295).
    pub fn unreachable(table: u32, prefix: IpNet, protocol: u8) -> Self {
        Self {
            table,
            prefix,
            tos: 0,
            metric: u32::MAX,
            kind: RouteKind::Unreachable,
            scope: SCOPE_UNIVERSE,
            protocol,
            hop: None,
            onlink: false,
            part: Part::Whole,
            rest: Attributes::NONE,
        }
    }

    /// The family of the route.
    pub fn family(&self) -> Family {
        Family::of_net(&self.prefix)
    }

    /// The interface that it leaves by.
    pub fn dev(&self) -> Option<u32> {
        self.hop.map(|hop| hop.dev)
    }

    /// Whether [`protocol`](Self::protocol) is this leg's own. A dump shows the further legs of an
    /// IPv6 multipath route under the protocol of the first.
    pub fn mark_is_known(&self) -> bool {
        self.part != Part::Further || self.family() == Family::V4
    }

    /// Whether the two are one route, however a dump shows its part of a multipath route: a leg
    /// of ours that somebody else's leg joined is still the route that we made.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.table == other.table
            && self.prefix == other.prefix
            && self.leads_as(other)
            && self.protocol == other.protocol
            && self.rest == other.rest
    }

    /// Whether the two send a packet the same way, whoever made them.
    pub fn leads_as(&self, other: &Self) -> bool {
        self.tos == other.tos
            && self.metric == other.metric
            && self.kind == other.kind
            && self.scope == other.scope
            && self.hop.map(|hop| (hop.dev, hop.via)) == other.hop.map(|hop| (hop.dev, hop.via))
    }
}
