//! What stands in the kernel, indexed for the planner.

use nsm_netlink::{Family, Owner, Route, RouteKind, Rule, Selector};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One reading of a namespace: all rules, and all routes of our tables, whoever made them.
#[derive(Debug, Clone, Default)]
pub struct Actual {
    /// In the order in which they are asked, IPv4 first.
    pub rules: Vec<Rule>,
    /// In the order of the dump: of equal prefix and metric the first is taken.
    pub routes: Vec<Route>,
}

/// A table of one family.
pub type Place = (Family, u32);

/// A reading with its indexes.
#[derive(Debug)]
pub struct View<'a> {
    /// Who we are.
    pub owner: Owner,
    /// The reading itself.
    pub actual: &'a Actual,
    ours: BTreeMap<&'a Selector, Vec<&'a Rule>>,
    lookups: HashMap<Place, Vec<&'a Rule>>,
    routes: HashMap<Place, Vec<&'a Route>>,
    used: BTreeSet<u32>,
}

impl<'a> View<'a> {
    /// Indexes a reading.
    pub fn new(actual: &'a Actual, owner: Owner) -> Self {
        let mut view = Self {
            owner,
            actual,
            ours: BTreeMap::new(),
            lookups: HashMap::new(),
            routes: HashMap::new(),
            used: BTreeSet::new(),
        };
        for rule in &actual.rules {
            view.lookups
                .entry((rule.family(), rule.table))
                .or_default()
                .push(rule);
            view.used.insert(rule.table);
            if owner.owns_rule(rule) && rule.is_plain() {
                view.ours.entry(&rule.selector).or_default().push(rule);
            }
        }
        for route in &actual.routes {
            view.routes
                .entry((route.family(), route.table))
                .or_default()
                .push(route);
            view.used.insert(route.table);
        }
        view
    }

    /// Our rules of exactly this selector, in the order in which they are asked.
    pub fn rules_of(&self, selector: &Selector) -> &[&'a Rule] {
        self.ours.get(selector).map_or(&[], Vec::as_slice)
    }

    /// All our rules.
    pub fn our_rules(&self) -> impl Iterator<Item = &'a Rule> {
        let owner = self.owner;
        self.actual
            .rules
            .iter()
            .filter(move |rule| owner.owns_rule(rule))
    }

    /// All rules that look up a table.
    pub fn lookups(&self, place: Place) -> &[&'a Rule] {
        self.lookups.get(&place).map_or(&[], Vec::as_slice)
    }

    /// All routes of a table.
    pub fn routes(&self, place: Place) -> &[&'a Route] {
        self.routes.get(&place).map_or(&[], Vec::as_slice)
    }

    /// The tables that hold routes.
    pub fn filled(&self) -> impl Iterator<Item = Place> {
        self.routes.keys().copied()
    }

    /// Whether a rule or a route of either family has to do with a table.
    pub fn is_used(&self, table: u32) -> bool {
        self.used.contains(&table)
    }

    /// Whether a route is ours, or may be: a further leg of an IPv6 multipath route hides its mark.
    pub fn may_be_ours(&self, route: &Route) -> bool {
        if route.mark_is_known() {
            self.owner.owns_route(route)
        } else {
            self.owner.tables.contains(route.table)
        }
    }

    /// The tables that hold routes that are or may be ours, and that no rule of ours looks up.
    pub fn orphans(&self, is_foreign: impl Fn(&Route) -> bool) -> BTreeSet<Place> {
        let ours = |route: &&Route| self.may_be_ours(route) && !is_foreign(route);
        let places = self.routes.iter().filter(|(place, routes)| {
            let looked_up = self
                .lookups(**place)
                .iter()
                .any(|rule| self.owner.owns_rule(rule));
            !looked_up && routes.iter().any(ours)
        });
        places.map(|(place, _)| *place).collect()
    }

    /// The tables whose routes of ours all leave by one interface.
    ///
    /// Without a rule they are nobody's but that of the connection which has the interface.
    pub fn left_to(&self, dev: Option<u32>) -> impl Iterator<Item = Place> {
        let leaves = move |route: &&Route| {
            !self.may_be_ours(route) || route.kind != RouteKind::Unicast || route.dev() == dev
        };
        let places = self.routes.iter().filter(move |_| dev.is_some());
        places
            .filter(move |(_, routes)| routes.iter().all(&leaves))
            .map(|(place, _)| *place)
    }

    /// Our unicast routes in the table of a rule. A rule without any is *dead*.
    pub fn served_by(&self, rule: &Rule) -> impl Iterator<Item = &'a Route> {
        self.routes((rule.family(), rule.table))
            .iter()
            .copied()
            .filter(|route| route.kind == RouteKind::Unicast && self.may_be_ours(route))
    }

    /// Whether a table is looked up by a rule of ours with another selector than this.
    pub fn is_shared(&self, place: Place, selector: &Selector) -> bool {
        self.lookups(place).iter().any(|rule| {
            self.owner.owns_rule(rule) && !(rule.is_plain() && rule.selector == *selector)
        })
    }
}
