//! Random rules and routes that decide something, and random packets.

use super::dice::Dice;
use crate::objects::address;
use crate::world::{V0, V1, own};
use ipnet::IpNet;
use nsm_netlink::fake::Flow;
use nsm_netlink::{Family, Op, Placement, RouteKind};

/// A rule or a route that decides something, and no two routes of one prefix and metric: among
/// equals the kernel picks by a hash of the packet.
pub(super) fn op(dice: &mut Dice) -> Op {
    let family = dice.pick(&Family::ALL);
    if dice.one_in(2) {
        let mut rule = super::rules::rule(dice, family);
        let own = own(family, dice.pick(&[1, 2]));
        if let Some(from) = &mut rule.selector.from {
            *from = IpNet::new_assert(
                own.addr(),
                dice.pick(&[family.host_len(), own.prefix_len()]),
            );
        }
        return Op::AddRule(rule);
    }
    let mut route = super::routes::route(dice, family);
    let number = dice.pick(&[6, 7, 8, 9]);
    if let Some(hop) = &mut route.hop {
        // A gateway that is the host itself counts as none or as one, after the way it was found.
        hop.via = hop.via.filter(|via| *via != own(family, 1).addr());
    }
    if route.hop.is_none() {
        route.kind = if number == 7 {
            RouteKind::Unreachable
        } else {
            RouteKind::Other(number)
        };
    } else {
        route.kind = RouteKind::Unicast;
    }
    Op::AddRoute(route, Placement::Exclusive)
}

pub(super) fn flow(dice: &mut Dice) -> Flow {
    let family = dice.pick(&Family::ALL);
    let destinations: &[&str] = match family {
        Family::V4 => &[
            "10.50.0.5",
            "10.50.7.5",
            "192.0.2.5",
            "198.18.0.1",
            "172.16.1.9",
            "172.16.2.1",
        ],
        Family::V6 => &[
            "fd50::5",
            "fd50:0:7::5",
            "2001:db8::5",
            "2001:db9::1",
            "fd00:1::9",
            "fd00:2::1",
        ],
    };
    let proto = dice.pick(&[None, Some(6), Some(17)]);
    Flow {
        from: dice.pick(&[
            None,
            Some(own(family, 1).addr()),
            Some(own(family, 2).addr()),
        ]),
        proto,
        sport: dice.pick(&[None, Some(53)]).filter(|_| proto.is_some()),
        dport: dice
            .pick(&[None, Some(80), Some(85)])
            .filter(|_| proto.is_some()),
        mark: dice.pick(&[0, 0, 5]),
        oif: dice.pick(&[None, None, None, Some(V0), Some(V1)]),
        ..Flow::to(address(dice.pick(destinations)))
    }
}
