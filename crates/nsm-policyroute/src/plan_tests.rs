//! The planner's properties, on random states of a small world.

use super::*;
use crate::claims::Claims;
use crate::policy::Want;
use nsm_netlink::{Hop, Link, Part, PortRange};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use std::cell::RefCell;

const OURS: u8 = 78;
const FOREIGN: u8 = 4;
const TABLES: u32 = 6;

fn owner() -> Owner {
    Owner {
        protocol: OURS.try_into().unwrap(),
        tables: "20000-20019".parse().unwrap(),
    }
}

/// Routes with the protocol that made them, in the kernel's order; a dump hides some of it.
#[derive(Debug, Clone)]
struct World {
    rules: Vec<Rule>,
    routes: Vec<Route>,
}

impl World {
    /// What a dump shows: the legs of an IPv6 multipath route under the protocol of the first.
    fn dump(&self) -> Actual {
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
    fn apply(&mut self, op: &Op) -> bool {
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

    fn ours(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| owner().owns_rule(rule))
    }

    fn foreign(&self) -> (Vec<&Rule>, Vec<&Route>) {
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

    fn unicast<'a>(&'a self, rule: &'a Rule) -> impl Iterator<Item = &'a Route> {
        self.routes.iter().filter(|route| {
            (route.family(), route.table) == (rule.family(), rule.table)
                && route.kind == RouteKind::Unicast
        })
    }

    /// The prefixes that a selector's traffic finds a route for behind some rule of ours.
    fn served(&self, selector: &Selector) -> BTreeSet<IpNet> {
        let rules = self.ours().filter(|rule| rule.selector == *selector);
        rules
            .flat_map(|rule| self.unicast(rule))
            .map(|route| route.prefix)
            .collect()
    }
}

fn take<T>(list: &mut Vec<T>, which: impl Fn(&T) -> bool) -> Option<T> {
    list.iter().position(which).map(|at| list.remove(at))
}

fn are_siblings(a: &Route, b: &Route) -> bool {
    let gateway = |route: &Route| route.hop.is_some_and(|hop| hop.via.is_some());
    a.family() == Family::V6
        && (a.table, a.prefix, a.metric) == (b.table, b.prefix, b.metric)
        && gateway(a)
        && gateway(b)
}

/// One case: who wants what, what stands, what has just happened.
#[derive(Debug, Clone)]
struct Case {
    world: World,
    claims: Claims,
    links: Vec<Link>,
    fail_closed: bool,
    dropped: Vec<Selector>,
    ended: Vec<(Selector, IpNet, Option<IpAddr>)>,
    due: Vec<Index>,
}

fn selectors() -> Vec<Selector> {
    let port = |n| Some(PortRange::new(n, n).unwrap());
    let mut all = Vec::new();
    for (family, from) in [(Family::V4, "10.1.0.1/32"), (Family::V6, "2001:db8::1/128")] {
        let any = Selector::any(family);
        let from = Some(from.parse().unwrap());
        all.push(Selector {
            from,
            ..any.clone()
        });
        all.push(Selector {
            from,
            proto: Some(6),
            dport: port(443),
            ..any.clone()
        });
        all.push(Selector {
            proto: Some(17),
            dport: port(53),
            ..any
        });
    }
    all
}

fn prefixes(family: Family) -> [IpNet; 2] {
    match family {
        Family::V4 => ["0.0.0.0/0", "10.5.0.0/16"].map(|text| text.parse().unwrap()),
        Family::V6 => ["::/0", "2001:db8:5::/48"].map(|text| text.parse().unwrap()),
    }
}

fn via(family: Family, which: usize) -> Option<IpAddr> {
    let text = match family {
        Family::V4 => ["172.16.1.1", "172.16.1.7"],
        Family::V6 => ["fd00::1", "fd00::7"],
    };
    text.get(which).map(|text| text.parse().unwrap())
}

fn a_selector() -> impl Strategy<Value = Selector> {
    select(selectors())
}

fn a_family() -> impl Strategy<Value = Family> {
    select(Family::ALL.to_vec())
}

fn a_want() -> impl Strategy<Value = Want> {
    (
        a_selector(),
        proptest::collection::vec((0..2usize, 0..3usize), 1..3),
    )
        .prop_map(|(selector, routes)| {
            let family = selector.family;
            let routes = routes
                .iter()
                .map(|(p, v)| (prefixes(family)[*p], via(family, *v)));
            Want {
                routes: routes.collect(),
                selector,
                index: 0,
            }
        })
}

fn a_rule() -> impl Strategy<Value = Rule> {
    let protocol = prop_oneof![4 => Just(OURS), 1 => Just(FOREIGN)];
    (a_selector(), 0..TABLES, protocol, 0..5u8, 0..12u8).prop_map(
        |(selector, table, protocol, moved, extra)| {
            let right = crate::priority::priority(Band::DEFAULT, &selector);
            let priority = if moved == 0 { 30500 } else { right };
            let mut rule = Rule::lookup(priority, selector, 20000 + table, protocol);
            if extra == 0 {
                rule.rest.insert(10, &5u32.to_ne_bytes());
            }
            rule
        },
    )
}

fn a_route() -> impl Strategy<Value = Route> {
    let protocol = prop_oneof![2 => Just(OURS), 1 => Just(FOREIGN)];
    (
        a_family(),
        0..TABLES,
        0..2usize,
        0..3usize,
        2..5u32,
        protocol,
        0..10u8,
    )
        .prop_map(|(family, table, prefix, hop, dev, protocol, kind)| {
            let (table, prefix) = (20000 + table, prefixes(family)[prefix]);
            if kind == 0 {
                Route::unreachable(table, prefix, protocol)
            } else {
                Route::unicast(table, prefix, dev, via(family, hop), protocol)
            }
        })
}

prop_compose! {
    fn a_case()(
        rules in proptest::collection::vec(a_rule(), 0..9),
        routes in proptest::collection::vec(a_route(), 0..24),
        wants in proptest::collection::vec((0..2usize, proptest::collection::vec(a_want(), 1..4)), 0..4),
        missing in 0..6usize,
        fail_closed in proptest::bool::weighted(0.3),
        dropped in proptest::collection::vec(a_selector(), 0..2),
        ended in proptest::collection::vec((a_selector(), 0..2usize, 0..3usize), 0..3),
        due in proptest::collection::vec(any::<Index>(), 0..2),
    ) -> Case {
        let mut world = World { rules: Vec::new(), routes: Vec::new() };
        for rule in rules {
            world.apply(&Op::AddRule(rule));
        }
        for route in routes {
            world.apply(&Op::AddRoute(route, Placement::Append));
        }
        let mut claims = Claims::default();
        for (i, (link, mut wants)) in wants.into_iter().enumerate() {
            let mut seen = BTreeSet::new();
            wants.retain(|want| seen.insert(want.selector.clone()));
            claims.set(format!("c{i}").try_into().unwrap(), format!("nsm-{link}"), wants);
        }
        let links = (0..2usize)
            .filter(|i| *i != missing)
            .map(|i| Link { index: 2 + i as u32, name: format!("nsm-{i}"), up: true })
            .collect();
        let ended = ended
            .into_iter()
            .map(|(s, p, v)| { let f = s.family; (s, prefixes(f)[p], via(f, v)) })
            .collect();
        Case { world, claims, links, fail_closed, dropped, ended, due }
    }
}

impl Case {
    fn desired(&self) -> Vec<Desired> {
        self.claims.desired(None, &self.links, Band::DEFAULT).0
    }

    fn due(&self) -> BTreeSet<Rule> {
        let unclaimed: Vec<&Rule> = self
            .world
            .ours()
            .filter(|rule| !rule.is_plain() || !self.claims.selectors().contains(&rule.selector))
            .collect();
        let due = self.due.iter().filter(|_| !unclaimed.is_empty());
        due.map(|index| unclaimed[index.index(unclaimed.len())].clone())
            .collect()
    }
}

#[derive(Debug, Default)]
struct Event {
    dropped: BTreeSet<Selector>,
    ended: BTreeMap<Selector, BTreeSet<(IpNet, Option<IpAddr>)>>,
    due: BTreeSet<Rule>,
    foreign_legs: BTreeSet<Leg>,
}

fn plan_of(world: &World, desired: &[Desired], event: &Event, fail_closed: bool) -> Plan {
    let goal = Goal {
        desired,
        dropped: &event.dropped,
        ended: &event.ended,
        due: &event.due,
        foreign_legs: &event.foreign_legs,
        fail_closed,
        band: Band::DEFAULT,
    };
    plan(&goal, &world.dump(), owner())
}

/// Every property of one case.
fn check(case: &Case) -> Result<(), TestCaseError> {
    let mut desired = case.desired();
    let mut event = Event {
        due: case.due(),
        ..Event::default()
    };
    let unclaimed = |selector: &&Selector| !case.claims.selectors().contains(selector);
    event.dropped = case.dropped.iter().filter(unclaimed).cloned().collect();
    for (selector, prefix, via) in &case.ended {
        event
            .ended
            .entry(selector.clone())
            .or_default()
            .insert((*prefix, *via));
    }
    let before = case.world.clone();
    let mut world = before.clone();
    let plan = plan_of(&world, &desired, &event, case.fail_closed);

    for step in plan.steps() {
        check_names_ours(step)?;
        let done = world.apply(&step.op);
        if let (false, Op::DelRoute(route)) = (done, &step.op) {
            prop_assert!(
                !route.mark_is_known(),
                "deletes what is not there: {step:?}"
            );
            event.foreign_legs.extend(leg(route));
        }
        check_no_gap(&before, &world, &desired, step)?;
    }
    prop_assert_eq!(
        before.foreign(),
        world.foreign(),
        "foreign objects are touched"
    );
    check_reached(&world, &desired, &event, &before)?;
    check_probe(&before, &plan)?;

    event.dropped.clear();
    event.ended.clear();
    event.due.clear();
    if desired.iter().any(|wanted| wanted.content.is_empty()) {
        // A rule that waits for its interface cannot leave a table that it shares, and the table
        // is not edited while it is shared. A later plan finds it alone.
        for _ in 0..3 {
            let next = plan_of(&world, &desired, &event, case.fail_closed);
            next.steps().for_each(|step| {
                world.apply(&step.op);
            });
        }
    }
    let after_restart = plan_of(&world, &desired, &event, case.fail_closed);
    prop_assert_eq!(after_restart.steps().next(), None, "a restart writes");
    for wanted in &mut desired {
        wanted.seat = plan.tables.get(&wanted.selector).copied();
    }
    let again = plan_of(&world, &desired, &event, case.fail_closed);
    prop_assert_eq!(again.steps().next(), None, "a refresh writes");
    Ok(())
}

fn check_names_ours(step: &Step) -> Result<(), TestCaseError> {
    let ours = match &step.op {
        Op::AddRule(rule) | Op::DelRule(rule) => owner().owns_rule(rule),
        Op::AddRoute(route, _) => owner().owns_route(route),
        Op::DelRoute(route) => owner().owns_route(route) || !route.mark_is_known(),
    };
    prop_assert!(ours, "names an object that is not ours: {step:?}");
    Ok(())
}

/// At every moment: no rule of ours came to an empty table, and what is wanted and was served is.
fn check_no_gap(
    before: &World,
    now: &World,
    desired: &[Desired],
    step: &Step,
) -> Result<(), TestCaseError> {
    for rule in now.ours() {
        let dead = |world: &World| world.unicast(rule).next().is_none();
        let was_dead = before.rules.contains(rule) && dead(before);
        // The last prefix that was served may be one that nobody asks for any more.
        let waits = |d: &Desired| d.selector == rule.selector && d.content.is_empty();
        if desired.iter().any(waits) {
            continue;
        }
        prop_assert!(
            !dead(now) || was_dead,
            "{step:?} leaves a rule without routes: {rule:?}"
        );
    }
    for wanted in desired {
        let served = now.served(&wanted.selector);
        let lost = before
            .served(&wanted.selector)
            .into_iter()
            .find(|prefix| wanted.content.contains_key(prefix) && !served.contains(prefix));
        prop_assert_eq!(lost, None, "{:?} takes the last route", step);
    }
    Ok(())
}

fn check_reached(
    world: &World,
    desired: &[Desired],
    event: &Event,
    before: &World,
) -> Result<(), TestCaseError> {
    let mut tables = BTreeSet::new();
    for wanted in desired.iter().filter(|wanted| !wanted.content.is_empty()) {
        let rules: Vec<&Rule> = world
            .ours()
            .filter(|r| r.is_plain() && r.selector == wanted.selector)
            .collect();
        prop_assert_eq!(rules.len(), 1, "rules of [{}]", &wanted.selector);
        let rule = rules[0];
        prop_assert_eq!(rule.priority, wanted.priority);
        prop_assert!(
            tables.insert((rule.family(), rule.table)),
            "a table is shared"
        );
        for route in wanted.routes(rule.table, OURS) {
            let hops: Vec<Option<Hop>> = world
                .unicast(rule)
                .filter(|r| r.prefix == route.prefix && (r.protocol == OURS || r.hop == route.hop))
                .map(|r| r.hop)
                .collect();
            prop_assert!(
                hops.contains(&route.hop),
                "{:?} is not there: {:?}",
                &route,
                hops
            );
            prop_assert!(
                hops.iter().all(|hop| *hop == route.hop),
                "stale: {:?}",
                hops
            );
        }
    }
    for rule in world
        .ours()
        .filter(|rule| !desired.iter().any(|d| d.selector == rule.selector))
    {
        prop_assert!(before.rules.contains(rule));
        prop_assert!(!event.dropped.contains(&rule.selector) || !rule.is_plain());
        prop_assert!(!event.due.contains(rule));
    }
    let looked_up = |route: &Route| {
        world
            .ours()
            .any(|r| (r.family(), r.table) == (route.family(), route.table))
    };
    let orphan = world
        .routes
        .iter()
        .find(|r| owner().owns_route(r) && !looked_up(r));
    prop_assert_eq!(orphan, None, "a route of ours behind no rule");
    Ok(())
}

fn check_probe(before: &World, plan: &Plan) -> Result<(), TestCaseError> {
    let v6 = |step: &&Step| {
        rule_of(step)
            .map(Rule::family)
            .or(route_of(step).map(Route::family))
            == Some(Family::V6)
    };
    let rules = plan.steps().filter(v6).filter_map(rule_of).count();
    let behind = plan.steps().filter(v6).filter_map(route_of).any(|route| {
        before
            .ours()
            .any(|r| r.family() == Family::V6 && r.table == route.table)
    });
    prop_assert_eq!(plan.probe.is_some(), rules == 0 && behind);
    Ok(())
}

/// How often each class of state that matters has occurred.
#[derive(Debug, Default)]
struct Classes(BTreeMap<&'static str, u32>);

impl Classes {
    fn count(&mut self, case: &Case) {
        let desired = case.desired();
        let world = &case.world;
        let wanted = |rule: &Rule| desired.iter().find(|d| d.selector == rule.selector);
        let shares = |a: &Rule, b: &Rule| {
            (a.family(), a.table) == (b.family(), b.table) && a.selector != b.selector
        };
        let families: BTreeSet<Family> = desired.iter().map(Desired::family).collect();
        let claimants = |d: &Desired| -> usize {
            let claims = (0..4).filter(|i| {
                let id = format!("c{i}").try_into().unwrap();
                let claim = case.claims.get(&id);
                claim.is_some_and(|c| c.wants.iter().any(|w| w.selector == d.selector))
            });
            claims.count()
        };
        let found = [
            (
                "shared table",
                world
                    .ours()
                    .any(|a| wanted(a).is_some() && world.ours().any(|b| shares(a, b))),
            ),
            (
                "empty table",
                world
                    .ours()
                    .any(|rule| wanted(rule).is_some() && world.unicast(rule).next().is_none()),
            ),
            (
                "foreign leg",
                world.routes.iter().any(|route| {
                    route.protocol == FOREIGN
                        && world
                            .routes
                            .iter()
                            .any(|o| o != route && are_siblings(o, route))
                }),
            ),
            (
                "look-alike",
                world
                    .rules
                    .iter()
                    .any(|rule| !owner().owns_rule(rule) && wanted(rule).is_some()),
            ),
            ("two claimants", desired.iter().any(|d| claimants(d) > 1)),
            ("both families", families.len() == 2),
            (
                "wrong priority",
                world
                    .ours()
                    .any(|rule| wanted(rule).is_some_and(|d| d.priority != rule.priority)),
            ),
        ];
        for (class, found) in found {
            *self.0.entry(class).or_default() += u32::from(found);
        }
    }
}

#[test]
fn every_plan_keeps_the_contract() {
    let cases = std::env::var("NSM_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(3000);
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    };
    let classes = RefCell::new(Classes::default());

    TestRunner::new(config)
        .run(&a_case(), |case| {
            classes.borrow_mut().count(&case);
            check(&case)
        })
        .unwrap();

    for (class, count) in &classes.borrow().0 {
        assert!(
            count * 20 >= cases,
            "{class} occurred in {count} of {cases} cases only"
        );
    }
    assert_eq!(classes.borrow().0.len(), 7);
}
