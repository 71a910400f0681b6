//! The planner's properties, on random states of a small world.

mod case;
mod classes;
mod world;

use super::*;
use case::{Case, a_case};
use classes::Classes;
use nsm_netlink::Hop;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use world::{OURS, World, owner};

#[derive(Debug, Default)]
struct Event {
    dropped: BTreeSet<Selector>,
    ended: BTreeMap<Selector, BTreeSet<(IpNet, Option<IpAddr>)>>,
    due: BTreeSet<Rule>,
    orphans: BTreeSet<Place>,
    foreign_legs: BTreeSet<Leg>,
}

fn plan_of(world: &World, desired: &[Desired], event: &Event, fail_closed: bool) -> Plan {
    let goal = Goal {
        desired,
        dropped: &event.dropped,
        ended: &event.ended,
        due: &event.due,
        orphans: &event.orphans,
        foreign_legs: &event.foreign_legs,
        probe_owed: false,
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
    if case.orphans_are_due {
        event.orphans = orphans(&case.world);
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
    event.orphans.clear();
    let waits = |wanted: &Desired| wanted.content.len() < wanted.prefixes.len();
    if desired.iter().any(waits) {
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
        let seat = plan.tables.get(&wanted.selector).copied();
        wanted.seat = seat.or(wanted.seat);
    }
    let again = plan_of(&world, &desired, &event, case.fail_closed);
    prop_assert_eq!(again.steps().next(), None, "a refresh writes");
    Ok(())
}

fn check_names_ours(step: &Step) -> Result<(), TestCaseError> {
    let ours = match &step.op {
        Op::AddRule(rule) | Op::DelRule(rule) => owner().owns_rule(rule),
        Op::AddRoute(route, _) => owner().owns_route(route),
        Op::DelRoute(route) => owner().owns_route(route),
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
            .find(|prefix| wanted.prefixes.contains(prefix) && !served.contains(prefix));
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
        let is_kept = |rule: &&&Rule| {
            let mut others = rules.iter().filter(|other| !std::ptr::eq(**other, **rule));
            others.all(|other| leads_where_claimants_wait(other, rule, wanted, world))
        };
        let rule = rules.iter().find(is_kept);
        prop_assert!(rule.is_some(), "rules of [{}]: {rules:?}", &wanted.selector);
        let Some(rule) = rule else { continue };
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
    let stood: BTreeSet<Place> = orphans(before)
        .into_iter()
        .filter(|place| !event.orphans.contains(place))
        .collect();
    let new = orphans(world)
        .into_iter()
        .find(|place| !stood.contains(place));
    prop_assert_eq!(new, None, "routes of ours behind no rule");
    Ok(())
}

/// Whether one rule too many is what a claimant's traffic has until its interface is there.
fn leads_where_claimants_wait(spare: &Rule, kept: &Rule, wanted: &Desired, world: &World) -> bool {
    let leads = |rule: &Rule, prefix| world.unicast(rule).any(|route| route.prefix == prefix);
    let waits = wanted.prefixes.iter();
    let mut waits = waits.filter(|prefix| !wanted.content.contains_key(prefix));
    waits.any(|prefix| leads(spare, *prefix) && !leads(kept, *prefix))
}

/// The tables with routes of ours that no rule of ours looks up.
fn orphans(world: &World) -> BTreeSet<Place> {
    let ours = world
        .routes
        .iter()
        .filter(|route| owner().owns_route(route));
    let places = ours.map(|route| (route.family(), route.table));
    let looked_up: BTreeSet<Place> = world.ours().map(|r| (r.family(), r.table)).collect();
    places.filter(|place| !looked_up.contains(place)).collect()
}

fn check_probe(before: &World, plan: &Plan) -> Result<(), TestCaseError> {
    let v6 = |step: &&Step| {
        rule_of(step)
            .map(Rule::family)
            .or(route_of(step).map(Route::family))
            == Some(Family::V6)
    };
    let behind = plan.steps().filter(v6).filter_map(route_of).any(|route| {
        before
            .ours()
            .any(|r| r.family() == Family::V6 && r.table == route.table)
    });
    prop_assert_eq!(plan.probe.is_some(), behind);
    Ok(())
}

/// A twin would go, and so would what only another connection wanted.
#[test]
fn a_rule_that_is_withheld_keeps_the_routes_of_its_table() {
    let default = Family::V4.default_prefix();
    let [wanted, gone] = ["10.1.0.1/32", "10.1.0.2/32"].map(|from| Selector {
        from: Some(from.parse().unwrap()),
        ..Selector::any(Family::V4)
    });
    let stands = [(20000, &wanted), (20001, &wanted), (20002, &gone)];
    let rule = |(table, selector): (u32, &Selector)| {
        let priority = crate::priority::priority(Band::DEFAULT, selector);
        Rule::lookup(priority, selector.clone(), table, OURS)
    };
    let route = |table| Route::unicast(table, default, 2, None, OURS);
    let world = World {
        rules: stands.map(rule).to_vec(),
        routes: stands.map(|(table, _)| route(table)).to_vec(),
    };
    let priority = world.rules[0].priority;
    let mut desired = Desired::new(wanted.clone(), priority, TableId::new(20000));
    desired.content.insert(default, (2, None));
    desired.prefixes.insert(default);
    let event = Event {
        dropped: [gone.clone()].into(),
        ..Event::default()
    };
    let mut plan = plan_of(&world, &[desired], &event, false);
    assert_eq!(plan.steps().count(), 4);

    assert_eq!(plan.withhold(&[0].into()), [0].into());

    let left: Vec<Op> = plan.steps().map(|step| step.op.clone()).collect();
    let gone = rule((20002, &gone));
    assert_eq!(left, [Op::DelRule(gone), Op::DelRoute(route(20002))]);
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
