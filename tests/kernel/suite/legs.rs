//! Routes of several legs, and IPv6 routes that become such without having been asked.

use crate::World;
use crate::objects::{
    OURS, THEIRS, append, by, exclusive, gateway, in_table, legs, neighbour, on_link, via,
};
use crate::world::{V0, V1};
use nsm_netlink::{Errno, Family, Hop, Op, Route};

crate::behaviours!(
    appended_ipv6_routes_with_gateways_become_legs_under_the_first_ones_protocol,
    when_the_first_leg_goes_the_next_ones_protocol_is_shown,
    an_on_link_ipv6_route_stands_beside_gateway_routes,
    an_on_link_ipv6_route_between_two_legs_is_not_shown,
    a_delete_of_one_leg_leaves_the_others,
    a_replace_takes_all_legs_with_it_in_ipv6,
    a_multipath_route_reads_leg_by_leg,
    deleting_an_ipv4_multipath_route_takes_all_of_it,
);

fn appended_ipv6_routes_with_gateways_become_legs_under_the_first_ones_protocol<W: World>() {
    let world = W::pod();
    let [a, b, c] = three_legs();

    world.must([exclusive(&a), append(&b), append(&c)]);

    assert_eq!(
        in_table(&world, Family::V6),
        legs([a.clone(), by(4, b), by(4, c)])
    );
}

fn when_the_first_leg_goes_the_next_ones_protocol_is_shown<W: World>() {
    let world = W::pod();
    let [a, b, c] = three_legs();
    world.must([exclusive(&a), append(&b), append(&c)]);

    world.must([Op::DelRoute(a)]);
    assert_eq!(
        in_table(&world, Family::V6),
        legs([b.clone(), by(OURS, c.clone())])
    );

    world.must([Op::DelRoute(b)]);
    assert_eq!(in_table(&world, Family::V6), [c]);
}

fn an_on_link_ipv6_route_stands_beside_gateway_routes<W: World>() {
    let world = W::pod();
    let [a, b, _] = three_legs();
    let on_link = on_link(Family::V6, V0);

    world.must([exclusive(&a), append(&b), append(&on_link)]);

    let [a, b] = legs([a, by(THEIRS, b)]);
    assert_eq!(in_table(&world, Family::V6), [a, b, on_link]);
}

/// From the first leg the dump goes on behind the last (`rt6_dump_route`), over what lies between.
fn an_on_link_ipv6_route_between_two_legs_is_not_shown<W: World>() {
    let world = W::pod();
    let [a, b, _] = three_legs();
    let on_link = on_link(Family::V6, V0);

    world.must([exclusive(&a), append(&on_link), append(&b)]);

    assert_eq!(
        in_table(&world, Family::V6),
        legs([a.clone(), by(THEIRS, b.clone())])
    );
    assert_eq!(world.errno(append(&on_link)), Errno::EEXIST);
    world.must([Op::DelRoute(a)]);
    assert_eq!(in_table(&world, Family::V6), [on_link, b]);
}

fn a_delete_of_one_leg_leaves_the_others<W: World>() {
    let world = W::pod();
    let [a, b, c] = three_legs();
    world.must([exclusive(&a), append(&b), append(&c)]);

    // With our protocol another's leg is not found, although the dump shows all under one.
    assert_eq!(world.errno(Op::DelRoute(by(OURS, c.clone()))), Errno::ESRCH);
    world.must([Op::DelRoute(b)]);

    assert_eq!(in_table(&world, Family::V6), legs([a, by(THEIRS, c)]));
}

fn a_replace_takes_all_legs_with_it_in_ipv6<W: World>() {
    let world = W::pod();
    for (family, left) in [(Family::V4, 2), (Family::V6, 1)] {
        let routes = [1, 2].map(|n| by(THEIRS, via(family, V0, gateway(family, n))));
        world.must(routes.each_ref().map(append));

        assert!(world.replace(&via(family, V0, gateway(family, 3))));

        assert_eq!(in_table(&world, family).len(), left);
    }
}

fn a_multipath_route_reads_leg_by_leg<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let legs = two_legs(family);

        assert!(world.add_multipath(&legs));

        assert_eq!(in_table(&world, family), legs);
    }
}

fn deleting_an_ipv4_multipath_route_takes_all_of_it<W: World>() {
    let world = W::pod();
    let legs = two_legs(Family::V4);
    for leg in &legs {
        assert!(world.add_multipath(&legs));

        world.must([Op::DelRoute(leg.clone())]);

        assert_eq!(in_table(&world, Family::V4), []);
    }
}

/// Three legs, of which the second is ours.
fn three_legs() -> [Route; 3] {
    [
        by(THEIRS, via(Family::V6, V0, gateway(Family::V6, 1))),
        via(Family::V6, V1, neighbour(Family::V6, 2, 1)),
        by(9, via(Family::V6, V0, gateway(Family::V6, 3))),
    ]
}

fn two_legs(family: Family) -> [Route; 2] {
    let leg = |dev, gateway, weight| {
        let hop = Some(Hop {
            dev,
            via: Some(gateway),
            weight,
        });
        Route {
            hop,
            onlink: false,
            ..via(family, dev, gateway)
        }
    };
    legs([
        leg(V0, gateway(family, 1), 2),
        leg(V1, neighbour(family, 2, 1), 3),
    ])
}
