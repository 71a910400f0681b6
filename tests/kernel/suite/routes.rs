//! Routes: which of them are one, and how they stand to each other.

use crate::World;
use crate::objects::{
    OURS, TABLE, THEIRS, append, by, exclusive, gateway, in_table, net, of, on_link, via,
};
use crate::world::V0;
use nsm_netlink::{Errno, Family, Route, RouteKind};

crate::behaviours!(
    a_route_reads_as_it_was_written,
    a_second_exclusive_route_of_a_prefix_is_refused_whoever_made_the_first,
    another_metric_is_another_route,
    an_appended_ipv4_route_stands_behind,
    a_prepended_ipv4_route_stands_in_front,
    an_identical_ipv4_route_is_refused_and_one_of_another_protocol_is_not,
    an_identical_ipv6_route_is_refused_of_whatever_protocol,
    a_replace_overwrites_a_foreign_route,
    the_metric_that_is_not_named_is_the_familys,
    the_protocol_that_is_not_named_is_boot_in_ipv6,
    a_large_table_number_works,
    longer_prefixes_are_shown_first,
);

fn a_route_reads_as_it_was_written<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let prefix = net(of(family, "10.50.0.0/16", "fd50::/48"));
        let routes = [
            Route {
                prefix,
                ..via(family, V0, gateway(family, 1))
            },
            Route {
                prefix,
                metric: 2000,
                ..on_link(family, V0)
            },
            Route {
                prefix,
                kind: RouteKind::Other(8),
                ..Route::unreachable(TABLE, prefix, 200)
            },
        ];

        world.must(routes.each_ref().map(exclusive));

        assert_eq!(in_table(&world, family), routes);
    }
}

fn a_second_exclusive_route_of_a_prefix_is_refused_whoever_made_the_first<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let first = by(THEIRS, via(family, V0, gateway(family, 1)));
        world.must([exclusive(&first)]);

        for second in [
            first.clone(),
            via(family, V0, gateway(family, 1)),
            via(family, V0, gateway(family, 2)),
        ] {
            assert_eq!(world.errno(exclusive(&second)), Errno::EEXIST);
        }
    }
}

fn another_metric_is_another_route<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let later = Route {
            metric: 3000,
            ..via(family, V0, gateway(family, 1))
        };
        let sooner = Route {
            metric: 2000,
            ..via(family, V0, gateway(family, 1))
        };

        world.must([exclusive(&later), exclusive(&sooner)]);

        assert_eq!(in_table(&world, family), [sooner, later]);
    }
}

fn an_appended_ipv4_route_stands_behind<W: World>() {
    let world = W::pod();
    let [first, second] = [2, 1].map(|n| via(Family::V4, V0, gateway(Family::V4, n)));

    world.must([exclusive(&first), append(&second)]);

    assert_eq!(in_table(&world, Family::V4), [first, second]);
}

fn a_prepended_ipv4_route_stands_in_front<W: World>() {
    let world = W::pod();
    let [first, second] = [2, 1].map(|n| via(Family::V4, V0, gateway(Family::V4, n)));
    world.must([exclusive(&first)]);

    assert!(world.prepend(&second));

    assert_eq!(in_table(&world, Family::V4), [second, first]);
}

fn an_identical_ipv4_route_is_refused_and_one_of_another_protocol_is_not<W: World>() {
    let world = W::pod();
    let foreign = by(THEIRS, via(Family::V4, V0, gateway(Family::V4, 1)));
    let ours = by(OURS, foreign.clone());
    world.must([append(&foreign)]);

    assert_eq!(world.errno(append(&foreign)), Errno::EEXIST);
    world.must([append(&ours)]);

    assert_eq!(in_table(&world, Family::V4), [foreign, ours]);
}

fn an_identical_ipv6_route_is_refused_of_whatever_protocol<W: World>() {
    let world = W::pod();
    let foreign = by(THEIRS, via(Family::V6, V0, gateway(Family::V6, 1)));
    world.must([append(&foreign)]);

    assert_eq!(
        world.errno(append(&by(OURS, foreign.clone()))),
        Errno::EEXIST
    );
    let on_link = Route {
        metric: 5,
        ..on_link(Family::V6, V0)
    };
    world.must([append(&by(THEIRS, on_link.clone()))]);
    assert_eq!(world.errno(append(&on_link)), Errno::EEXIST);
}

fn a_replace_overwrites_a_foreign_route<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let foreign = by(THEIRS, via(family, V0, gateway(family, 1)));
        let ours = via(family, V0, gateway(family, 2));
        world.must([exclusive(&foreign)]);

        assert!(world.replace(&ours));

        assert_eq!(in_table(&world, family), [ours]);
    }
}

fn the_metric_that_is_not_named_is_the_familys<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let route = Route {
            metric: 0,
            ..on_link(family, V0)
        };

        world.must([exclusive(&route)]);

        assert_eq!(in_table(&world, family)[0].metric, family.default_metric());
    }
}

fn the_protocol_that_is_not_named_is_boot_in_ipv6<W: World>() {
    let world = W::pod();
    for (family, stored) in [(Family::V4, 0), (Family::V6, 3)] {
        world.must([exclusive(&by(0, on_link(family, V0)))]);

        assert_eq!(in_table(&world, family), [by(stored, on_link(family, V0))]);
    }
}

fn a_large_table_number_works<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let tables = [1, 256, 0x4e53_4d01, 0x8000_0000, u32::MAX];
        let mut routes = tables.map(|table| Route {
            table,
            ..on_link(family, V0)
        });
        world.must(routes.each_ref().map(exclusive));

        let mut made = world.made_routes(family);
        made.sort();
        routes.sort();
        assert_eq!(made, routes);
    }
}

fn longer_prefixes_are_shown_first<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let prefixes = match family {
            Family::V4 => ["0.0.0.0/0", "10.1.0.0/24", "10.1.0.0/16", "10.2.0.0/16"],
            Family::V6 => ["fd01:1::/32", "fd01::/16", "fd02::/16", "::/0"],
        };
        let routes = prefixes.map(|prefix| Route {
            prefix: net(prefix),
            ..on_link(family, V0)
        });
        world.must(routes.iter().rev().map(exclusive));

        // In IPv4 by address, of one address the longer first; in IPv6 a prefix follows all that
        // it holds.
        assert_eq!(in_table(&world, family), routes);
    }
}
