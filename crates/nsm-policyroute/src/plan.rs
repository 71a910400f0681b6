//! What to write, and in which order: the only place that knows it.
//!
//! Make, add, remove, break: routes stand before the rule that points at them, a rule goes before
//! its routes do, and a change adds before it deletes. So an end at any point leaves each policy on
//! its old or its new content, never on none.

use crate::Band;
use crate::actual::{Actual, Place, View};
use crate::content::{self, Edit};
use crate::desired::Desired;
use crate::seat::{self, Seat};
use ipnet::IpNet;
use nsm_netlink::{
    Action, Attributes, Family, Op, Owner, Placement, Route, RouteKind, Rule, Selector, TableId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What a plan is to reach.
#[derive(Debug)]
pub struct Goal<'a> {
    /// What all claims want.
    pub desired: &'a [Desired],
    /// Selectors that a connection has just given up and nobody else claims: their rules go.
    pub dropped: &'a BTreeSet<Selector>,
    /// What whoever asked for it has just stopped asking for: prefix and next hop by selector.
    pub ended: &'a BTreeMap<Selector, BTreeSet<(IpNet, Option<IpAddr>)>>,
    /// Left-over rules whose time has come.
    pub due: &'a BTreeSet<Rule>,
    /// Tables with routes of ours and no rule of ours whose time has come.
    pub orphans: &'a BTreeSet<Place>,
    /// Legs of IPv6 multipath routes that have turned out not to be ours.
    pub foreign_legs: &'a BTreeSet<Leg>,
    /// Whether a probe is due that a plan before has not come to.
    pub probe_owed: bool,
    /// Whether each prefix gets an `unreachable` twin.
    pub fail_closed: bool,
    /// Where our rules stand.
    pub band: Band,
}

/// A leg of a multipath route: table, prefix, interface and next hop.
pub type Leg = (u32, IpNet, u32, Option<IpAddr>);

/// The leg that a route is.
pub fn leg(route: &Route) -> Option<Leg> {
    route
        .hop
        .map(|hop| (route.table, route.prefix, hop.dev, hop.via))
}

impl Goal<'_> {
    /// Whether a route whose mark is hidden has turned out to be somebody else's.
    pub fn is_known_foreign(&self, route: &Route) -> bool {
        !route.mark_is_known() && leg(route).is_some_and(|leg| self.foreign_legs.contains(&leg))
    }

    /// Whether somebody has just stopped asking for this route.
    pub fn has_just_ended(&self, selector: &Selector, route: &Route) -> bool {
        let via = route.hop.and_then(|hop| hop.via);
        self.ended
            .get(selector)
            .is_some_and(|routes| routes.contains(&(route.prefix, via)))
    }
}

/// One write of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is written.
    pub op: Op,
    /// The index of the desired selector that the write is for, if it is for one.
    pub unit: Option<usize>,
}

/// All writes of a reconcile, in four bursts and at most one probe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Routes are added.
    pub make: Vec<Step>,
    /// Rules are added.
    pub add: Vec<Step>,
    /// Rules are deleted.
    pub remove: Vec<Step>,
    /// Routes are deleted.
    pub cut: Vec<Step>,
    /// A rule to be added and deleted at once, so that IPv6 sockets look again. Not needed once
    /// another IPv6 rule has been written after the routes.
    pub probe: Option<Rule>,
    /// Where each selector sits that has a rule.
    pub tables: BTreeMap<Selector, TableId>,
    /// Selectors that no table was free for, by index.
    pub unseated: Vec<usize>,
    /// Selectors that keep a rule that stands, by index.
    pub kept: BTreeSet<usize>,
}

impl Plan {
    /// All steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.make
            .iter()
            .chain(&self.add)
            .chain(&self.remove)
            .chain(&self.cut)
    }
}

impl Plan {
    /// Leaves some units as they stand: their rules, and what these look up. Gives those of them
    /// that something was to be written for.
    pub fn withhold(&mut self, units: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_withheld = |step: &Step| step.unit.is_some_and(|unit| units.contains(&unit));
        let stay = self.remove.iter().filter(|step| is_withheld(step));
        let looked_up: BTreeSet<Place> = stay
            .filter_map(rule_of)
            .map(|rule| (rule.family(), rule.table))
            .collect();
        self.cut.retain(|step| {
            step.unit.is_some()
                || route_of(step).is_none_or(|it| !looked_up.contains(&(it.family(), it.table)))
        });
        let mut withheld = BTreeSet::new();
        for steps in [
            &mut self.make,
            &mut self.add,
            &mut self.remove,
            &mut self.cut,
        ] {
            steps.retain(|step| match step.unit {
                Some(unit) if units.contains(&unit) => {
                    withheld.insert(unit);
                    false
                }
                _ => true,
            });
        }
        withheld
    }
}

