//! Which route a delete takes.

use crate::World;
use crate::objects::{
    OURS, TABLE, THEIRS, append, by, exclusive, gateway, in_table, net, of, on_link, via,
};
use crate::world::{V0, V1};
use nsm_netlink::{Errno, Family, Op, Route, RouteKind};

crate::behaviours!(
    an_on_link_delete_leaves_the_gateway_route,
    a_delete_with_another_protocol_says_esrch,
    a_delete_picks_the_route_of_its_protocol,
    a_delete_without_a_protocol_takes_the_first_foreign_or_not,
    a_delete_that_names_another_next_hop_interface_or_metric_says_esrch,
    a_delete_in_a_table_that_does_not_exist_says_esrch,
    a_delete_of_an_ipv6_default_route_that_is_not_there_may_say_enoent,
    a_delete_compares_type_and_scope_in_ipv4,
    an_unreachable_twin_is_deleted_alone,
);

fn an_on_link_delete_leaves_the_gateway_route<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let by_gateway = via(family, V0, gateway(family, 1));
        let on_link = on_link(family, V0);
        for order in [[&by_gateway, &on_link], [&on_link, &by_gateway]] {
            world.must(order.map(append));

            world.must([Op::DelRoute(on_link.clone())]);

            assert_eq!(in_table(&world, family), std::slice::from_ref(&by_gateway));
            world.must([Op::DelRoute(by_gateway.clone())]);
        }
    }
}

fn a_delete_with_another_protocol_says_esrch<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let foreign = by(THEIRS, via(family, V0, gateway(family, 1)));
        world.must([exclusive(&foreign)]);

        assert_eq!(
            world.errno(Op::DelRoute(by(OURS, foreign.clone()))),
            Errno::ESRCH
        );
        assert_eq!(in_table(&world, family), [foreign]);
    }
}

fn a_delete_picks_the_route_of_its_protocol<W: World>() {
    let world = W::pod();
    let foreign = by(THEIRS, via(Family::V4, V0, gateway(Family::V4, 1)));
    let ours = by(OURS, foreign.clone());
    world.must([append(&foreign), append(&ours)]);

    world.must([Op::DelRoute(ours)]);

    assert_eq!(in_table(&world, Family::V4), [foreign]);
}

fn a_delete_without_a_protocol_takes_the_first_foreign_or_not<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let foreign = by(
            THEIRS,
            Route {
                metric: 500,
                ..via(family, V0, gateway(family, 1))
            },
        );
        let ours = Route {
            metric: 600,
            ..via(family, V0, gateway(family, 1))
        };
        world.must([exclusive(&foreign), exclusive(&ours)]);

        world.must([Op::DelRoute(Route {
            protocol: 0,
            metric: 0,
            ..ours.clone()
        })]);

        assert_eq!(in_table(&world, family), [ours]);
    }
}

fn a_delete_that_names_another_next_hop_interface_or_metric_says_esrch<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let route = via(family, V0, gateway(family, 1));
        world.must([exclusive(&route)]);

        for like in [
            via(family, V0, gateway(family, 2)),
            via(family, V1, gateway(family, 1)),
            Route {
                metric: 7,
                ..route.clone()
            },
            Route {
                prefix: net(of(family, "0.0.0.0/1", "::/1")),
                ..route.clone()
            },
            Route {
                table: 1,
                ..route.clone()
            },
        ] {
            assert_eq!(world.errno(Op::DelRoute(like)), Errno::ESRCH);
        }
    }
}

fn a_delete_in_a_table_that_does_not_exist_says_esrch<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let route = via(family, V0, gateway(family, 1));

        assert_eq!(world.errno(Op::DelRoute(route)), Errno::ESRCH);
    }
}

/// It is found in the kernel's own entry for a table without one, if neither protocol nor interface
/// say otherwise.
fn a_delete_of_an_ipv6_default_route_that_is_not_there_may_say_enoent<W: World>() {
    let world = W::pod();
    let twin = Route::unreachable(TABLE, Family::V6.default_prefix(), OURS);
    world.must([exclusive(&twin), Op::DelRoute(twin.clone())]);

    assert_eq!(world.errno(Op::DelRoute(twin.clone())), Errno::ESRCH);
    assert_eq!(world.errno(Op::DelRoute(by(0, twin))), Errno::ENOENT);
}

fn a_delete_compares_type_and_scope_in_ipv4<W: World>() {
    let world = W::pod();
    let route = on_link(Family::V4, V0);
    world.must([exclusive(&route)]);

    let unreachable = Route {
        kind: RouteKind::Unreachable,
        ..route.clone()
    };
    assert_eq!(world.errno(Op::DelRoute(unreachable)), Errno::ESRCH);
    assert_eq!(
        world.errno(Op::DelRoute(Route {
            scope: 0,
            ..route.clone()
        })),
        Errno::ESRCH
    );

    // `RT_SCOPE_NOWHERE` and type 0 stand for any.
    let any = Route {
        scope: 255,
        kind: RouteKind::Other(0),
        ..route
    };
    world.must([Op::DelRoute(any)]);
}

/// The kernel does not compare the type in IPv6. What tells the twin from the rest is `lo`.
fn an_unreachable_twin_is_deleted_alone<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let twin = Route::unreachable(TABLE, family.default_prefix(), OURS);
        let others = [
            Route {
                metric: u32::MAX,
                ..via(family, V0, gateway(family, 1))
            },
            Route {
                metric: u32::MAX,
                ..on_link(family, V0)
            },
        ];
        world.must(others.each_ref().map(append));
        world.must([append(&twin)]);

        world.must([Op::DelRoute(twin.clone())]);
        assert_eq!(in_table(&world, family), others);
        assert_eq!(world.errno(Op::DelRoute(twin)), Errno::ESRCH);
    }
}
