//! What stands in the pod at one moment, and what of it is whose.

use crate::wants::last_priority;
use ipnet::IpNet;
use nsm_netlink::{
    Action, Family, Kernel, KernelError, Link, Owner, Part, Route, RouteKind, Rule, Selector,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

/// `RTPROT_KERNEL`: routes that come and go with addresses.
const KERNEL: u8 = 2;

/// A table of one family.
pub type Place = (Family, u32);

/// A leg of a route: table, destination, interface, next hop.
pub type Leg = (u32, IpNet, u32, Option<IpAddr>);

/// The leg that a route is.
pub fn leg(route: &Route) -> Option<Leg> {
    let hop = route.hop?;
    Some((route.table, route.prefix, hop.dev, hop.via))
}

/// Whether a dump hides who made a route: the legs of an IPv6 route are shown under one mark.
pub fn is_hidden(route: &Route) -> bool {
    route.family() == Family::V6 && route.part == Part::Further
}

/// Everything in the pod, but the kernel's own routes.
#[derive(Debug, Clone)]
pub struct Picture {
    /// In the order in which they are asked, IPv4 first.
    pub rules: Vec<Rule>,
    /// In the order of the dump, IPv4 first.
    pub routes: Vec<Route>,
    /// The links.
    pub links: Rc<[Link]>,
    /// The IPv6 legs that somebody else has made: a dump does not tell, the world remembers.
    pub foreign_legs: Rc<BTreeSet<Leg>>,
}

/// Whether a rule works, which an element cannot always tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// No unicast route of ours in its table.
    Dead,
    /// At least one.
    Alive,
    /// There are legs that may be ours and are not.
    Unclear,
}

