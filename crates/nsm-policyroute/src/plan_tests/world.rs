//! A small world: what the kernel does, as far as plans can tell.

use super::super::*;
use nsm_netlink::Part;

pub(super) const OURS: u8 = 78;
pub(super) const FOREIGN: u8 = 4;

pub(super) fn owner() -> Owner {
    Owner {
        protocol: OURS.try_into().unwrap(),
        tables: "20000-20019".parse().unwrap(),
    }
}

/// Routes with the protocol that made them, in the kernel's order; a dump hides some of it.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) rules: Vec<Rule>,
    pub(super) routes: Vec<Route>,
}

impl World {
    /// What a dump shows: the legs of an IPv6 multipath route under the protocol of the first.
    pub(super) fn dump(&self) -> Actual {
        let mut routes = self.routes.clone();
        for i in 0..routes.len() {
            let siblings: Vec<usize> = (0..routes.len())
                .filter(|j| are_siblings(&self.routes[i], &self.routes[*j]))
                .collect();
            if siblings.len() > 1 {
                let first = siblings[0] == i;
                routes[i].part = if first { Part::First } else { Part::Further };
                routes[i].protocol = self.routes[siblings[0]].protocol;
            }
        }
        Actual {
            rules: self.rules.clone(),
            routes,
        }
    }

    /// Does what the kernel does, as far as plans can tell.
    pub(super) fn apply(&mut self, op: &Op) -> bool {
        match op {
            Op::AddRule(rule) => {
                if self.rules.contains(rule) {
                    return false;
                }
                let at = self.rules.iter().rposition(|other| {
                    (other.family(), other.priority) <= (rule.family(), rule.priority)
                });
                self.rules.insert(at.map_or(0, |at| at + 1), rule.clone());
                true
            }
            Op::DelRule(rule) => take(&mut self.rules, |other| other == rule).is_some(),
            Op::AddRoute(route, placement) => {
                let equals = |other: &Route| {
                    (other.table, other.prefix, other.metric)
                        == (route.table, route.prefix, route.metric)
                };
                let identical = |other: &Route| match route.family() {
                    Family::V4 => equals(other) && other.is_same_as(route),
                    Family::V6 => equals(other) && other.leads_as(route),
                };
                let exclusive = *placement == Placement::Exclusive;
                if self
                    .routes
                    .iter()
                    .any(|r| identical(r) || exclusive && equals(r))
                {
                    return false;
                }
                let sibling = self
                    .routes
                    .iter()
                    .rposition(|other| are_siblings(other, route));
                let at = sibling.map_or(self.routes.len(), |at| at + 1);
                self.routes.insert(
                    at,
                    Route {
                        part: Part::Whole,
                        ..route.clone()
                    },
                );
                true
            }
            Op::DelRoute(route) => {
                let same = |other: &Route| {
                    other.table == route.table
                        && other.prefix == route.prefix
                        && other.leads_as(route)
                        && other.protocol == OURS
                };
                take(&mut self.routes, same).is_some()
            }
        }
    }

    pub(super) fn ours(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| owner().owns_rule(rule))
    }

    pub(super) fn foreign(&self) -> (Vec<&Rule>, Vec<&Route>) {
        let rules = self
            .rules
            .iter()
            .filter(|rule| !owner().owns_rule(rule))
            .collect();
        let routes = self
            .routes
            .iter()
            .filter(|route| !owner().owns_route(route))
            .collect();
        (rules, routes)
    }

    pub(super) fn unicast<'a>(&'a self, rule: &'a Rule) -> impl Iterator<Item = &'a Route> {
        self.routes.iter().filter(|route| {
            (route.family(), route.table) == (rule.family(), rule.table)
                && route.kind == RouteKind::Unicast
        })
    }

    /// The prefixes that a selector's traffic finds a route for behind some rule of ours.
    pub(super) fn served(&self, selector: &Selector) -> BTreeSet<IpNet> {
        let policy = |rule: &&Rule| rule.is_plain() && rule.selector == *selector;
        let rules = self.ours().filter(policy);
        rules
            .flat_map(|rule| self.unicast(rule))
            .map(|route| route.prefix)
            .collect()
    }
}

pub(super) fn take<T>(list: &mut Vec<T>, which: impl Fn(&T) -> bool) -> Option<T> {
    list.iter().position(which).map(|at| list.remove(at))
}

pub(super) fn are_siblings(a: &Route, b: &Route) -> bool {
    let gateway = |route: &Route| route.hop.is_some_and(|hop| hop.via.is_some());
    a.family() == Family::V6
        && (a.table, a.prefix, a.metric) == (b.table, b.prefix, b.metric)
        && gateway(a)
        && gateway(b)
}
