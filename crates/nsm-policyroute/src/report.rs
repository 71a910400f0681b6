//! What an operator should know of a namespace and nobody would see otherwise: each is said once.

use crate::actual::View;
use crate::claims::Claims;
use crate::desired::{Conflict, Desired};
use crate::plan::Plan;
use crate::policy::Want;
use crate::{Band, priority::priority};
use ipnet::IpNet;
use nsm_api::ConnectionId;
use nsm_netlink::{Action, Family, Owner, PortRange, Route, RouteKind, Rule, Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Something that is not as the policies say, and that is nobody's error to be returned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Report {
    /// Two live connections want one prefix differently.
    Conflict(Conflict),
    /// A rule of somebody else takes a policy's traffic first.
    Shadowed {
        /// The policy.
        selector: Selector,
        /// The rule that is asked before.
        by: Rule,
    },
    /// A route of somebody else in a table of ours is taken before ours.
    RouteShadowed {
        /// The policy.
        selector: Selector,
        /// The route that is taken before.
        by: Route,
    },
    /// Two policies overlap at one priority.
    Overlap {
        /// Whose policies they are.
        connection: ConnectionId,
        /// The one that is asked first: the older, or the first in the list.
        first: usize,
        /// The other.
        second: usize,
        /// What the first selects.
        selector: Selector,
    },
    /// A claim's interface is missing or down.
    Waits {
        /// The policy.
        selector: Selector,
        /// The interface.
        interface: String,
    },
    /// No table is free for a policy of another connection.
    NoTable(Selector),
    /// A policy of another connection could not be repaired.
    NotRepaired {
        /// The policy.
        selector: Selector,
        /// What the kernel says.
        reason: String,
    },
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(Conflict {
                selector,
                prefix,
                holder,
                other,
            }) => write!(
                f,
                "connections {holder} and {other} want {prefix} of policy [{selector}] to leave \
                 differently: {holder} holds it"
            ),
            Self::Shadowed { selector, by } => write!(
                f,
                "policy [{selector}] is shadowed by a rule that is not ours: {} lookup {} \
                 priority {} protocol {}. If it is from this element under another protocol \
                 number or table range: close its connections before changing them",
                by.selector, by.table, by.priority, by.protocol
            ),
            Self::RouteShadowed { selector, by } => write!(
                f,
                "policy [{selector}]: a route that is not ours is taken before ours: {} \
                 metric {} table {} protocol {}",
                by.prefix, by.metric, by.table, by.protocol
            ),
            Self::Overlap {
                connection,
                first,
                second,
                selector,
            } => write!(
                f,
                "connection {connection}: policies {first} and {second} overlap: traffic of both \
                 takes policy {first} [{selector}]"
            ),
            Self::Waits {
                selector,
                interface,
            } => write!(
                f,
                "policy [{selector}] waits for interface {interface}, which is missing or down"
            ),
            Self::NoTable(selector) => write!(f, "policy [{selector}]: no table is free"),
            Self::NotRepaired { selector, reason } => {
                write!(
                    f,
                    "policy [{selector}] of another connection stays broken: {reason}"
                )
            }
        }
    }
}

/// What one reconcile saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// What is to be said.
    pub reports: BTreeSet<Report>,
    /// Rules of others with a selector of ours, wherever they stand.
    pub lookalikes: i64,
    /// Policies with a rule of somebody else before theirs.
    pub shadowed: i64,
}

/// Looks at what others have put around our rules and into our tables.
pub fn look(desired: &[Desired], plan: &Plan, view: &View<'_>, band: Band) -> Seen {
    let mut seen = Seen::default();
    let others = Others::of(view, band);
    for (unit, wanted) in desired.iter().enumerate() {
        let waits = wanted.waits_for.iter().map(|interface| Report::Waits {
            selector: wanted.selector.clone(),
            interface: interface.clone(),
        });
        seen.reports.extend(waits);
        if plan.unseated.contains(&unit) {
            seen.reports
                .insert(Report::NoTable(wanted.selector.clone()));
        }
        seen.lookalikes += others.like(&wanted.selector);
        if let Some(by) = others.before(wanted, view) {
            seen.shadowed += 1;
            let selector = wanted.selector.clone();
            seen.reports.insert(Report::Shadowed {
                selector,
                by: by.clone(),
            });
        }
        if let Some(table) = plan.tables.get(&wanted.selector) {
            let routes = view.routes((wanted.family(), table.get()));
            let shadows = routes.iter().enumerate().filter(|(i, route)| {
                taken_before(wanted, *i, routes, view.owner) && !view.may_be_ours(route)
            });
            seen.reports
                .extend(shadows.map(|(_, route)| Report::RouteShadowed {
                    selector: wanted.selector.clone(),
                    by: (*route).clone(),
                }));
        }
    }
    seen
}

/// Whether a rule of somebody else can matter: it is asked at or before the end of our band and
/// looks at nothing but what policies look at. One that depends on a mark, an interface or a
/// destination takes its share on purpose.
pub fn may_shadow(rule: &Rule, band: Band) -> bool {
    rule.is_plain()
        && rule.priority <= band.top()
        && rule.action != Action::Nop
        && rule.table != LOCAL_TABLE
}

