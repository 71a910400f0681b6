//! What interfaces and addresses do to rules and routes.

use crate::World;
use crate::objects::{
    OURS, TABLE, THEIRS, append, exclusive, neighbour, net, on_link, rule, source, via,
};
use crate::world::{LO, V0, V1, own};
use nsm_netlink::{Attributes, Errno, Family, Hop, Kernel, Op, Part, Route, Rule};
use std::net::IpAddr;

crate::behaviours!(
    links_are_listed_by_number_with_name_and_state,
    when_a_link_goes_down_the_routes_via_it_go_and_an_unreachable_twin_stays,
    nothing_comes_back_when_the_link_comes_up,
    a_link_without_a_carrier_keeps_its_routes_and_takes_new_ones,
    a_link_that_is_down_takes_no_route,
    when_a_link_is_deleted_the_routes_via_it_go,
    with_the_last_ipv4_address_the_ipv4_routes_go,
    with_one_of_two_ipv4_addresses_no_route_of_ours_goes,
    with_the_ipv6_address_only_the_preferred_source_goes,
    an_ipv6_address_that_goes_with_its_link_stays_preferred,
    a_rename_changes_no_route,
    where_ipv6_is_forbidden_its_routes_go,
    rules_outlive_all_of_it,
    a_multipath_route_outlives_one_of_its_links_going_down,
    a_deleted_link_takes_an_ipv4_multipath_route_and_one_ipv6_leg,
    an_ipv6_route_that_refuses_goes_with_lo,
    a_link_that_is_made_anew_has_another_number_and_no_routes,
);

fn default_routes<W: World>(world: &W, family: Family) -> Vec<Route> {
    let routes = vec![
        via(family, V0, neighbour(family, 1, 1)),
        Route {
            metric: 2000,
            ..on_link(family, V0)
        },
        Route::unreachable(TABLE, family.default_prefix(), OURS),
    ];
    world.must(routes.iter().map(exclusive));
    routes
}

fn links_are_listed_by_number_with_name_and_state<W: World>() {
    let world = W::pod();
    world.set_down(V1);

    let links = world.kernel().links().unwrap();

    let links: Vec<_> = links
        .iter()
        .map(|link| (link.index, &*link.name, link.up))
        .collect();
    assert_eq!(
        links,
        [(LO, "lo", true), (V0, "v0", true), (V1, "v1", false)]
    );
}

fn when_a_link_goes_down_the_routes_via_it_go_and_an_unreachable_twin_stays<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        default_routes(&world, family);
        world.must([append(&Route {
            table: 1,
            ..on_link(family, V1)
        })]);
    }

    world.set_down(V0);

    for family in Family::ALL {
        let left = world.made_routes(family);
        assert!(left.contains(&Route::unreachable(TABLE, family.default_prefix(), OURS)));
        assert!(left.contains(&Route {
            table: 1,
            ..on_link(family, V1)
        }));
        assert_eq!(left.len(), 2);
    }
}

fn nothing_comes_back_when_the_link_comes_up<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        default_routes(&world, family);
    }

    world.set_down(V0);
    world.set_up(V0);

    for family in Family::ALL {
        assert_eq!(world.made_routes(family).len(), 1);
    }
}

fn a_link_without_a_carrier_keeps_its_routes_and_takes_new_ones<W: World>() {
    let world = W::pod();
    let routes = Family::ALL.map(|family| default_routes(&world, family));

    world.lose_carrier(V0);

    assert_eq!(Family::ALL.map(|family| world.made_routes(family)), routes);
    assert!(world.kernel().links().unwrap().iter().all(|link| link.up));
    world.must(Family::ALL.map(|family| {
        exclusive(&Route {
            table: 1,
            ..via(family, V0, neighbour(family, 1, 1))
        })
    }));
}

fn a_link_that_is_down_takes_no_route<W: World>() {
    let world = W::pod();
    world.set_down(V0);
    for (family, errno) in [
        (Family::V4, Errno::ENETUNREACH),
        (Family::V6, Errno::EHOSTUNREACH),
    ] {
        let onlink = via(family, V0, neighbour(family, 1, 1));
        let plain = Route {
            onlink: false,
            ..onlink.clone()
        };

        assert_eq!(
            world.errno(exclusive(&on_link(family, V0))),
            Errno::ENETDOWN
        );
        assert_eq!(world.errno(exclusive(&onlink)), Errno::ENETDOWN);
        assert_eq!(world.errno(exclusive(&plain)), errno);
    }
}

fn when_a_link_is_deleted_the_routes_via_it_go<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        default_routes(&world, family);
    }

    world.delete_link(V0);

    for family in Family::ALL {
        let twin = Route::unreachable(TABLE, family.default_prefix(), OURS);
        assert_eq!(world.made_routes(family), [twin]);
        assert_eq!(world.errno(exclusive(&on_link(family, V0))), Errno::ENODEV);
    }
}

fn with_the_last_ipv4_address_the_ipv4_routes_go<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        default_routes(&world, family);
    }

    world.remove_address(V0, own(Family::V4, 1));
    assert_eq!(world.made_routes(Family::V4).len(), 1);
    assert_eq!(world.made_routes(Family::V6).len(), 3);

    world.add_address(V0, own(Family::V4, 1));
    assert_eq!(world.made_routes(Family::V4).len(), 1);
}

fn from_source(address: IpAddr) -> Route {
    Route {
        rest: source(address),
        ..on_link(Family::of(&address), V0)
    }
}

