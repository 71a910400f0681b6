//! The content of one table: what is missing in it, and what must go.

use crate::actual::View;
use crate::desired::Desired;
use crate::plan::Goal;
use nsm_netlink::{Family, Part, Route, RouteKind};

/// How a table becomes what is desired.
#[derive(Debug, Default)]
pub struct Edit {
    /// Routes to be added, the `unreachable` ones first.
    pub add: Vec<Route>,
    /// Routes to be deleted, the `unreachable` ones last.
    pub delete: Vec<Route>,
    /// Whether something that is desired stands already.
    pub stands: bool,
    /// Whether a route of ours stays that is not desired.
    pub extra: bool,
    /// Whether twins refuse what no route takes.
    pub refuses: bool,
}

impl Edit {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.delete.is_empty()
    }

    /// Whether the table will serve its rule once the additions are made, be it by a refusal.
    pub fn serves(&self) -> bool {
        self.stands
            || self.refuses
            || self
                .add
                .iter()
                .any(|route| route.kind == RouteKind::Unicast)
    }
}

/// Compares a table with what is desired of it.
///
/// A route of ours that no claim names goes when a claim wants its prefix otherwise, when it leaves
/// by the interface of a claimant, or when whoever asked for it has just stopped asking. Any other
/// stays: it harms nobody and goes with its rule or its link.
pub fn edit(desired: &Desired, table: u32, goal: &Goal<'_>, view: &View<'_>) -> Edit {
    let have = view.routes((desired.family(), table));
    let protocol = view.owner.protocol.get();
    let routes: Vec<Route> = desired.routes(table, protocol).collect();
    let twins: Vec<Route> = desired
        .prefixes
        .iter()
        .filter(|_| goal.fail_closed)
        .map(|prefix| Route::unreachable(table, *prefix, protocol))
        .collect();
    let missing = |wanted: &&Route| !have.iter().any(|route| is_there(route, wanted));

    let mut edit = Edit {
        add: twins
            .iter()
            .chain(&routes)
            .filter(missing)
            .cloned()
            .collect(),
        stands: routes.iter().any(|route| !missing(&route)),
        delete: Vec::new(),
        extra: false,
        refuses: !twins.is_empty(),
    };
    for route in have.iter().copied() {
        if !view.may_be_ours(route)
            || goal.is_known_foreign(route)
            || routes
                .iter()
                .chain(&twins)
                .any(|wanted| is_there(route, wanted))
        {
            continue;
        }
        let wanted_otherwise = desired.content.contains_key(&route.prefix);
        let goes = match route.kind {
            // Somebody wants the prefix and waits for its interface: until then nothing is better.
            RouteKind::Unicast if !wanted_otherwise && desired.prefixes.contains(&route.prefix) => {
                false
            }
            RouteKind::Unicast => {
                wanted_otherwise
                    || route.dev().is_some_and(|dev| desired.devs.contains(&dev))
                    || goal.has_just_ended(&desired.selector, route)
            }
            RouteKind::Unreachable | RouteKind::Other(_) => wanted_otherwise,
        };
        if goes {
            edit.delete.push(route.clone());
        } else {
            edit.extra = true;
        }
    }
    delete_lone_twins(&mut edit, desired, have, view);
    edit
}

/// A twin refuses what its route no longer takes. Without a claim and a route it would refuse for
/// nobody.
fn delete_lone_twins(edit: &mut Edit, desired: &Desired, have: &[&Route], view: &View<'_>) {
    let deleted = edit.delete.clone();
    let lone = have.iter().filter(|twin| {
        twin.kind == RouteKind::Unreachable
            && view.may_be_ours(twin)
            && !desired.prefixes.contains(&twin.prefix)
            && !have.iter().any(|route| {
                route.prefix == twin.prefix
                    && route.kind == RouteKind::Unicast
                    && !deleted.contains(route)
            })
    });
    edit.delete.extend(lone.map(|twin| (*twin).clone()));
    edit.delete
        .sort_by_key(|route| route.kind == RouteKind::Unreachable);
}

/// Whether a route that stands does for one that is wanted.
fn is_there(route: &Route, wanted: &Route) -> bool {
    match wanted.family() {
        // The kernel refuses a second route of equal prefix, metric, interface and next hop,
        // whoever made the first (fib6_add_rt2node in net/ipv6/ip6_fib.c).
        Family::V6 => route.prefix == wanted.prefix && route.leads_as(wanted),
        // A leg of an IPv4 multipath route takes a share of the traffic only.
        Family::V4 => route.part == Part::Whole && route.is_same_as(wanted),
    }
}