/// The rules of others that can matter.
struct Others<'a> {
    plain: Vec<(usize, &'a Rule)>,
    selectors: BTreeMap<&'a Selector, i64>,
}

const LOCAL_TABLE: u32 = 255;

impl<'a> Others<'a> {
    fn of(view: &View<'a>, band: Band) -> Self {
        let foreign = || {
            let rules = view.actual.rules.iter().enumerate();
            rules.filter(|(_, rule)| !view.owner.owns_rule(rule))
        };
        let mut selectors = BTreeMap::new();
        for (_, rule) in foreign().filter(|(_, rule)| rule.is_plain()) {
            *selectors.entry(&rule.selector).or_default() += 1;
        }
        let plain = foreign().filter(|(_, rule)| may_shadow(rule, band));
        Self {
            plain: plain.collect(),
            selectors,
        }
    }

    fn like(&self, selector: &Selector) -> i64 {
        self.selectors.get(selector).copied().unwrap_or(0)
    }

    /// The first rule that takes all of a policy's traffic before the policy's own does.
    fn before(&self, wanted: &Desired, view: &View<'_>) -> Option<&'a Rule> {
        // A rule that is not there yet comes behind every other of its priority.
        let at = || {
            let ours = view.rules_of(&wanted.selector).first()?;
            view.actual
                .rules
                .iter()
                .position(|rule| std::ptr::eq(rule, *ours))
        };
        let older = |i: usize| at().is_none_or(|at| i < at);
        self.plain.iter().copied().find_map(|(i, rule)| {
            let takes_all = rule.selector.covers(&wanted.selector);
            let before =
                rule.priority < wanted.priority || rule.priority == wanted.priority && older(i);
            (takes_all && before).then_some(rule)
        })
    }
}

/// Whether the route at `i` is taken before the one that we want for its prefix, or shares its
/// traffic.
fn taken_before(wanted: &Desired, i: usize, routes: &[&Route], owner: Owner) -> bool {
    let route = routes[i];
    let Some(ours) = wanted
        .routes(route.table, owner.protocol.get())
        .find(|ours| ours.prefix == route.prefix)
    else {
        return false;
    };
    if route.leads_as(&ours) || route.kind == RouteKind::Unreachable && route.metric == u32::MAX {
        return false;
    }
    let at = routes
        .iter()
        .position(|other| other.is_same_as(&ours))
        .unwrap_or(usize::MAX);
    let beside = route.metric == ours.metric && (i < at || route.family() == Family::V6);
    route.metric < ours.metric || beside
}

/// Policies of one connection that overlap at one priority: only ranges of ports can. Each is told
/// of once, with the first that takes traffic of it.
pub fn overlaps(claims: &Claims, view: &View<'_>, band: Band) -> BTreeSet<Report> {
    let mut reports = BTreeSet::new();
    for (connection, wants) in claims.wants() {
        for class in classes(wants, band).values_mut() {
            class.sort_by_cached_key(|want| age(want, view, band));
            for (i, second) in class.iter().enumerate() {
                let Some(first) = class[..i].iter().find(|first| meet(first, second)) else {
                    continue;
                };
                reports.insert(Report::Overlap {
                    connection: connection.clone(),
                    first: first.index,
                    second: second.index,
                    selector: first.selector.clone(),
                });
            }
        }
    }
    reports
}

/// What policies have in common that can overlap at one priority.
type Class = (u32, Family, Option<IpNet>, Option<u8>);

/// The policies with ranges of ports by what they have in common.
fn classes(wants: &[Want], band: Band) -> BTreeMap<Class, Vec<&Want>> {
    let mut classes: BTreeMap<Class, Vec<&Want>> = BTreeMap::new();
    for want in wants {
        let selector = &want.selector;
        let is_range = |ports: Option<PortRange>| ports.is_some_and(|ports| !ports.is_single());
        if is_range(selector.sport) || is_range(selector.dport) {
            let priority = priority(band, selector);
            let class = (priority, selector.family, selector.from, selector.proto);
            classes.entry(class).or_default().push(want);
        }
    }
    classes
}

/// Where a policy's rule stands among all. One that does not stand yet comes behind them.
fn age(want: &Want, view: &View<'_>, band: Band) -> usize {
    let priority = priority(band, &want.selector);
    let mut ours = view.rules_of(&want.selector).iter();
    ours.find(|rule| rule.priority == priority)
        .and_then(|ours| {
            let mut all = view.actual.rules.iter();
            all.position(|rule| std::ptr::eq(rule, *ours))
        })
        .unwrap_or(usize::MAX)
}

/// Whether two policies of one class have a pair of ports in common.
fn meet(a: &Want, b: &Want) -> bool {
    let ports = |a: Option<PortRange>, b: Option<PortRange>| match (a, b) {
        (Some(a), Some(b)) => a.overlaps(&b),
        _ => true,
    };
    ports(a.selector.sport, b.selector.sport) && ports(a.selector.dport, b.selector.dport)
}