fn with_one_of_two_ipv4_addresses_no_route_of_ours_goes<W: World>() {
    let world = W::pod();
    let second = net("172.17.0.1/24");
    world.add_address(V0, second);
    let route = from_source(second.addr());
    let in_main = Route {
        table: 254,
        prefix: net("10.9.0.0/16"),
        ..route.clone()
    };
    world.must([exclusive(&route), exclusive(&in_main)]);

    world.remove_address(V0, second);

    // In the main table the route goes that prefers the address.
    assert_eq!(world.made_routes(Family::V4), [route]);
}

/// From the routes of every table and interface, but not while another interface has the address.
fn with_the_ipv6_address_only_the_preferred_source_goes<W: World>() {
    let world = W::pod();
    let address = own(Family::V6, 1);
    let route = from_source(address.addr());
    let elsewhere = Route {
        table: 1,
        hop: on_link(Family::V6, V1).hop,
        ..route.clone()
    };
    let routes = [elsewhere, route];
    world.must(routes.each_ref().map(exclusive));
    world.add_address(V1, address);

    world.remove_address(V0, address);
    assert_eq!(world.made_routes(Family::V6), routes);

    world.remove_address(V1, address);
    let plain = routes.map(|route| Route {
        rest: Attributes::NONE,
        ..route
    });
    assert_eq!(world.made_routes(Family::V6), plain);
}

fn an_ipv6_address_that_goes_with_its_link_stays_preferred<W: World>() {
    let world = W::pod();
    let route = from_source(own(Family::V6, 1).addr());
    let elsewhere = Route {
        table: 1,
        hop: on_link(Family::V6, V1).hop,
        ..route
    };
    world.must([exclusive(&elsewhere)]);

    world.set_down(V0);

    assert_eq!(world.made_routes(Family::V6), [elsewhere]);
}

fn a_rename_changes_no_route<W: World>() {
    let world = W::pod();
    let routes = Family::ALL.map(|family| default_routes(&world, family));

    world.rename(V0, "other");

    assert_eq!(Family::ALL.map(|family| world.made_routes(family)), routes);
}

fn where_ipv6_is_forbidden_its_routes_go<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        default_routes(&world, family);
    }

    world.set_ipv6(V0, false);

    assert_eq!(world.made_routes(Family::V4).len(), 3);
    assert_eq!(world.made_routes(Family::V6).len(), 1);
    assert_eq!(
        world.errno(exclusive(&on_link(Family::V6, V0))),
        Errno::EACCES
    );
}

fn rules_outlive_all_of_it<W: World>() {
    let world = W::pod();
    let rules = Family::ALL.map(|family| {
        let named = Rule {
            rest: [(3, b"v0\0".to_vec())].into_iter().collect(),
            ..rule(family, 50, TABLE)
        };
        vec![named, rule(family, 100, TABLE)]
    });
    world.must(rules.iter().flatten().cloned().map(Op::AddRule));

    world.set_down(V0);
    world.set_up(V0);
    world.remove_address(V0, own(Family::V4, 1));
    world.rename(V1, "other");
    world.set_ipv6(V1, false);
    world.delete_link(V0);

    assert_eq!(Family::ALL.map(|family| world.made_rules(family)), rules);
}

fn two_legs(family: Family) -> [Route; 2] {
    let leg = |dev, n, part| {
        let gateway = neighbour(family, n, 1);
        let hop = Some(Hop {
            dev,
            via: Some(gateway),
            weight: 1,
        });
        Route {
            hop,
            part,
            onlink: false,
            ..via(family, dev, gateway)
        }
    };
    [leg(V0, 1, Part::First), leg(V1, 2, Part::Further)]
}

fn a_multipath_route_outlives_one_of_its_links_going_down<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        assert!(world.add_multipath(&two_legs(family)));
    }

    world.set_down(V0);
    assert_eq!(
        Family::ALL.map(|family| world.made_routes(family)),
        Family::ALL.map(two_legs)
    );

    world.set_down(V1);
    assert_eq!(
        Family::ALL.map(|family| world.made_routes(family)),
        [[], []]
    );
}

fn a_deleted_link_takes_an_ipv4_multipath_route_and_one_ipv6_leg<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        assert!(world.add_multipath(&two_legs(family)));
    }

    world.delete_link(V0);

    assert_eq!(world.made_routes(Family::V4), []);
    let [_, left] = two_legs(Family::V6);
    assert_eq!(
        world.made_routes(Family::V6),
        [Route {
            part: Part::Whole,
            ..left
        }]
    );
}

/// In IPv6 such a route hangs on `lo`.
fn an_ipv6_route_that_refuses_goes_with_lo<W: World>() {
    let world = W::pod();
    let twin = |family: Family| Route::unreachable(TABLE, family.default_prefix(), THEIRS);
    world.must(Family::ALL.map(|family| exclusive(&twin(family))));

    world.set_down(LO);

    assert_eq!(world.made_routes(Family::V4), [twin(Family::V4)]);
    assert_eq!(world.made_routes(Family::V6), []);
    world.must([exclusive(&twin(Family::V6))]);
}

fn a_link_that_is_made_anew_has_another_number_and_no_routes<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        world.must([exclusive(&on_link(family, V0))]);
    }
    world.delete_link(V0);

    assert_eq!(world.add_link("v0"), V1 + 1);
    world.set_up(V1 + 1);
    assert_eq!(
        Family::ALL.map(|family| world.made_routes(family)),
        [[], []]
    );
}
