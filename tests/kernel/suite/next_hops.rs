//! What the kernel checks of a route and its next hop.

use crate::World;
use crate::objects::{
    OURS, TABLE, address, exclusive, gateway, in_table, net, of, on_link, source, via,
};
use crate::world::{V0, V1};
use nsm_netlink::{Errno, Family, Hop, Op, Route};

crate::behaviours!(
    prefixes_with_host_bits_are_refused_in_ipv4_and_masked_in_ipv6,
    a_gateway_that_is_not_on_a_link_is_refused_unless_onlink,
    a_gateway_may_be_covered_by_a_route_of_the_same_table,
    onlink_needs_an_interface,
    an_interface_that_does_not_exist_is_refused,
    the_hosts_own_address_is_no_gateway,
    an_ipv6_gateway_of_another_interface_is_refused_even_onlink,
    a_preferred_source_must_be_the_hosts,
    an_unreachable_route_with_a_next_hop_is_refused_in_ipv4,
);

fn prefixes_with_host_bits_are_refused_in_ipv4_and_masked_in_ipv6<W: World>() {
    let world = W::pod();
    let with = |family, prefix| Route {
        prefix: net(prefix),
        ..on_link(family, V0)
    };

    let bad = with(Family::V4, "10.54.0.9/16");
    assert_eq!(world.errno(exclusive(&bad)), Errno::EINVAL);
    assert_eq!(world.errno(Op::DelRoute(bad)), Errno::EINVAL);

    world.must([exclusive(&with(Family::V6, "fd54::9/64"))]);
    assert_eq!(
        in_table(&world, Family::V6),
        [with(Family::V6, "fd54::/64")]
    );
    world.must([Op::DelRoute(with(Family::V6, "fd54::7/64"))]);
}

fn a_gateway_that_is_not_on_a_link_is_refused_unless_onlink<W: World>() {
    let world = W::pod();
    for (family, errno) in [
        (Family::V4, Errno::ENETUNREACH),
        (Family::V6, Errno::EHOSTUNREACH),
    ] {
        let far = address(of(family, "192.0.2.1", "2001:db8::1"));
        let onlink = via(family, V0, far);

        let route = Route {
            onlink: false,
            ..onlink.clone()
        };
        assert_eq!(world.errno(exclusive(&route)), errno);

        world.must([exclusive(&onlink)]);
        assert_eq!(in_table(&world, family), [onlink]);
    }
}

fn a_gateway_may_be_covered_by_a_route_of_the_same_table<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let host = net(of(family, "192.0.2.1/32", "2001:db8::1/128"));
        let way = Route {
            prefix: host,
            ..on_link(family, V0)
        };
        let route = Route {
            onlink: false,
            ..via(family, V0, host.addr())
        };

        world.must([exclusive(&way), exclusive(&route)]);

        assert_eq!(in_table(&world, family).len(), 2);
    }
}

fn onlink_needs_an_interface<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let route = via(family, 0, gateway(family, 1));

        assert_eq!(world.errno(exclusive(&route)), Errno::ENODEV);
    }
}

fn an_interface_that_does_not_exist_is_refused<W: World>() {
    let world = W::pod();
    for (family, errno) in [
        (Family::V4, Errno::ENETUNREACH),
        (Family::V6, Errno::ENODEV),
    ] {
        let onlink = via(family, 9999, gateway(family, 1));
        let plain = Route {
            onlink: false,
            ..onlink.clone()
        };

        assert_eq!(world.errno(exclusive(&onlink)), Errno::ENODEV);
        assert_eq!(world.errno(exclusive(&plain)), errno);
        assert_eq!(
            world.errno(exclusive(&on_link(family, 9999))),
            Errno::ENODEV
        );
    }
}

fn the_hosts_own_address_is_no_gateway<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let own = crate::world::own(family, 1).addr();
        let onlink = via(family, V0, own);

        assert_eq!(world.errno(exclusive(&onlink)), Errno::EINVAL);

        let plain = Route {
            onlink: false,
            ..onlink
        };
        match family {
            Family::V4 => world.must([exclusive(&plain)]),
            Family::V6 => assert_eq!(world.errno(exclusive(&plain)), Errno::EINVAL),
        }
    }
}

fn an_ipv6_gateway_of_another_interface_is_refused_even_onlink<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let route = via(family, V1, gateway(family, 1));
        match family {
            Family::V4 => world.must([exclusive(&route)]),
            Family::V6 => assert_eq!(world.errno(exclusive(&route)), Errno::EINVAL),
        }
    }
}

fn a_preferred_source_must_be_the_hosts<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let with = |address| Route {
            rest: source(address),
            ..on_link(family, V0)
        };
        let own = with(crate::world::own(family, 1).addr());
        let foreign = with(gateway(family, 1));

        assert_eq!(world.errno(exclusive(&foreign)), Errno::EINVAL);
        world.must([exclusive(&own)]);

        assert_eq!(in_table(&world, family), [own]);
    }
}

fn an_unreachable_route_with_a_next_hop_is_refused_in_ipv4<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let twin = Route::unreachable(TABLE, family.default_prefix(), OURS);
        let hop = Some(Hop {
            dev: V0,
            via: None,
            weight: 1,
        });
        let route = Route {
            hop,
            ..twin.clone()
        };
        match family {
            Family::V4 => assert_eq!(world.errno(exclusive(&route)), Errno::EINVAL),
            Family::V6 => {
                world.must([exclusive(&route)]);
                assert_eq!(in_table(&world, family), [twin]);
            }
        }
    }
}
