//! What stands in a pod, as the assertions need it: our policies without the numbers of their
//! tables, and everything of others.

use nsm_netlink::{Action, Family, Kernel, Link, Part, Route, RouteKind, Rule};
use policyroute_suite::{OWNER, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What a table leads to: by prefix (of a route that refuses with its kind before it) all ways.
pub type Content = BTreeMap<String, BTreeSet<String>>;

/// How the line of a table begins that no rule of ours looks up.
pub const STRAY: &str = "no rule -> ";

/// One look at a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// A line for each rule of ours, `31745: from 10.1.0.1 -> default dev nsm-0`, and one for each
    /// table that holds routes of ours and that no rule of ours looks up, `no rule -> default ...`.
    pub lines: Vec<String>,
    /// By selector, where its first rule leads to.
    pub policies: BTreeMap<String, Content>,
    /// The tables that our rules look up, each with the selector.
    pub tables: Vec<(Family, u32, String)>,
    /// How many probes have stayed behind.
    pub probes: usize,
    /// What others have made.
    pub others: Snapshot,
}

impl Picture {
    /// Looks at a pod. A leg with one of these next hops is ours, whatever mark a dump shows.
    pub fn of(kernel: &mut impl Kernel, next_hops: &BTreeSet<IpAddr>) -> Self {
        let snapshot = Snapshot::of(kernel);
        let links = kernel.links().unwrap();
        let is_ours = |route: &Route| match route.part {
            Part::First | Part::Further if route.family() == Family::V6 => {
                let via = route.hop.and_then(|hop| hop.via);
                OWNER.tables.contains(route.table)
                    && via.is_some_and(|via| next_hops.contains(&via))
            }
            _ => OWNER.owns_route(route),
        };
        let (ours, theirs): (Vec<_>, Vec<_>) = snapshot.routes.into_iter().partition(is_ours);
        let theirs = theirs.into_iter().map(as_theirs).collect();
        let mut picture = Self {
            lines: Vec::new(),
            policies: BTreeMap::new(),
            tables: Vec::new(),
            probes: 0,
            others: Snapshot {
                rules: Vec::new(),
                routes: theirs,
            },
        };
        for rule in snapshot.rules {
            if is_probe(&rule) {
                picture.probes += 1;
            } else if OWNER.owns_rule(&rule) {
                picture.add_rule(&rule, &content(&ours, rule.family(), rule.table, &links));
            } else {
                picture.others.rules.push(rule);
            }
        }
        picture.add_strays(&ours, &links);
        picture.lines.sort();
        picture
    }

    fn add_rule(&mut self, rule: &Rule, content: &Content) {
        let selector = format!("{} {}", rule.family(), rule.selector);
        self.policies
            .entry(selector)
            .or_insert_with(|| content.clone());
        let (priority, selector) = (rule.priority, rule.selector.to_string());
        self.lines
            .push(format!("{priority}: {selector} -> {}", line(content)));
        self.tables.push((rule.family(), rule.table, selector));
    }

    fn add_strays(&mut self, ours: &[Route], links: &[Link]) {
        let places: BTreeSet<_> = ours
            .iter()
            .map(|route| (route.family(), route.table))
            .collect();
        for (family, table) in places {
            if self.looked_up_by(family, table).is_none() {
                let content = content(ours, family, table, links);
                self.lines.push(format!("{STRAY}{}", line(&content)));
            }
        }
    }

    /// Whether nothing of ours stands.
    pub fn is_bare(&self) -> bool {
        self.lines.is_empty() && self.probes == 0
    }

    /// Whether a rule of ours stands.
    pub fn has_rules(&self) -> bool {
        !self.tables.is_empty()
    }

    /// The selector of the first rule of ours that looks up a table.
    pub fn looked_up_by(&self, family: Family, table: u32) -> Option<&str> {
        let mut tables = self.tables.iter();
        let found = tables.find(|(of, id, _)| (*of, *id) == (family, table));
        found.map(|(_, _, selector)| selector.as_str())
    }

    /// A table that two rules of ours look up.
    pub fn shared_table(&self) -> Option<u32> {
        let mut seen = BTreeSet::new();
        let shared = self
            .tables
            .iter()
            .find(|(family, table, _)| !seen.insert((*family, *table)));
        shared.map(|(_, table, _)| *table)
    }
}

/// What of ours stands in all pods, a line for each rule.
pub fn lines(pictures: &[Picture]) -> Vec<String> {
    let line = |(pod, line): (usize, &String)| match pod {
        0 => line.clone(),
        _ => format!("elsewhere: {line}"),
    };
    let pods = pictures.iter().enumerate();
    pods.flat_map(|(pod, it)| it.lines.iter().map(move |line| (pod, line)))
        .map(line)
        .collect()
}

/// The rule that makes IPv6 sockets look again.
pub fn is_probe(rule: &Rule) -> bool {
    rule.action == Action::Nop && rule.protocol == OWNER.protocol.get()
}

fn content(ours: &[Route], family: Family, table: u32, links: &[Link]) -> Content {
    let mut content = Content::new();
    for route in ours
        .iter()
        .filter(|route| (route.family(), route.table) == (family, table))
    {
        let prefix = match route.prefix.prefix_len() {
            0 => "default".to_owned(),
            _ => route.prefix.to_string(),
        };
        let prefix = match route.kind {
            RouteKind::Unicast => prefix,
            _ => format!("unreachable {prefix}"),
        };
        let ways = content.entry(prefix).or_default();
        ways.extend(route.hop.map(|hop| {
            let link = links.iter().find(|link| link.index == hop.dev);
            let dev = link.map_or("?", |link| &link.name);
            hop.via
                .map_or(format!("dev {dev}"), |via| format!("via {via} dev {dev}"))
        }));
    }
    content
}

fn line(content: &Content) -> String {
    let route = |(prefix, ways): (&String, &BTreeSet<String>)| match ways.is_empty() {
        true => vec![prefix.clone()],
        false => ways.iter().map(|way| format!("{prefix} {way}")).collect(),
    };
    content
        .iter()
        .flat_map(route)
        .collect::<Vec<_>>()
        .join(", ")
}

/// A route of others, in our tables without what a dump takes from the first leg of all, which may
/// be ours.
fn as_theirs(route: Route) -> Route {
    let has_gateway = route.hop.is_some_and(|hop| hop.via.is_some());
    let may_be_a_leg = route.family() == Family::V6 && has_gateway;
    match may_be_a_leg && OWNER.tables.contains(route.table) {
        true => Route {
            protocol: 0,
            part: Part::Whole,
            ..route
        },
        false => route,
    }
}