impl Picture {
    /// Takes a picture.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn take(
        kernel: &mut impl Kernel,
        foreign_legs: &Rc<BTreeSet<Leg>>,
    ) -> Result<Self, KernelError> {
        let links = kernel.links()?.into();
        let mut picture = Self {
            rules: Vec::new(),
            routes: Vec::new(),
            links,
            foreign_legs: Rc::clone(foreign_legs),
        };
        for family in Family::ALL {
            picture.rules.append(&mut kernel.rules(family)?.items);
            let routes = kernel.routes(family, 0..=u32::MAX)?.items.into_iter();
            picture
                .routes
                .extend(routes.filter(|route| route.protocol != KERNEL));
        }
        Ok(picture)
    }

    /// The index of a link that can be used: it is there and up.
    pub fn usable(&self, name: &str) -> Option<u32> {
        let link = self.links.iter().find(|link| link.name == name)?;
        link.up.then_some(link.index)
    }

    /// The index of a link, in whatever state.
    pub fn dev(&self, name: &str) -> Option<u32> {
        self.links
            .iter()
            .find(|link| link.name == name)
            .map(|link| link.index)
    }

    /// The name of a link.
    pub fn link_name(&self, index: u32) -> Option<String> {
        self.links
            .iter()
            .find(|link| link.index == index)
            .map(|link| link.name.clone())
    }

    /// The rules of an element.
    pub fn own_rules(&self, owner: Owner) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| owner.owns_rule(rule))
    }

    /// The rules of an element for one policy, in the order in which they are asked.
    pub fn rules_of(&self, owner: Owner, selector: &Selector) -> Vec<&Rule> {
        self.own_rules(owner)
            .filter(|rule| rule.is_plain() && rule.selector == *selector)
            .collect()
    }

    /// All rules that look up a table.
    pub fn lookups(&self, place: Place) -> impl Iterator<Item = &Rule> {
        self.rules
            .iter()
            .filter(move |rule| (rule.family(), rule.table) == place)
    }

    /// All routes of a table.
    pub fn routes_in(&self, place: Place) -> impl Iterator<Item = &Route> {
        self.routes
            .iter()
            .filter(move |route| (route.family(), route.table) == place)
    }

    /// Whether a route is an element's.
    pub fn is_own(&self, owner: Owner, route: &Route) -> bool {
        if route.family() == Family::V6 && route.part != Part::Whole {
            let foreign = leg(route).is_some_and(|leg| self.foreign_legs.contains(&leg));
            owner.tables.contains(route.table) && !foreign
        } else {
            owner.owns_route(route)
        }
    }

    /// The routes of an element in a table.
    pub fn own_routes(&self, owner: Owner, place: Place) -> impl Iterator<Item = &Route> {
        self.routes_in(place)
            .filter(move |route| self.is_own(owner, route))
    }

    /// The unicast routes of an element in a table.
    pub fn own_ways(&self, owner: Owner, place: Place) -> impl Iterator<Item = &Route> {
        self.own_routes(owner, place)
            .filter(|route| route.kind == RouteKind::Unicast)
    }

    /// Whether a rule works.
    pub fn life(&self, owner: Owner, rule: &Rule) -> Life {
        let place = (rule.family(), rule.table);
        if self.own_ways(owner, place).next().is_some() {
            Life::Alive
        } else if self.routes_in(place).any(is_hidden) {
            Life::Unclear
        } else {
            Life::Dead
        }
    }

    /// Whether traffic of a policy to a prefix takes a route of ours.
    pub fn serves(&self, owner: Owner, selector: &Selector, prefix: &IpNet) -> bool {
        let mut rules = self.rules_of(owner, selector).into_iter();
        rules.any(|rule| {
            let mut ways = self.own_ways(owner, (rule.family(), rule.table));
            ways.any(|route| route.prefix == *prefix)
        })
    }

    /// Whether a rule or a route of either family has to do with a table.
    pub fn is_used(&self, table: u32) -> bool {
        self.rules.iter().any(|rule| rule.table == table)
            || self.routes.iter().any(|route| route.table == table)
    }

    /// The rules that are left of a probe: they are nobody's objects.
    pub fn probes(&self, owner: Owner) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| is_probe(rule, owner))
    }

    /// What is neither of these elements', as lines that are equal where nothing has changed.
    pub fn foreign(&self, owners: &[Owner]) -> BTreeMap<Family, (Vec<String>, Vec<String>)> {
        let family = |family: Family| {
            let ours = |rule: &Rule| {
                owners
                    .iter()
                    .any(|owner| owner.owns_rule(rule) || is_probe(rule, *owner))
            };
            let rules = self
                .rules
                .iter()
                .filter(|rule| rule.family() == family && !ours(rule));
            let ours = |route: &Route| owners.iter().any(|owner| self.is_own(*owner, route));
            let routes = self.routes.iter().filter(|route| route.family() == family);
            let mut routes: Vec<String> = routes
                .filter(|route| !ours(route))
                .map(|route| self.line(route))
                .collect();
            if family == Family::V6 {
                // Legs turn round when one of them goes.
                routes.sort();
            }
            (rules.map(ToString::to_string).collect(), routes)
        };
        Family::ALL.map(|it| (it, family(it))).into()
    }

    /// A route as a line, without what a dump says of the other legs.
    fn line(&self, route: &Route) -> String {
        let mut route = route.clone();
        if let (Family::V6, Some(hop)) = (route.family(), &mut route.hop)
            && hop.via.is_some()
        {
            hop.weight = 1;
            route.part = Part::Whole;
            route.protocol = 0;
        }
        self.print(&route)
    }

    /// A route as `ip route show` prints it.
    pub fn print(&self, route: &Route) -> String {
        route.display(|index| self.link_name(index)).to_string()
    }
}

/// Whether a rule is the one that makes IPv6 sockets look again.
pub fn is_probe(rule: &Rule, owner: Owner) -> bool {
    rule.action == Action::Nop
        && rule.protocol == owner.protocol.get()
        && rule.priority == last_priority()
        && rule
            .selector
            .from
            .is_some_and(|net| net.to_string() == "100::/64")
}
