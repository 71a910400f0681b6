//! What the kernel tells, and what it does not.

use crate::World;
use crate::objects::{TABLE, THEIRS, append, by, exclusive, neighbour, on_link, rule, via};
use crate::world::{KERNEL, V0, V1, own};
use nsm_netlink::{Change, Errno, Event, Family, Object, Op, Part, Route};

crate::behaviours!(
    every_rule_that_comes_or_goes_is_told,
    a_rule_without_a_number_is_told_with_its_number,
    a_refusal_is_not_told,
    every_route_that_is_added_or_deleted_is_told,
    a_leg_that_joins_is_told_with_all_legs_itself_first,
    a_leg_that_goes_is_told_alone,
    ipv4_routes_that_go_with_a_link_go_in_silence,
    ipv6_routes_that_go_with_a_link_are_told_one_by_one,
    ipv4_routes_that_go_with_the_last_address_go_in_silence,
);

/// What is told of objects that the kernel did not make itself.
fn told<W: World>(world: &W) -> Vec<Event> {
    let made = |event: &Event| match &event.object {
        Object::Rule(rule) => rule.protocol != KERNEL,
        Object::Route(route) => route.protocol != KERNEL,
    };
    world.events().into_iter().filter(made).collect()
}

fn route(change: Change, route: &Route) -> Event {
    Event {
        change,
        object: Object::Route(route.clone()),
    }
}

fn every_rule_that_comes_or_goes_is_told<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let rule = rule(family, 100, TABLE);

        world.must([Op::AddRule(rule.clone()), Op::DelRule(rule.clone())]);

        let event = |change| Event {
            change,
            object: Object::Rule(rule.clone()),
        };
        assert_eq!(told(&world), [event(Change::Added), event(Change::Removed)]);
    }
}

fn a_rule_without_a_number_is_told_with_its_number<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        world.add_rule_unnumbered(&rule(family, 0, TABLE));

        let object = Object::Rule(rule(family, 32765, TABLE));
        assert_eq!(
            told(&world),
            [Event {
                change: Change::Added,
                object
            }]
        );
    }
}

fn a_refusal_is_not_told<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let rule = rule(family, 100, TABLE);
        world.must([Op::AddRule(rule.clone())]);
        told(&world);

        assert_eq!(world.errno(Op::AddRule(rule)), Errno::EEXIST);
        assert_eq!(world.errno(Op::DelRoute(on_link(family, V0))), Errno::ESRCH);

        assert_eq!(told(&world), []);
    }
}

fn every_route_that_is_added_or_deleted_is_told<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let added = via(family, V0, neighbour(family, 1, 1));

        world.must([exclusive(&added), Op::DelRoute(added.clone())]);

        let events = [Change::Added, Change::Removed].map(|change| route(change, &added));
        assert_eq!(told(&world), events);
    }
}

fn a_leg_that_joins_is_told_with_all_legs_itself_first<W: World>() {
    let world = W::pod();
    let [a, b, c] = [1, 2, 3].map(|n| {
        by(
            n,
            via(Family::V6, V0, neighbour(Family::V6, 1, u32::from(n))),
        )
    });
    world.must([exclusive(&a), append(&b)]);
    told(&world);

    world.must([append(&c)]);

    let leg = |leg: &Route, part| {
        route(
            Change::Added,
            &Route {
                part,
                protocol: 3,
                ..leg.clone()
            },
        )
    };
    assert_eq!(
        told(&world),
        [
            leg(&c, Part::First),
            leg(&a, Part::Further),
            leg(&b, Part::Further)
        ]
    );
}

fn a_leg_that_goes_is_told_alone<W: World>() {
    let world = W::pod();
    let [a, b] = [1, 2].map(|n| via(Family::V6, V0, neighbour(Family::V6, 1, n)));
    let b = by(THEIRS, b);
    world.must([exclusive(&a), append(&b)]);
    told(&world);

    world.must([Op::DelRoute(b.clone())]);

    assert_eq!(told(&world), [route(Change::Removed, &b)]);
}

fn ipv4_routes_that_go_with_a_link_go_in_silence<W: World>() {
    let world = W::pod();
    world.must([V0, V1].map(|dev| append(&on_link(Family::V4, dev))));
    told(&world);

    world.set_down(V0);
    world.delete_link(V1);

    assert_eq!(told(&world), []);
    assert_eq!(world.made_routes(Family::V4), []);
}

fn ipv6_routes_that_go_with_a_link_are_told_one_by_one<W: World>() {
    let world = W::pod();
    let routes = [
        via(Family::V6, V0, neighbour(Family::V6, 1, 1)),
        Route {
            metric: 2000,
            ..on_link(Family::V6, V0)
        },
    ];
    world.must(routes.each_ref().map(exclusive));
    told(&world);

    world.set_down(V0);

    assert_eq!(
        told(&world),
        routes.each_ref().map(|it| route(Change::Removed, it))
    );
}

fn ipv4_routes_that_go_with_the_last_address_go_in_silence<W: World>() {
    let world = W::pod();
    world.must([exclusive(&on_link(Family::V4, V0))]);
    told(&world);

    world.remove_address(V0, own(Family::V4, 1));

    assert_eq!(told(&world), []);
    assert_eq!(world.made_routes(Family::V4), []);
}