/// Plans the way from what stands to what is wanted.
pub fn plan(goal: &Goal<'_>, actual: &Actual, owner: Owner) -> Plan {
    let view = View::new(actual, owner);
    let seats = seat::seats(goal, &view);
    let mut planner = Planner {
        goal,
        view: &view,
        plan: Plan::default(),
    };
    for (unit, (desired, seat)) in goal.desired.iter().zip(&seats).enumerate() {
        match seat {
            Some(seat) => planner.seat(unit, desired, seat),
            None => {
                planner.plan.unseated.push(unit);
            }
        }
    }
    planner.remove_unwanted_rules();
    planner.cut_unused_tables();
    planner.probe();
    planner.plan
}

struct Planner<'p, 'a> {
    goal: &'p Goal<'p>,
    view: &'p View<'a>,
    plan: Plan,
}

impl Planner<'_, '_> {
    /// One selector: the content of its table, then its rule, then what stood for it elsewhere.
    fn seat(&mut self, unit: usize, desired: &Desired, seat: &Seat<'_>) {
        let table = seat.table.get();
        let edit = content::edit(desired, table, self.goal, self.view);
        let serves = edit.serves();
        if seat.keeper.is_none() && !serves {
            // A rule on an empty table would send its traffic past the policy.
            return;
        }
        self.plan
            .tables
            .insert(desired.selector.clone(), seat.table);
        self.edit(unit, (desired.family(), table), edit);

        let protocol = self.view.owner.protocol.get();
        let wanted = Rule::lookup(desired.priority, desired.selector.clone(), table, protocol);
        let stands = self.view.rules_of(&desired.selector);
        let keeper = seat.keeper.filter(|rule| rule.priority == desired.priority);
        if keeper.is_some() || seat.keeper.is_some() && !serves {
            self.plan.kept.insert(unit);
        } else {
            self.plan.add.push(Step {
                op: Op::AddRule(wanted),
                unit: Some(unit),
            });
        }
        let stays = if serves { keeper } else { seat.keeper };
        let view = self.view;
        let others = stands
            .iter()
            .filter(|rule| stays.is_none_or(|stays| !std::ptr::eq(stays, **rule)))
            .filter(|rule| !is_needed(rule, desired, table, view));
        self.plan.remove.extend(others.map(|rule| Step {
            op: Op::DelRule((*rule).clone()),
            unit: Some(unit),
        }));
    }

    fn edit(&mut self, unit: usize, place: Place, edit: Edit) {
        // The first route into a table taken into use shows whether somebody was faster.
        let in_use = !self.view.routes(place).is_empty() || !self.view.lookups(place).is_empty();
        let mut placement = if in_use {
            Placement::Append
        } else {
            Placement::Exclusive
        };
        for route in edit.add {
            self.plan.make.push(Step {
                op: Op::AddRoute(route, placement),
                unit: Some(unit),
            });
            placement = Placement::Append;
        }
        let protocol = self.view.owner.protocol.get();
        let deletes = edit.delete.into_iter().map(|route| marked(route, protocol));
        self.plan.cut.extend(deletes.map(|r| Step {
            op: Op::DelRoute(r),
            unit: Some(unit),
        }));
    }

    fn remove_unwanted_rules(&mut self) {
        let probe = probe(self.goal.band, self.view.owner);
        let ours = |rule: &Rule| self.view.owner.owns_rule(rule);
        let unwanted = self.view.actual.rules.iter().filter(|rule| {
            // A process that is ended within a probe may leave it behind.
            **rule == probe
                || ours(rule)
                    && (self.goal.due.contains(*rule)
                        || rule.is_plain() && self.goal.dropped.contains(&rule.selector))
        });
        let steps = unwanted.map(|rule| Step {
            op: Op::DelRule(rule.clone()),
            unit: None,
        });
        self.plan.remove.extend(steps);
    }

