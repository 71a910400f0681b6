use super::{EVERY_TABLE, address, bytes, net, payload, read_routes};
use crate::rtnl::{route, wire::af};
use crate::{Family, Hop, Part, Placement, Route, RouteKind};
use nix::libc;
use std::net::{IpAddr, Ipv6Addr};

fn read_back(route: &Route) -> Vec<Route> {
    let payload = payload(|requests| route::add(requests, route, Placement::Append));
    read_routes(&payload, route.family()).unwrap()
}

#[test]
fn a_route_is_read_as_it_was_written() {
    let mut rich = Route::unicast(20_000, net("10.0.0.0/8"), 3, address("172.16.1.1"), 78);
    rich.metric = 50;
    rich.rest.insert(libc::RTA_PREFSRC, &[172, 16, 1, 2]);
    rich.rest
        .insert(libc::RTA_METRICS, &[8, 0, 2, 0, 0xdc, 5, 0, 0]);
    let mut sourced = Route::unicast(20_000, net("fd00::/16"), 3, None, 78);
    let mut source = "fd66::".parse::<Ipv6Addr>().unwrap().octets().to_vec();
    source.push(16);
    sourced.rest.insert(libc::RTA_SRC, &source);
    let routes = [
        rich,
        sourced,
        Route::unicast(20_000, net("0.0.0.0/0"), 3, None, 78),
        Route::unicast(1, net("0.0.0.0/0"), 3, address("fd00::1"), 78),
        Route::unicast(u32::MAX, net("::/0"), 3, address("fd00::1"), 78),
        Route::unreachable(20_000, net("0.0.0.0/0"), 78),
        Route {
            kind: RouteKind::Other(6),
            ..Route::unreachable(9, net("fd00::/8"), 78)
        },
    ];

    for route in routes {
        assert_eq!(read_back(&route), [route]);
    }
}

#[test]
fn a_share_other_than_one_is_written_as_a_leg() {
    let mut route = Route::unicast(20_000, net("::/0"), 3, address("fd00::1"), 78);
    route.hop = Some(Hop {
        dev: 3,
        via: address("fd00::1"),
        weight: 5,
    });

    assert_eq!(
        read_back(&route),
        [Route {
            part: Part::First,
            ..route
        }]
    );
}

#[test]
fn an_ipv4_multipath_route_is_read_leg_by_leg() {
    let sent = bytes(
        "02100000fc4e00010000000008000f00204e0000080001000a09000034000900100004020300000008000500
         ac1001fe2000000003000000160012000a00fd0100000000000000000000000000090000",
    );

    let legs = read_routes(&sent, Family::V4).unwrap();

    let whole = Route::unicast(20_000, net("10.9.0.0/16"), 3, address("172.16.1.254"), 78);
    let hop = |via, weight| {
        Some(Hop {
            dev: 3,
            via: address(via),
            weight,
        })
    };
    let first = Route {
        hop: hop("172.16.1.254", 3),
        part: Part::First,
        ..whole.clone()
    };
    let hop = hop("fd01::9", 1);
    assert_eq!(
        legs,
        [
            first,
            Route {
                hop,
                onlink: false,
                part: Part::Further,
                ..whole
            }
        ]
    );
}

#[test]
fn an_ipv6_multipath_route_is_read_leg_by_leg() {
    let sent = bytes(
        "0a300000fc4e00010000000008000f00204e000014000100fd09000000000000000000000000000008000600
         000400003c0009001c0000020300000014000500fd0100000000000000000000000000fe1c00000003000000
         14000500fd0100000000000000000000000000fd24000c000000000000000000000000000000000000000000
         0000000000000000000000000500140000000000",
    );

    let legs = read_routes(&sent, Family::V6).unwrap();

    assert_eq!(legs.len(), 2);
    assert!(
        legs.iter()
            .all(|leg| leg.metric == 1024 && leg.rest.is_empty())
    );
    assert_eq!(
        legs[0].hop,
        Some(Hop {
            dev: 3,
            via: address("fd01::fe"),
            weight: 3
        })
    );
    assert_eq!(
        legs[1].hop,
        Some(Hop {
            dev: 3,
            via: address("fd01::fd"),
            weight: 1
        })
    );
    assert_eq!([legs[0].part, legs[1].part], [Part::First, Part::Further]);
}

#[test]
fn a_route_that_refuses_leads_nowhere_though_the_kernel_shows_lo() {
    let sent = bytes(
        "0a000000fc4e00070000000008000f00204e000008000600ffffffff080004000100000024000c0000000000
         000000000000000000000000000000000000000000000000000000000500140000000000",
    );

    let routes = read_routes(&sent, Family::V6).unwrap();

    assert_eq!(routes, [Route::unreachable(20_000, net("::/0"), 78)]);
}

