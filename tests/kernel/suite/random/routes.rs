//! Random routes.

use super::dice::Dice;
use super::step::Step;
use crate::objects::{address, net, source};
use crate::world::{LO, V0, V1, own};
use nsm_netlink::fake::FakeNamespace;
use nsm_netlink::{Attributes, Family, Hop, Op, Part, Placement, Route, RouteKind};

pub(super) fn roll(dice: &mut Dice, family: Family, fake: &FakeNamespace) -> Step {
    let standing: Vec<_> = fake
        .routes(family)
        .into_iter()
        .filter(|route| route.protocol != 2)
        .collect();
    match dice.below(10) {
        0..=5 => {
            let placement =
                dice.pick(&[Placement::Append, Placement::Append, Placement::Exclusive]);
            Step::Do(Op::AddRoute(route(dice, family), placement))
        }
        6 if dice.one_in(3) => {
            let route = route(dice, family);
            let plain = route.hop.is_some_and(|hop| {
                hop.weight == 1
                    && hop.dev <= V1
                    && fake.links().iter().any(|link| link.index == hop.dev)
            }) && route.kind == RouteKind::Unicast;
            match plain {
                true if dice.one_in(2) => Step::Prepend(route),
                true => Step::Replace(route),
                false => Step::Do(Op::AddRoute(route, Placement::Append)),
            }
        }
        7 if dice.one_in(4) => multipath(dice, family, fake),
        7..=8 if !standing.is_empty() => {
            let mut route = dice.pick(&standing);
            blur(dice, &mut route);
            Step::Do(Op::DelRoute(route))
        }
        _ => Step::Do(Op::DelRoute(route(dice, family))),
    }
}

pub(super) fn route(dice: &mut Dice, family: Family) -> Route {
    let prefixes: &[&str] = match family {
        Family::V4 => &[
            "0.0.0.0/0",
            "0.0.0.0/0",
            "10.50.0.0/16",
            "10.50.0.0/24",
            "10.50.0.9/24",
            "192.0.2.0/24",
        ],
        Family::V6 => &[
            "::/0",
            "::/0",
            "fd50::/32",
            "fd50::/48",
            "fd50::9/48",
            "2001:db8::/32",
        ],
    };
    let gateways: &[Option<&str>] = match family {
        Family::V4 => &[
            None,
            None,
            Some("172.16.1.254"),
            Some("172.16.1.253"),
            Some("172.16.2.254"),
            Some("172.16.1.1"),
            Some("192.0.2.1"),
            Some("10.50.0.7"),
            Some("172.16.1.255"),
            Some("224.0.0.5"),
        ],
        Family::V6 => &[
            None,
            None,
            Some("fd00:1::254"),
            Some("fd00:1::253"),
            Some("fd00:2::254"),
            Some("fd00:1::1"),
            Some("2001:db8::1"),
            Some("fd50::7"),
            Some("fe80::7"),
            Some("ff02::5"),
        ],
    };
    let table = dice.pick(&[1000, 1000, 1000, 1256, 254]);
    let prefix = net(dice.pick(prefixes));
    let protocol = dice.pick(&[78, 78, 4, 0]);
    let mut route = if dice.one_in(6) {
        Route::unreachable(table, prefix, protocol)
    } else {
        let dev = dice.pick(&[V0, V0, V0, V1, V1, 0, 99]);
        Route::unicast(
            table,
            prefix,
            dev,
            dice.pick(gateways).map(address),
            protocol,
        )
    };
    route.metric = dice.pick(&[0, route.metric, route.metric, 100, u32::MAX]);
    if dice.one_in(3) {
        route.onlink = !route.onlink;
    }
    blur(dice, &mut route);
    route
}

/// A route of two legs.
fn multipath(dice: &mut Dice, family: Family, fake: &FakeNamespace) -> Step {
    let first = Route {
        rest: Attributes::NONE,
        tos: 0,
        kind: RouteKind::Unicast,
        ..route(dice, family)
    };
    let indexes: Vec<_> = fake
        .links()
        .iter()
        .map(|link| link.index)
        .filter(|index| *index != LO)
        .collect();
    if indexes.is_empty() {
        return Step::Do(Op::DelRoute(first));
    }
    let gateways: &[&str] = match family {
        Family::V4 => &["172.16.1.254", "172.16.1.253", "172.16.2.254"],
        Family::V6 => &["fd00:1::254", "fd00:1::253", "fd00:2::254"],
    };
    let mut leg = || {
        let via = Some(address(dice.pick(gateways)));
        let hop = Hop {
            dev: dice.pick(&indexes),
            via,
            weight: dice.pick(&[1, 1, 2]),
        };
        Route {
            hop: Some(hop),
            scope: 0,
            onlink: !dice.one_in(3),
            ..first.clone()
        }
    };
    Step::Multipath(vec![leg(), leg()])
}

/// Changes a field, or none.
fn blur(dice: &mut Dice, route: &mut Route) {
    match dice.below(30) {
        0 => route.protocol = dice.pick(&[0, 4, 78]),
        1 => route.metric = dice.pick(&[0, 100]),
        2 => route.scope = dice.pick(&[0, 253, 254, 255, 200]),
        3 => route.tos = dice.pick(&[8, 9]),
        4 => {
            let kinds = [0, 2, 3, 6, 8, 9, 10, 11, 12].map(RouteKind::Other);
            route.kind = dice.pick(&kinds);
        }
        5 => route.kind = RouteKind::Unreachable,
        6 => route.hop = None,
        7 => {
            route.hop = Some(Hop {
                dev: V0,
                via: None,
                weight: 1,
            })
        }
        8 => route.rest = source(own(route.family(), dice.pick(&[1, 2, 9])).addr()),
        9 => route.part = Part::Whole,
        10 => {
            if let Some(hop) = &mut route.hop {
                hop.weight = dice.pick(&[2, 3]);
            }
        }
        _ => {}
    }
}
