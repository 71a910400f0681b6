//! What stands in a namespace at one moment, and how two moments differ.

use crate::print;
use crate::problem::Problem;
use ipnet::IpNet;
use nsm_netlink::{
    Dump, Family, Kernel, KernelError, Link, Namespace, Owner, Part, Route, RouteKind, Rule,
};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// `RTPROT_KERNEL`: routes that come and go with addresses, by the kernel's own doing.
const KERNEL: u8 = 2;

/// Rules and routes of both families, all tables, without the kernel's own routes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// The rules of each family in the order in which they are asked, IPv4 first.
    pub rules: Vec<Rule>,
    /// The routes, each leg of a multipath route for itself.
    pub routes: Vec<Route>,
    /// The links.
    pub links: Vec<Link>,
}

impl Picture {
    /// Takes a picture.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn take(namespace: &impl Namespace) -> Result<Self, KernelError> {
        let mut kernel = namespace.open()?;
        let mut picture = Self {
            links: kernel.links()?,
            ..Self::default()
        };
        for family in Family::ALL {
            picture.rules.extend(rules(&mut kernel, family)?);
            let routes = kernel.routes(family, 0..=u32::MAX)?.items;
            picture
                .routes
                .extend(routes.into_iter().filter(|route| route.protocol != KERNEL));
        }
        Ok(picture)
    }

    /// A link by its name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The name of a link, as long as there is such a link.
    pub fn link_name(&self, index: u32) -> Option<&str> {
        self.links
            .iter()
            .find(|link| link.index == index)
            .map(|link| link.name.as_str())
    }

    /// The rules of ours.
    pub fn own_rules(&self, ours: &Ours) -> Vec<&Rule> {
        self.rules.iter().filter(|rule| ours.rule(rule)).collect()
    }

    /// The routes of ours.
    pub fn own_routes(&self, ours: &Ours) -> Vec<&Route> {
        self.routes
            .iter()
            .filter(|route| ours.route(self, route))
            .collect()
    }

    /// The routes that a rule looks up.
    pub fn routes_in(&self, family: Family, table: u32) -> impl Iterator<Item = &Route> {
        self.routes
            .iter()
            .filter(move |route| route.table == table && route.family() == family)
    }
}

/// A rule dump of several reads may lack rules when they change meanwhile, and does not say so:
/// two that agree are taken as right.
fn rules(kernel: &mut impl Kernel, family: Family) -> Result<Vec<Rule>, KernelError> {
    const ATTEMPTS: usize = 5;
    let mut dump = kernel.rules(family)?;
    for _ in 0..ATTEMPTS {
        if dump.reads <= 1 {
            break;
        }
        let again = kernel.rules(family)?;
        let same = again.items == dump.items;
        dump = again;
        if same {
            break;
        }
    }
    let Dump { items, .. } = dump;
    Ok(items)
}

/// What connections of the file have asked for: prefix, next hop and the link's name.
pub type Asked = BTreeSet<(IpNet, Option<IpAddr>, String)>;

/// What is ours: of one element, or of several.
#[derive(Debug, Clone, Default)]
pub struct Ours {
    /// The marks of the elements.
    pub owners: Vec<Owner>,
    /// What they have been asked for.
    pub asked: Asked,
}

impl Ours {
    /// Whether a rule is ours.
    pub fn rule(&self, rule: &Rule) -> bool {
        self.owners.iter().any(|owner| owner.owns_rule(rule))
    }

    /// Whether a route is ours. The legs of an IPv6 multipath route are shown under one protocol,
    /// so there it is ours when somebody has asked for it.
    pub fn route(&self, picture: &Picture, route: &Route) -> bool {
        if !is_ipv6_leg(route) {
            return self.owners.iter().any(|owner| owner.owns_route(route));
        }
        let in_range = |owner: &Owner| owner.tables.contains(route.table);
        let asked = route.hop.and_then(|hop| {
            let link = picture.link_name(hop.dev)?.to_owned();
            Some(self.asked.contains(&(route.prefix, hop.via, link)))
        });
        self.owners.iter().any(in_range) && asked.unwrap_or(false)
    }
}

fn is_ipv6_leg(route: &Route) -> bool {
    route.part != Part::Whole && route.family() == Family::V6
}

/// Which part of two pictures is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// All of it.
    Everything,
    /// What is not ours.
    Foreign,
}

/// How two pictures differ. Where rules have one priority, or routes one prefix and metric, their
/// order counts if they are foreign; ours stand there in any order.
pub fn compare(expected: &Picture, found: &Picture, ours: &Ours, share: Share) -> Vec<Problem> {
    let legs: BTreeSet<Key> = [expected, found]
        .iter()
        .flat_map(|picture| &picture.routes)
        .filter(|route| is_ipv6_leg(route))
        .map(key)
        .collect();
    let whose = match share {
        Share::Everything => "",
        Share::Foreign => " that are not ours",
    };
    let mut problems = Vec::new();
    for family in Family::ALL {
        let lines = |picture| rule_lines(picture, family, ours, share);
        let what = format!("{family} rules{whose}");
        problems.extend(Problem::unless_equal(what, lines(expected), lines(found)));
        let lines = |picture| route_lines(picture, family, ours, share, &legs);
        let what = format!("{family} routes{whose}");
        problems.extend(Problem::unless_equal(what, lines(expected), lines(found)));
    }
    problems
}

fn rule_lines(picture: &Picture, family: Family, ours: &Ours, share: Share) -> Vec<String> {
    let of_family = |rule: &&Rule| rule.family() == family;
    let mut rules: Vec<(u32, Option<String>, String)> = picture
        .rules
        .iter()
        .filter(of_family)
        .filter(|rule| share == Share::Everything || !ours.rule(rule))
        .map(|rule| {
            let line = print::rule(rule);
            (rule.priority, ours.rule(rule).then(|| line.clone()), line)
        })
        .collect();
    // Stable: foreign rules, which have no second key, keep their order.
    rules.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    rules.into_iter().map(|(_, _, line)| line).collect()
}

/// Where a route stands among others: its table, destination and metric.
type Key = (u32, IpNet, u8, u32);

fn key(route: &Route) -> Key {
    (route.table, route.prefix, route.tos, route.metric)
}

fn route_lines(
    picture: &Picture,
    family: Family,
    ours: &Ours,
    share: Share,
    legs: &BTreeSet<Key>,
) -> Vec<String> {
    let mut routes: Vec<(Key, Option<String>, String)> = picture
        .routes
        .iter()
        .filter(|route| route.family() == family)
        .filter(|route| share == Share::Everything || !ours.route(picture, route))
        .map(|route| {
            let key = key(route);
            // A leg's protocol is shown or not, depending on what else is in the route.
            let is_leg = family == Family::V6 && legs.contains(&key);
            let line = if is_leg {
                print::leg(picture, route)
            } else {
                print::route(picture, route)
            };
            let any_order = is_leg || ours.route(picture, route);
            (key, any_order.then(|| line.clone()), line)
        })
        .collect();
    routes.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    routes.into_iter().map(|(_, _, line)| line).collect()
}

/// Whether a route leads somewhere.
pub fn is_unicast(route: &Route) -> bool {
    route.kind == RouteKind::Unicast
}
