//! Short ways to say rules and routes.

use crate::World;
use ipnet::IpNet;
use nsm_netlink::{Attributes, Family, Op, Part, Placement, PortRange, Route, Rule, Selector};
use std::net::IpAddr;

/// The protocol number that stands for us, and one that stands for somebody else.
pub(crate) const OURS: u8 = 78;
pub(crate) const THEIRS: u8 = 4;
/// A table that nobody else uses.
pub(crate) const TABLE: u32 = 20000;

pub(crate) fn net(text: &str) -> IpNet {
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is no prefix"))
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is no address"))
}

pub(crate) fn ports(start: u16, end: u16) -> Option<PortRange> {
    Some(PortRange::from_dump(start, end))
}

/// The text of the family.
pub(crate) fn of(family: Family, v4: &'static str, v6: &'static str) -> &'static str {
    match family {
        Family::V4 => v4,
        Family::V6 => v6,
    }
}

/// A host of the pod's own, as a rule's source.
pub(crate) fn host(family: Family) -> IpNet {
    net(of(family, "10.1.1.1/32", "fd00::1/128"))
}

/// A rule of ours.
pub(crate) fn rule(family: Family, priority: u32, table: u32) -> Rule {
    let selector = Selector {
        from: Some(host(family)),
        ..Selector::any(family)
    };
    Rule::lookup(priority, selector, table, OURS)
}

/// A neighbour on a link's network, the `n`th from the end.
pub(crate) fn neighbour(family: Family, link: u32, n: u32) -> IpAddr {
    match family {
        Family::V4 => address(&format!("172.16.{link}.{}", 255 - n)),
        Family::V6 => address(&format!("fd00:{link}::ff{n:02}")),
    }
}

/// A default route of ours by a neighbour.
pub(crate) fn via(family: Family, dev: u32, gateway: IpAddr) -> Route {
    Route::unicast(TABLE, family.default_prefix(), dev, Some(gateway), OURS)
}

/// A default route of ours without a next hop.
pub(crate) fn on_link(family: Family, dev: u32) -> Route {
    Route::unicast(TABLE, family.default_prefix(), dev, None, OURS)
}

pub(crate) fn by(protocol: u8, route: Route) -> Route {
    Route { protocol, ..route }
}

pub(crate) fn exclusive(route: &Route) -> Op {
    Op::AddRoute(route.clone(), Placement::Exclusive)
}

pub(crate) fn append(route: &Route) -> Op {
    Op::AddRoute(route.clone(), Placement::Append)
}

pub(crate) fn rest(attributes: &[(u16, &[u8])]) -> Attributes {
    attributes
        .iter()
        .map(|(kind, payload)| (*kind, payload.to_vec()))
        .collect()
}

/// `FRA_FWMARK`, `FRA_FWMASK`.
pub(crate) fn mark(mark: u32, mask: Option<u32>) -> Attributes {
    let mark = mark.to_ne_bytes();
    match mask {
        None => rest(&[(10, &mark)]),
        Some(mask) => rest(&[(10, &mark), (16, &mask.to_ne_bytes())]),
    }
}

/// `FRA_DST`, with the length behind the address.
pub(crate) fn to(family: Family) -> Attributes {
    match family {
        Family::V4 => rest(&[(1, &[10, 9, 0, 0, 16])]),
        Family::V6 => rest(&[(1, &[0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32])]),
    }
}

/// `FRA_SUPPRESS_PREFIXLEN`.
pub(crate) fn suppress(length: u32) -> Attributes {
    rest(&[(14, &length.to_ne_bytes())])
}

/// `FRA_IIFNAME`.
pub(crate) fn iif(name: &str) -> Attributes {
    rest(&[(3, format!("{name}\0").as_bytes())])
}

pub(crate) fn in_table<W: World>(world: &W, family: Family) -> Vec<Route> {
    let routes = world.made_routes(family);
    routes
        .into_iter()
        .filter(|route| route.table == TABLE)
        .collect()
}

/// Routes as the legs of one.
pub(crate) fn legs<const N: usize>(mut routes: [Route; N]) -> [Route; N] {
    for (at, route) in routes.iter_mut().enumerate() {
        route.part = if at == 0 { Part::First } else { Part::Further };
    }
    routes
}

pub(crate) fn gateway(family: Family, n: u32) -> IpAddr {
    neighbour(family, 1, n)
}

/// `RTA_PREFSRC`.
pub(crate) fn source(address: IpAddr) -> Attributes {
    match address {
        IpAddr::V4(it) => rest(&[(7, &it.octets())]),
        IpAddr::V6(it) => rest(&[(7, &it.octets())]),
    }
}
