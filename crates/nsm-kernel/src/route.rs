//! Which routes an end gets, and how they come to stand beside those of others: pure.

use crate::mark::Ours;
use crate::wanted::{Invalid, entry, limit, parse_net};
use ipnet::IpNet;
use nsm_api::connectioncontext::Route as ApiRoute;
use nsm_netlink::{Family, Part, Route};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// `RT_TABLE_MAIN`.
pub const MAIN: u32 = 254;

/// Next hops by prefix; `None` is on-link.
pub type Routes = BTreeMap<IpNet, Option<IpAddr>>;

/// The routes of an end, as the mesh's components derive them from the context.
///
/// There is a route on-link to each address of the other end that no network of ours holds. A route
/// that names no next hop has the other end's first address of its family, unless its prefix begins
/// in one of the other end's networks: then it is on-link. Of two routes of one prefix the later
/// counts.
///
/// # Errors
/// The first route that makes no sense.
pub fn derive(
    list: &'static str,
    given: &[ApiRoute],
    own: &[IpNet],
    other: &[IpNet],
) -> Result<Routes, Invalid> {
    limit(list, given.len())?;
    let mut routes = Routes::new();
    for net in other {
        let address = net.addr();
        if !own.iter().any(|own| own.contains(&address)) {
            routes.insert(IpNet::from(address), None);
        }
    }
    for (index, route) in given.iter().enumerate() {
        let prefix = parse_net(&route.prefix);
        let prefix = prefix.ok_or_else(|| entry(list, index, &route.prefix, "it is no prefix"))?;
        // The address as it is written decides what it begins in, not the one without host bits.
        let via = match explicit_next_hop(&route.next_hop, prefix) {
            Ok(Some(via)) => via,
            Ok(None) => implicit_next_hop(prefix, other),
            Err(reason) => return Err(entry(list, index, &route.next_hop, reason)),
        };
        routes.insert(prefix.trunc(), via);
    }
    Ok(routes)
}

/// The next hop that a route names, `Some(None)` where it says on-link.
fn explicit_next_hop(text: &str, prefix: IpNet) -> Result<Option<Option<IpAddr>>, &'static str> {
    if text.is_empty() {
        return Ok(None);
    }
    let via: IpAddr = text.parse().map_err(|_| "it is no address")?;
    if Family::of(&via) != Family::of_net(&prefix) {
        return Err("it is of another family than the prefix");
    }
    if via.is_unspecified() {
        return Ok(Some(None));
    }
    if via.is_multicast() || via.is_loopback() {
        return Err("no next hop can have it");
    }
    Ok(Some(Some(via)))
}

fn implicit_next_hop(prefix: IpNet, other: &[IpNet]) -> Option<IpAddr> {
    if other.iter().any(|net| net.contains(&prefix.addr())) {
        return None;
    }
    let family = Family::of_net(&prefix);
    let fitting = other.iter().find(|net| Family::of_net(net) == family);
    fitting.map(IpNet::addr)
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Adds a route in front of those of its prefix and metric.
    AddInFront(Route),
    /// Adds a route, unless one of its prefix and metric stands.
    Add(Route),
    /// Removes a route of ours.
    Remove(Route),
}

/// That every metric before those of others is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hidden(pub IpNet);

/// What makes the routes of an interface as they are wanted. `standing` is the main table in the
/// order of the dump.
///
/// A route of ours stands beside one of others and comes before it, so that theirs is never
/// touched, and is taken again when ours is gone, in whatever way: in IPv4 in front of it at the
/// same metric, in IPv6, where that would make one multipath route of both, at a lower one.
/// Between connections the later comes first, and stays there.
///
/// # Errors
/// [`Hidden`] when a route of others has the lowest metric there is.
pub fn plan(
    wanted: &Routes,
    dev: u32,
    ours: Ours,
    standing: &[Route],
) -> Result<Vec<Step>, Hidden> {
    let mut steps = Vec::new();
    let mut kept = Vec::new();
    let is_ours = |route: &Route| route.protocol == ours.protocol() && route.mark_is_known();
    for (prefix, via) in wanted {
        let route = Route::unicast(MAIN, *prefix, dev, *via, ours.protocol());
        let peers: Vec<&Route> = standing
            .iter()
            .filter(|other| other.prefix == *prefix && other.tos == 0)
            .collect();
        match route.family() {
            Family::V4 => {
                let same = peers.iter().position(|other| leads_as(&route, other));
                let foreign = peers
                    .iter()
                    .position(|other| other.metric == 0 && !is_ours(other));
                match (same, foreign) {
                    // It stands, by whomever, and nothing is before it.
                    (Some(same), foreign) if foreign.is_none_or(|foreign| same <= foreign) => {
                        kept.push(peers[same]);
                    }
                    (same, _) => {
                        // An equal route cannot be added twice. It is not taken now, anyway.
                        let behind = same.map(|same| peers[same]).filter(|same| is_ours(same));
                        steps.extend(behind.cloned().map(Step::Remove));
                        kept.extend(behind);
                        steps.push(Step::AddInFront(route));
                    }
                }
            }
            Family::V6 => match seat6(&route, &peers, is_ours) {
                Seat::Kept(standing) => kept.push(standing),
                Seat::At(metric) => steps.push(Step::Add(Route { metric, ..route })),
                Seat::None => return Err(Hidden(*prefix)),
            },
        }
    }
    // What stood goes when what is wanted stands.
    let left = standing.iter().filter(|route| {
        is_ours(route)
            && route.dev() == Some(dev)
            && route.part == Part::Whole
            && !kept.contains(route)
    });
    steps.extend(left.cloned().map(Step::Remove));
    Ok(steps)
}

/// Whether a standing route leads where ours is to lead.
fn leads_as(route: &Route, standing: &Route) -> bool {
    route.leads_as(standing) && standing.part == Part::Whole && standing.rest == route.rest
}

enum Seat<'a> {
    Kept(&'a Route),
    At(u32),
    None,
}

/// Where an IPv6 route of ours stands or goes: at a metric of its own below those of others.
fn seat6<'a>(route: &Route, peers: &[&'a Route], is_ours: impl Fn(&Route) -> bool) -> Seat<'a> {
    let by_us = |other: &&&Route| other.dev() == route.dev();
    let others = peers
        .iter()
        .filter(|other| !is_ours(other) && !by_us(other));
    let highest = match others.map(|other| other.metric).min() {
        Some(lowest) => lowest.saturating_sub(1).min(Family::V6.default_metric()),
        None => Family::V6.default_metric(),
    };
    let alone = |at: &Route| {
        peers
            .iter()
            .filter(|other| other.metric == at.metric)
            .count()
            == 1
    };
    let standing = peers.iter().find(|other| {
        let at = Route {
            metric: other.metric,
            ..route.clone()
        };
        leads_as(&at, other) && other.metric <= highest && alone(other)
    });
    if let Some(standing) = standing {
        return Seat::Kept(standing);
    }
    let taken = |metric: &u32| peers.iter().any(|other| other.metric == *metric);
    match (1..=highest).rev().find(|metric| !taken(metric)) {
        Some(metric) => Seat::At(metric),
        None => Seat::None,
    }
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