    /// A table that the last rule of ours leaves holds nothing of ours in the end. One that had
    /// none before is left alone until its time has come: another process may be between its
    /// routes and its rule.
    fn cut_unused_tables(&mut self) {
        let removed: BTreeSet<&Rule> = self.plan.remove.iter().filter_map(rule_of).collect();
        let looked_up: BTreeSet<Place> = self
            .view
            .our_rules()
            .filter(|rule| !removed.contains(rule))
            .chain(self.plan.add.iter().filter_map(rule_of))
            .map(|rule| (rule.family(), rule.table))
            .collect();
        let goes = |place: Place| {
            let mut rules = self.view.lookups(place).iter();
            let was_ours = rules.any(|rule| self.view.owner.owns_rule(rule));
            !looked_up.contains(&place) && (was_ours || self.goal.orphans.contains(&place))
        };
        let mut unused: Vec<&Route> = self
            .view
            .actual
            .routes
            .iter()
            .filter(|route| {
                goes((route.family(), route.table))
                    && self.view.may_be_ours(route)
                    && !self.goal.is_known_foreign(route)
            })
            .collect();
        unused.sort_by_key(|route| route.kind == RouteKind::Unreachable);
        let protocol = self.view.owner.protocol.get();
        let steps = unused.into_iter().map(|route| Step {
            op: Op::DelRoute(marked(route.clone(), protocol)),
            unit: None,
        });
        self.plan.cut.extend(steps);
    }

    /// IPv6 sockets that have fallen to the main table look again only when some rule changes: a
    /// change of routes behind a standing rule does not reach them (the cached route is held
    /// against the serial number of the table it came from, net/ipv6/route.c). Whether a rule of
    /// the plan does that too is known when it has been written: it may be refused.
    fn probe(&mut self) {
        let behind_a_rule = |step: &Step| {
            route_of(step).is_some_and(|route| {
                let place = (Family::V6, route.table);
                route.family() == Family::V6
                    && self
                        .view
                        .lookups(place)
                        .iter()
                        .any(|r| self.view.owner.owns_rule(r))
            })
        };
        let mut routes = self.plan.make.iter().chain(&self.plan.cut);
        if self.goal.probe_owed || routes.any(behind_a_rule) {
            self.plan.probe = Some(probe(self.goal.band, self.view.owner));
        }
    }
}

/// Whether a rule too many still leads to a prefix whose claimants wait for an interface, and the
/// table that the selector has does not: without it that traffic would take the main table.
fn is_needed(rule: &Rule, desired: &Desired, table: u32, view: &View<'_>) -> bool {
    let leads = |table: u32, prefix: &IpNet| {
        let mut routes = view.routes((desired.family(), table)).iter();
        routes.any(|it| it.kind == RouteKind::Unicast && it.prefix == *prefix)
    };
    let mut waits = desired
        .prefixes
        .iter()
        .filter(|prefix| !desired.content.contains_key(prefix));
    waits.any(|prefix| leads(rule.table, prefix) && !leads(table, prefix))
}

/// A route as it is ours: a leg that hides its mark is somebody else's under any other.
fn marked(route: Route, protocol: u8) -> Route {
    Route { protocol, ..route }
}

/// A rule that matches no traffic (100::/64 is the discard prefix, RFC 6666) and does nothing.
fn probe(band: Band, owner: Owner) -> Rule {
    let discard = IpNet::new_assert(IpAddr::from([0x100, 0, 0, 0, 0, 0, 0, 0u16]), 64);
    Rule {
        priority: band.top(),
        selector: Selector {
            from: Some(discard),
            ..Selector::any(Family::V6)
        },
        table: 0,
        action: Action::Nop,
        protocol: owner.protocol.get(),
        invert: false,
        tos: 0,
        rest: Attributes::NONE,
    }
}

/// The rule that a step writes.
pub fn rule_of(step: &Step) -> Option<&Rule> {
    match &step.op {
        Op::AddRule(rule) | Op::DelRule(rule) => Some(rule),
        Op::AddRoute(..) | Op::DelRoute(_) => None,
    }
}

/// The route that a step writes.
pub fn route_of(step: &Step) -> Option<&Route> {
    match &step.op {
        Op::AddRoute(route, _) | Op::DelRoute(route) => Some(route),
        Op::AddRule(_) | Op::DelRule(_) => None,
    }
}

#[cfg(test)]
#[path = "plan_tests/mod.rs"]
mod tests;