#[test]
fn routes_of_other_tables_and_cached_ones_are_left_out() {
    let route = Route::unicast(20_000, net("::/0"), 3, None, 78);
    let mut written = payload(|requests| route::add(requests, &route, Placement::Append));
    let mut routes = Vec::new();

    route::decode(&written, Family::V6, &(1..=19_999), &mut routes).unwrap();
    written[8..12].copy_from_slice(&libc::RTM_F_CLONED.to_ne_bytes());
    route::decode(&written, Family::V6, &EVERY_TABLE, &mut routes).unwrap();

    assert!(routes.is_empty());
}

/// A kernel without IPv6 answers a dump of it with the routes of all families that it has.
#[test]
fn routes_of_another_family_than_was_asked_for_are_left_out() {
    let v4 = [
        Route::unicast(20_000, net("0.0.0.0/0"), 3, address("172.16.1.1"), 78),
        Route::unicast(20_000, net("10.9.0.0/16"), 3, None, 78),
        Route::unreachable(20_000, net("10.8.0.0/16"), 78),
    ];
    let v6 = [
        Route::unicast(20_000, net("::/0"), 3, address("fd00::1"), 78),
        Route::unicast(20_000, net("fd00::/8"), 3, None, 78),
    ];
    let message =
        |route: &Route| payload(|requests| route::add(requests, route, Placement::Append));
    let mut messages: Vec<Vec<u8>> = v4.iter().chain(&v6).map(message).collect();
    // Of a family that is none of ours, and with what makes no sense in ours: `AF_MPLS` labels.
    messages.push(bytes(
        "1c140000fe0402010000000008000f00fe000000070001000006410008000400030000 00",
    ));

    for (family, expected) in [(Family::V4, &v4[..]), (Family::V6, &v6)] {
        let mut routes = Vec::new();
        for message in &messages {
            route::decode(message, family, &EVERY_TABLE, &mut routes).unwrap();
        }
        assert_eq!(routes, expected);
    }
}

#[test]
fn the_legs_of_a_route_of_another_family_are_left_out() {
    let v4 = bytes(
        "02100000fc4e00010000000008000f00204e0000080001000a09000034000900100004020300000008000500
         ac1001fe2000000003000000160012000a00fd0100000000000000000000000000090000",
    );
    let v6 = bytes(
        "0a300000fc4e00010000000008000f00204e000014000100fd09000000000000000000000000000008000600
         000400003c0009001c0000020300000014000500fd0100000000000000000000000000fe1c00000003000000
         14000500fd0100000000000000000000000000fd24000c000000000000000000000000000000000000000000
         0000000000000000000000000500140000000000",
    );

    assert_eq!(read_routes(&v4, Family::V4).unwrap().len(), 2);
    assert_eq!(read_routes(&v6, Family::V6).unwrap().len(), 2);
    assert_eq!(read_routes(&v4, Family::V6), Ok(vec![]));
    assert_eq!(read_routes(&v6, Family::V4), Ok(vec![]));
}

/// Taken for one of IPv6 it would name no prefix that exists.
#[test]
fn a_route_whose_prefix_is_of_another_family_than_its_head_is_no_route() {
    for (family, other) in [(Family::V4, "fd00::/8"), (Family::V6, "10.0.0.0/8")] {
        let route = Route::unicast(20_000, net(other), 3, None, 78);
        let mut message = payload(|requests| route::add(requests, &route, Placement::Append));
        message[0] = af(family);

        assert!(read_routes(&message, family).is_err(), "{family}");
    }
}

#[test]
fn a_delete_of_an_ipv6_route_always_names_a_gateway_and_a_device() {
    let gateway = |route: &Route| {
        let routes = read_routes(&payload(|it| route::delete(it, route)), Family::V6).unwrap();
        routes[0].hop
    };
    let unspecified = Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let on_link = Route::unicast(20_000, net("fd00::/8"), 3, None, 78);
    let refusing = Route::unreachable(20_000, net("fd00::/8"), 78);
    // Of a route that refuses, what it leads by is not read back.
    let of_type_unicast = Route {
        kind: RouteKind::Unicast,
        ..refusing
    };

    assert_eq!(
        gateway(&on_link),
        Some(Hop {
            dev: 3,
            via: unspecified,
            weight: 1
        })
    );
    assert_eq!(
        gateway(&of_type_unicast),
        Some(Hop {
            dev: 1,
            via: unspecified,
            weight: 1
        })
    );
}

#[test]
fn an_ipv4_leg_is_deleted_as_the_whole_route() {
    let route = Route::unicast(20_000, net("10.0.0.0/8"), 3, address("10.1.1.1"), 78);
    let leg = Route {
        part: Part::Further,
        ..route
    };

    let written = payload(|requests| route::delete(requests, &leg));

    assert_eq!(read_routes(&written, Family::V4).unwrap()[0].hop, None);
}
