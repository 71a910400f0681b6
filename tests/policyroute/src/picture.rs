use nsm_netlink::{Family, Kernel, Link, Owner, Part, Route, RouteKind, Rule};
use std::collections::BTreeSet;
use std::fmt;

/// All rules and routes of a namespace.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// In the order in which they are asked, IPv4 first.
    pub rules: Vec<Rule>,
    /// In the order of a dump, IPv4 first.
    pub routes: Vec<Route>,
}

impl Snapshot {
    /// Reads a namespace.
    pub fn of(kernel: &mut impl Kernel) -> Self {
        let rules = Family::ALL.map(|family| kernel.rules(family).unwrap().items);
        let tables = 0..=u32::MAX;
        let routes = Family::ALL.map(|family| kernel.routes(family, tables.clone()).unwrap().items);
        Self {
            rules: rules.concat(),
            routes: routes.concat(),
        }
    }

    /// What others than an owner have made.
    #[must_use]
    pub fn without(&self, owner: Owner) -> Self {
        let rules = self.rules.iter().filter(|rule| !owner.owns_rule(rule));
        let routes = self.routes.iter().filter(|route| !owner.owns_route(route));
        Self {
            rules: rules.cloned().collect(),
            routes: routes.cloned().collect(),
        }
    }

    /// What an owner has made, a line for each rule with its table:
    /// `31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-0`. Tables that no rule of
    /// the owner's looks up are last: `20001: default dev nsm-0`.
    pub fn lines(&self, owner: Owner, links: &[Link]) -> Vec<String> {
        let rules = || self.rules.iter().filter(|rule| owner.owns_rule(rule));
        let routes = || self.routes.iter().filter(|route| owner.owns_route(route));
        let place = |route: &Route| (route.family(), route.table);
        let table = |at: (Family, u32)| {
            let inside = routes().filter(|route| place(route) == at);
            let lines: Vec<String> = inside.map(|route| line(route, links)).collect();
            format!("{}: {}", at.1, lines.join(", "))
        };
        let looked_up: BTreeSet<_> = rules().map(|rule| (rule.family(), rule.table)).collect();
        let filled: BTreeSet<_> = routes().map(place).collect();

        let with_rules = rules().map(|rule| {
            let at = (rule.family(), rule.table);
            format!("{}: {} -> {}", rule.priority, rule.selector, table(at))
        });
        let without = filled.difference(&looked_up).map(|at| table(*at));
        with_rules.chain(without).collect()
    }
}

/// As `ip rule show` and `ip route show table all` print it.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules.iter().map(ToString::to_string);
        let routes = self.routes.iter();
        let routes = routes.map(|route| route.display(|_| None).to_string());
        f.debug_list().entries(rules.chain(routes)).finish()
    }
}

/// A route as in `ip route show`, without what all routes of policies have in common.
fn line(route: &Route, links: &[Link]) -> String {
    let mut line = String::new();
    match route.kind {
        RouteKind::Unicast => {}
        RouteKind::Unreachable => line.push_str("unreachable "),
        RouteKind::Other(kind) => line.push_str(&format!("kind {kind} ")),
    }
    if route.prefix.prefix_len() == 0 {
        line.push_str("default");
    } else {
        line.push_str(&route.prefix.to_string());
    }
    if let Some(hop) = route.hop {
        if let Some(via) = hop.via {
            line.push_str(&format!(" via {via}"));
        }
        let name = links.iter().find(|link| link.index == hop.dev);
        let name = name.map_or("?", |link| &link.name);
        line.push_str(&format!(" dev {name}"));
    }
    if route.part != Part::Whole {
        line.push_str(" as leg");
    }
    line
}
