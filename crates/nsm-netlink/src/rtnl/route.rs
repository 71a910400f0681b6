//! Routes on the wire: `struct rtmsg`, `struct rtnexthop` and `RTA_*` (linux/rtnetlink.h).

use super::wire::{Attrs, Malformed, Requests, af, head, read_address, read_u32};
use crate::{Attributes, Family, Hop, Part, Placement, Route, RouteKind};
use ipnet::IpNet;
use nix::libc;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

/// The id of a next-hop object.
const RTA_NH_ID: u16 = 30;
/// `RTNH_F_ONLINK`.
const ONLINK: u32 = 4;
/// The index of `lo` in every namespace (`LOOPBACK_IFINDEX`, net/flow.h).
const LOOPBACK: u32 = 1;
/// `struct rtnexthop`: length (2), flags (1), weight - 1 (1), interface (4).
const NEXTHOP_HEADER: usize = 8;
/// `ICMPV6_ROUTER_PREF_MEDIUM` (linux/icmpv6.h).
const PREF_MEDIUM: u8 = 0;

/// Builds an add.
pub(crate) fn add(requests: &mut Requests, route: &Route, placement: Placement) {
    let flags = libc::NLM_F_CREATE
        | match placement {
            Placement::Exclusive => libc::NLM_F_EXCL,
            Placement::Append => libc::NLM_F_APPEND,
        };
    add_with(requests, route, flags as u16);
}

/// Builds an add with other flags than those of a [`Placement`].
pub(crate) fn add_with(requests: &mut Requests, route: &Route, flags: u16) {
    requests.message(libc::RTM_NEWROUTE, flags, |requests| {
        let flags = if route.onlink { ONLINK } else { 0 };
        body(requests, route, flags);
        match &route.hop {
            None => {}
            Some(_) if is_by_object(route) => {}
            Some(hop) if hop.weight == 1 => {
                gateway(requests, route.family(), hop.via.as_ref());
                requests.number(libc::RTA_OIF, hop.dev);
            }
            Some(hop) => {
                requests.nested(libc::RTA_MULTIPATH, |requests| leg(requests, route, hop));
            }
        }
    });
}

/// Builds a delete that names all that the route is known by. (The metric 0 of IPv4 the kernel takes
/// for none: without a route of that metric it goes on to the next, `fib_nh_match` in
/// net/ipv4/fib_semantics.c.)
pub(crate) fn delete(requests: &mut Requests, route: &Route) {
    requests.message(libc::RTM_DELROUTE, 0, |requests| {
        body(requests, route, 0);
        match (route.family(), &route.hop) {
            _ if is_by_object(route) => {}
            // One object with all its legs, and no leg's hop matches the whole.
            (Family::V4, Some(_)) if route.part != Part::Whole => {}
            (Family::V4, None) => {}
            (Family::V4, Some(hop)) => {
                gateway(requests, Family::V4, hop.via.as_ref());
                requests.number(libc::RTA_OIF, hop.dev);
            }
            // Without a gateway the kernel takes the first route of the prefix by that device, and
            // with it its other legs; `::` stands for on-link. It does not look at the type: only
            // by its `lo` it knows a route that refuses (`ip6_route_del`, net/ipv6/route.c).
            (Family::V6, hop) => {
                let via = hop.and_then(|hop| hop.via);
                let via = via.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
                gateway(requests, Family::V6, Some(&via));
                requests.number(libc::RTA_OIF, hop.map_or(LOOPBACK, |hop| hop.dev));
            }
        }
    });
}

