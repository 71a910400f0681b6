//! What is asked of a route, before anything else is looked at, and how it is stored.

use super::links::LOOPBACK;
use super::refuse;
use super::state::MAIN;
use crate::{Errno, Family, Part, Refusal, Route, RouteKind};
use nix::libc;

/// `RTN_*` of routes that refuse, `throw` included: they lead nowhere.
const REFUSING: std::ops::RangeInclusive<u8> = libc::RTN_BLACKHOLE..=libc::RTN_THROW;
const RTN_MAX: u8 = libc::RTN_XRESOLVE;

pub(super) fn number(kind: RouteKind) -> u8 {
    match kind {
        RouteKind::Unicast => libc::RTN_UNICAST,
        RouteKind::Unreachable => libc::RTN_UNREACHABLE,
        RouteKind::Other(number) => number,
    }
}

pub(super) fn refuses(kind: RouteKind) -> bool {
    REFUSING.contains(&number(kind))
}

/// The interface that an IPv6 route hangs on. One that refuses hangs on `lo` and goes with it.
pub(super) fn device6(route: &Route) -> Option<u32> {
    if refuses(route.kind) {
        Some(LOOPBACK)
    } else {
        route.dev()
    }
}

/// What a route may not have here, because it would be stored and not heeded. `RTA_NH_ID` is 30.
const NOT_MODELLED: [u16; 4] = [libc::RTA_SRC, libc::RTA_ENCAP_TYPE, libc::RTA_ENCAP, 30];

pub(super) fn unmodelled() -> Refusal {
    refuse(Errno::EOPNOTSUPP, "the fake kernel has no such routes")
}

pub(super) fn invalid(text: &str) -> Refusal {
    refuse(Errno::EINVAL, text)
}

/// What is done with a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Add,
    /// Adds it as a leg (`RTA_MULTIPATH`).
    AddLeg,
    Delete,
}

/// What is refused before the table is looked at (`rtm_to_fib_config`, `rtm_to_fib6_config`).
pub(super) fn check_request(route: &Route, request: Request) -> Result<(), Refusal> {
    if NOT_MODELLED
        .iter()
        .any(|kind| route.rest.get(*kind).is_some())
    {
        return Err(unmodelled());
    }
    let bad_kind = number(route.kind) > RTN_MAX;
    let on_link = route.hop.is_none_or(|hop| hop.via.is_none());
    match route.family() {
        Family::V4 if route.tos & 0x03 != 0 => {
            Err(invalid("Invalid dsfield (tos): ECN bits must be 0"))
        }
        Family::V4 if bad_kind => Err(invalid("Invalid route type")),
        Family::V4 if route.prefix != route.prefix.trunc() => {
            Err(invalid("Invalid prefix for given prefix length"))
        }
        Family::V6 if route.tos != 0 => Err(invalid(
            "Invalid dsfield (tos): option not available for IPv6",
        )),
        Family::V6 if request == Request::AddLeg && on_link => Err(invalid(
            "Device only routes can not be added for IPv6 using the multipath API.",
        )),
        Family::V6 if request != Request::Delete && bad_kind => Err(invalid("Invalid route type")),
        _ => Ok(()),
    }
}

/// A route that is added, as it is stored.
pub(super) fn normal(mut route: Route) -> Route {
    if route.table == 0 {
        route.table = MAIN;
    }
    if route.family() == Family::V6 {
        route.prefix = route.prefix.trunc();
        route.scope = 0;
        if route.metric == 0 {
            route.metric = Family::V6.default_metric();
        }
        if route.kind == RouteKind::Other(libc::RTN_UNSPEC) {
            route.kind = RouteKind::Unicast;
        }
        // `ip6_route_info_create` knows no route of nobody's.
        if route.protocol == libc::RTPROT_UNSPEC {
            route.protocol = libc::RTPROT_BOOT;
        }
    }
    route.part = Part::Whole;
    route.hop = route
        .hop
        .filter(|hop| hop.dev != 0 || hop.via.is_some() || hop.weight != 1);
    if let Some(hop) = &mut route.hop {
        hop.weight = hop.weight.clamp(1, 256);
    }
    route
}
