//! Rules and routes of others, which must stand after all as they stood before.

use super::forwarder::{PROTOCOL, TABLES};
use super::state::State;
use super::topology::{Interface, Topology};
use super::world::WorldError;
use ipnet::IpNet;
use nsm_netlink::{Family, Kernel, Op, Placement, Route, RouteKind, Rtnl, Rule, Selector};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An administrator's mark.
const STATIC: u8 = 4;
/// The kernel's own mark.
const KERNEL: u8 = 2;

/// Puts rules and routes beside those of the policies that are ours in all but one thing. All their
/// routes leave by eth0, to where no datagram goes.
pub fn plant(pod: &mut Rtnl, eth0: u32, topology: &Topology) -> Result<(), WorldError> {
    for (family, gateway) in Family::ALL.into_iter().zip(Interface::eth0().gateways) {
        let elsewhere = Selector {
            from: Some(documentation(family)),
            ..Selector::any(family)
        };
        let policy = topology
            .policies
            .iter()
            .find(|policy| policy.family() == family);
        let ours = policy.map(|policy| policy.selector());
        // Each stands behind the policies, so that it takes nothing from them.
        let rules = [
            // The selector of a policy, by somebody else and into a table of his.
            ours.map(|selector| Rule::lookup(32500, selector, 1234, STATIC)),
            // Our mark, and not our table.
            Some(Rule::lookup(32501, elsewhere.clone(), 7000, PROTOCOL)),
            // Our table, and not our mark.
            Some(Rule::lookup(32502, elsewhere, 24000, STATIC)),
        ];
        for rule in rules.into_iter().flatten() {
            let (table, protocol) = (rule.table, rule.protocol);
            let to = documentation(family);
            let route = Route {
                onlink: false,
                ..Route::unicast(table, to, eth0, Some(gateway), protocol)
            };
            for op in [Op::AddRoute(route, Placement::Exclusive), Op::AddRule(rule)] {
                for result in pod.execute(std::slice::from_ref(&op))? {
                    result.map_err(|source| WorldError::Refused {
                        op: op.to_string(),
                        source,
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// How many rules and routes that are nobody's business have gone, come, or changed.
pub fn changes(before: &State, after: &State, topology: &Topology) -> usize {
    let of_policy = |rule: &Rule| {
        topology
            .policies
            .iter()
            .any(|policy| policy.selector() == rule.selector)
    };
    let of_connection = |route: &Route| {
        let name = route.dev().and_then(|dev| after.names.get(&dev));
        name.is_some_and(|name| topology.connections.iter().any(|it| it.name == *name))
    };
    let refuses = |route: &Route| {
        route.kind == RouteKind::Unreachable
            && route.protocol == PROTOCOL
            && TABLES.contains(&route.table)
    };
    // The kernel itself adds routes when it has made sure of a link's own address.
    let of_kernel = |route: &Route| route.protocol == KERNEL;
    lacking(&before.rules, &after.rules, |_| false)
        + lacking(&before.routes, &after.routes, |_| false)
        + lacking(&after.rules, &before.rules, of_policy)
        + lacking(&after.routes, &before.routes, |route| {
            of_connection(route) || refuses(route) || of_kernel(route)
        })
}

/// How many of `all` are not in `other`, equal ones counted one by one.
fn lacking<T: PartialEq>(all: &[T], other: &[T], excused: impl Fn(&T) -> bool) -> usize {
    let mut rest: Vec<&T> = other.iter().collect();
    all.iter()
        .filter(|item| match rest.iter().position(|other| other == item) {
            Some(at) => {
                rest.swap_remove(at);
                false
            }
            None => !excused(item),
        })
        .count()
}

/// A network that is nobody's (RFC 5737, RFC 3849).
fn documentation(family: Family) -> IpNet {
    let (address, len): (IpAddr, u8) = match family {
        Family::V4 => (Ipv4Addr::new(203, 0, 113, 0).into(), 24),
        Family::V6 => (Ipv6Addr::new(0x2001, 0xdb8, 0xf, 0, 0, 0, 0, 0).into(), 64),
    };
    IpNet::new_assert(address, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(rules: &[Rule], routes: &[Route]) -> State {
        State {
            rules: rules.to_vec(),
            routes: routes.to_vec(),
            ..State::default()
        }
    }

    fn rule(priority: u32, table: u32) -> Rule {
        let from = Some(documentation(Family::V4));
        Rule::lookup(
            priority,
            Selector {
                from,
                ..Selector::any(Family::V4)
            },
            table,
            STATIC,
        )
    }

    #[test]
    fn what_stands_as_it_stood_is_no_change() {
        let before = state(&[rule(1, 7), rule(1, 7)], &[]);

        assert_eq!(changes(&before, &before.clone(), &Topology::new(1, 1)), 0);
    }

    #[test]
    fn one_that_went_one_that_came_and_a_double_count_each() {
        let before = state(&[rule(1, 7), rule(1, 7), rule(2, 8)], &[]);
        let after = state(&[rule(1, 7), rule(2, 9)], &[]);

        // A double of 1 and the old 2 are gone, the new 2 has come.
        assert_eq!(changes(&before, &after, &Topology::new(1, 1)), 3);
    }

    #[test]
    fn rules_and_routes_of_the_policies_are_not_foreign() {
        let topology = Topology::new(1, 1);
        let policy = &topology.policies[0];
        let mut after = state(
            &[Rule::lookup(31745, policy.selector(), 20000, PROTOCOL)],
            &[
                Route::unicast(20000, Family::V4.default_prefix(), 9, None, PROTOCOL),
                Route::unreachable(20000, Family::V4.default_prefix(), PROTOCOL),
            ],
        );
        after.names.insert(9, "nsm-0".to_owned());
        assert_eq!(changes(&State::default(), &after, &topology), 0);

        after.names.insert(9, "eth0".to_owned());
        assert_eq!(changes(&State::default(), &after, &topology), 1);
    }
}