/// Builds the question for all routes of a family, or for those of one table.
pub(crate) fn dump(requests: &mut Requests, family: Family, table: Option<u32>) -> u32 {
    requests.message(libc::RTM_GETROUTE, libc::NLM_F_DUMP as u16, |requests| {
        requests.put(&[af(family), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        if let Some(table) = table {
            requests.number(libc::RTA_TABLE, table);
        }
    })
}

fn body(requests: &mut Requests, route: &Route, flags: u32) {
    let from = route.rest.get(libc::RTA_SRC).and_then(<[u8]>::split_last);
    let kind = match route.kind {
        RouteKind::Unicast => libc::RTN_UNICAST,
        RouteKind::Unreachable => libc::RTN_UNREACHABLE,
        RouteKind::Other(kind) => kind,
    };
    requests.put(&[
        af(route.family()),
        route.prefix.prefix_len(),
        from.map_or(0, |it| *it.0),
    ]);
    requests.put(&[route.tos, 0, route.protocol, route.scope, kind]);
    requests.put(&flags.to_ne_bytes());
    requests.number(libc::RTA_TABLE, route.table);
    if route.prefix.prefix_len() != 0 {
        requests.address(libc::RTA_DST, &route.prefix.addr());
    }
    if route.metric != 0 {
        requests.number(libc::RTA_PRIORITY, route.metric);
    }
    for (kind, payload) in route.rest.iter() {
        let payload = match (kind, from) {
            (libc::RTA_SRC, Some((_, address))) => address,
            _ => payload,
        };
        requests.attribute(kind, payload);
    }
}

/// Whether a next-hop object leads the route. The kernel shows what is in it, too, but refuses to be
/// told.
fn is_by_object(route: &Route) -> bool {
    route.rest.get(RTA_NH_ID).is_some()
}

/// The only leg of a multipath route: of a share other than 1 the kernel hears in no other way.
fn leg(requests: &mut Requests, route: &Route, hop: &Hop) {
    let mut inner = Requests::default();
    gateway(&mut inner, route.family(), hop.via.as_ref());
    let len = (NEXTHOP_HEADER + inner.len()) as u16;
    let flags = if route.onlink { ONLINK as u8 } else { 0 };
    let hops = u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(u8::MAX);
    requests.put(&len.to_ne_bytes());
    requests.put(&[flags, hops]);
    requests.put(&hop.dev.to_ne_bytes());
    requests.put(inner.bytes());
}

fn gateway(requests: &mut Requests, family: Family, via: Option<&IpAddr>) {
    match via {
        None => {}
        Some(via) if Family::of(via) == family => requests.address(libc::RTA_GATEWAY, via),
        // `struct rtvia`: the family, then the address.
        Some(via) => requests.nested(libc::RTA_VIA, |requests| {
            requests.put(&u16::from(af(Family::of(via))).to_ne_bytes());
            match via {
                IpAddr::V4(via) => requests.put(&via.octets()),
                IpAddr::V6(via) => requests.put(&via.octets()),
            }
        }),
    }
}

/// Reads a route of one of `tables` and puts it, leg by leg, behind `routes`. Routes of another
/// family, which a kernel without the family answers with, and cached ones are left out.
///
/// A source goes to [`Route::rest`] as `RTA_SRC` with its length behind the address, because the
/// kernel keeps the length in the message's head.
pub(crate) fn decode(
    payload: &[u8],
    family: Family,
    tables: &RangeInclusive<u32>,
    routes: &mut Vec<Route>,
) -> Result<(), Malformed> {
    let (head, attrs) = head::<12>(payload)?;
    let &[
        route_family,
        dst_len,
        src_len,
        tos,
        table,
        protocol,
        scope,
        kind,
        f0,
        f1,
        f2,
        f3,
    ] = head;
    let flags = u32::from_ne_bytes([f0, f1, f2, f3]);
    if route_family != af(family)
        || flags & libc::RTM_F_CLONED != 0
        || !tables.contains(&table_of(attrs.clone(), table)?)
    {
        return Ok(());
    }
    let mut route = Route {
        table: u32::from(table),
        prefix: family.default_prefix(),
        tos,
        metric: 0,
        kind: match kind {
            libc::RTN_UNICAST => RouteKind::Unicast,
            libc::RTN_UNREACHABLE => RouteKind::Unreachable,
            other => RouteKind::Other(other),
        },
        scope,
        protocol,
        hop: None,
        onlink: false,
        part: Part::Whole,
        rest: Attributes::NONE,
    };
    let mut hop = Hop {
        dev: 0,
        via: None,
        weight: 1,
    };
    let mut legs = None;
    let mut prefix = None;
    for attr in attrs {
        let (kind, payload) = attr?;
        match kind {
            libc::RTA_TABLE => route.table = read_u32(payload)?,
            libc::RTA_DST => prefix = Some(read_address(payload)?),
            libc::RTA_PRIORITY => route.metric = read_u32(payload)?,
            libc::RTA_OIF => hop.dev = read_u32(payload)?,
            libc::RTA_GATEWAY => hop.via = Some(read_address(payload)?),
            libc::RTA_VIA => hop.via = Some(read_via(payload)?),
            libc::RTA_MULTIPATH => legs = Some(payload),
            libc::RTA_SRC => {
                let mut payload = payload.to_vec();
                payload.push(src_len);
                route.rest.insert(libc::RTA_SRC, &payload);
            }
            libc::RTA_CACHEINFO | libc::RTA_PAD => {}
            libc::RTA_PREF if payload == [PREF_MEDIUM] => {}
            _ => route.rest.insert(kind, payload),
        }
    }
    route.prefix = match prefix {
        Some(prefix) => IpNet::new(prefix, dst_len)
            .map_err(|_| Malformed("a route's prefix is longer than its address"))?,
        None if dst_len == 0 => route.prefix,
        None => return Err(Malformed("a route's prefix has no address")),
    };
    if Family::of_net(&route.prefix) != family {
        return Err(Malformed(
            "a route's prefix is of another family than the route",
        ));
    }
    if let Some(legs) = legs {
        return read_legs(legs, &route, routes);
    }
    if leads_somewhere(kind) && (hop.dev != 0 || hop.via.is_some()) {
        route.hop = Some(hop);
        route.onlink = flags & ONLINK != 0;
    }
    routes.push(route);
    Ok(())
}

/// The table, which the kernel names first. The head holds numbers below 256 only.
fn table_of(attrs: Attrs<'_>, head: u8) -> Result<u32, Malformed> {
    for attr in attrs {
        if let (libc::RTA_TABLE, payload) = attr? {
            return read_u32(payload);
        }
    }
    Ok(u32::from(head))
}

/// Whether routes of the type lead to an interface. IPv6 shows `lo` for those that refuse.
fn leads_somewhere(kind: u8) -> bool {
    !matches!(
        kind,
        libc::RTN_UNREACHABLE | libc::RTN_BLACKHOLE | libc::RTN_PROHIBIT | libc::RTN_THROW
    )
}

fn read_via(payload: &[u8]) -> Result<IpAddr, Malformed> {
    payload
        .split_first_chunk::<2>()
        .ok_or(Malformed("a next hop of another family is cut short"))
        .and_then(|(_, address)| read_address(address))
}

fn read_legs(mut legs: &[u8], route: &Route, routes: &mut Vec<Route>) -> Result<(), Malformed> {
    const CUT_SHORT: Malformed = Malformed("a leg of a multipath route is cut short");

    let first = routes.len();
    while !legs.is_empty() {
        let &[l0, l1, flags, hops, d0, d1, d2, d3] =
            legs.first_chunk::<NEXTHOP_HEADER>().ok_or(CUT_SHORT)?;
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let attrs = Attrs(legs.get(NEXTHOP_HEADER..len).ok_or(CUT_SHORT)?);
        legs = legs.get(len.next_multiple_of(4)..).unwrap_or_default();

        let dev = u32::from_ne_bytes([d0, d1, d2, d3]);
        let mut hop = Hop {
            dev,
            via: None,
            weight: u16::from(hops) + 1,
        };
        let mut leg = route.clone();
        for attr in attrs {
            match attr? {
                (libc::RTA_GATEWAY, payload) => hop.via = Some(read_address(payload)?),
                (libc::RTA_VIA, payload) => hop.via = Some(read_via(payload)?),
                (kind, payload) => leg.rest.insert(kind, payload),
            }
        }
        leg.hop = Some(hop);
        leg.onlink = u32::from(flags) & ONLINK != 0;
        leg.part = if routes.len() == first {
            Part::First
        } else {
            Part::Further
        };
        routes.push(leg);
    }
    Ok(())
}
