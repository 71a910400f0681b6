//! Policies in a connection's IP context, and the addresses that they bring. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use nsm_api::connectioncontext::{IpContext, PolicyRoute};
use nsm_api::parse_net;

use crate::host::host_route;
use crate::ipam::has_route;

/// What is known of a connection's source addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Those that are there for a policy's sake.
    added: BTreeSet<IpAddr>,
    /// Those that a policy names and that were there before: they are others'.
    others: BTreeSet<IpAddr>,
}

/// Makes the policies of the context those of the list, and gives each address that they name to
/// the client, once. Addresses that former policies brought go, all others stay.
///
/// `known` is what the connection's last answer left. A client may bring more than that: what it
/// has from an answer that was lost, or from a former process of this endpoint, or from another
/// endpoint. So an address that a policy *of the request* names was brought by that policy, unless
/// it is known to be another's, or was assigned: then a route leads to it.
pub(super) fn apply(ip: &mut IpContext, policies: &[PolicyRoute], known: &Memory) -> Memory {
    let named: BTreeSet<IpAddr> = hosts(policies).collect();
    let brought = hosts(&ip.policies).filter(|address| !known.others.contains(address));
    let ours: BTreeSet<IpAddr> = brought
        .chain(known.added.iter().copied())
        .filter(|address| !has_route(&ip.dst_routes, *address))
        .collect();

    // Those that stay are added again below.
    ip.src_ip_addrs
        .retain(|text| address(text).is_none_or(|address| !ours.contains(&address)));
    let present: BTreeSet<IpAddr> = ip
        .src_ip_addrs
        .iter()
        .filter_map(|it| address(it))
        .collect();
    // In the order of the policies, which is that of the file.
    for address in hosts(policies) {
        let text = host_route(address);
        if !present.contains(&address) && !ip.src_ip_addrs.contains(&text) {
            ip.src_ip_addrs.push(text);
        }
    }
    ip.policies = policies.to_vec();

    let (others, added) = named
        .into_iter()
        .partition(|address| present.contains(address));
    Memory { added, others }
}

/// The addresses that policies name, one for each policy that names one.
fn hosts(policies: &[PolicyRoute]) -> impl Iterator<Item = IpAddr> {
    policies.iter().filter_map(|policy| host(&policy.from))
}

/// The one address that a `from` names: a host, or an address with the length of its network
/// behind it (`172.16.2.201/24`, as the mesh's examples write it). A network names none, and no
/// interface gets an address that spans one: its route would take the traffic to all of it.
fn host(from: &str) -> Option<IpAddr> {
    let net = parse_net(from)?;
    let is_host = net.prefix_len() == net.max_prefix_len() || net.addr() != net.network();
    (is_host && !net.addr().is_unspecified()).then(|| net.addr())
}

fn address(text: &str) -> Option<IpAddr> {
    parse_net(text).map(|net| net.addr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::connectioncontext::Route;

    fn from(list: &[&str]) -> Vec<PolicyRoute> {
        let policy = |from: &&str| PolicyRoute {
            from: (*from).to_owned(),
            ..PolicyRoute::default()
        };
        list.iter().map(policy).collect()
    }

    /// A client with an address that was assigned to it, and others.
    fn client(others: &[&str]) -> IpContext {
        let assigned = "172.16.1.101/32";
        IpContext {
            src_ip_addrs: [assigned]
                .iter()
                .chain(others)
                .map(|it| (*it).to_owned())
                .collect(),
            dst_routes: vec![Route {
                prefix: assigned.to_owned(),
                ..Route::default()
            }],
            ..IpContext::default()
        }
    }

    const ASSIGNED: &str = "172.16.1.101/32";

    #[test]
    fn an_address_that_a_policy_names_is_the_clients_once() {
        let policies = from(&["10.1.0.1", "10.1.0.1/32", "", "fd00::1/128", "10.1.0.1"]);
        let mut ip = client(&[]);
        let mut known = Memory::default();

        for _ in 0..10 {
            known = apply(&mut ip, &policies, &known);

            assert_eq!(ip.src_ip_addrs, [ASSIGNED, "10.1.0.1/32", "fd00::1/128"]);
            assert_eq!(ip.policies, policies);
        }
    }

    #[test]
    fn digits_that_others_read_as_octal_are_no_address() {
        assert_eq!(host("010.1.0.1"), None);
        assert_eq!(host("010.1.0.1/24"), None);
    }

    #[test]
    fn a_network_is_no_address() {
        let mut ip = client(&[]);

        apply(
            &mut ip,
            &from(&["10.0.0.0/8", "fd00::/64", "0.0.0.0/0", "::"]),
            &Memory::default(),
        );

        assert_eq!(ip.src_ip_addrs, [ASSIGNED]);
    }

    #[test]
    fn an_address_with_the_length_of_its_network_is_a_host() {
        let mut ip = client(&[]);

        apply(
            &mut ip,
            &from(&["172.16.2.201/24", "2004::3/120"]),
            &Memory::default(),
        );

        assert_eq!(
            ip.src_ip_addrs,
            [ASSIGNED, "172.16.2.201/32", "2004::3/128"]
        );
        assert_eq!(
            ip.policies[0].from, "172.16.2.201/24",
            "the policy selects the network"
        );
    }

    #[test]
    fn addresses_of_policies_that_are_gone_go_and_those_of_others_stay() {
        let mut ip = client(&["192.168.7.1/24"]);
        let policies = from(&["10.1.0.1", "192.168.7.1", "172.16.1.101", "10.1.0.2"]);
        let known = apply(&mut ip, &policies, &Memory::default());
        assert_eq!(
            ip.src_ip_addrs,
            [ASSIGNED, "192.168.7.1/24", "10.1.0.1/32", "10.1.0.2/32"]
        );

        let known = apply(&mut ip, &from(&["10.1.0.2"]), &known);
        assert_eq!(ip.src_ip_addrs, [ASSIGNED, "192.168.7.1/24", "10.1.0.2/32"]);

        apply(&mut ip, &[], &known);
        assert_eq!(ip.src_ip_addrs, [ASSIGNED, "192.168.7.1/24"]);
        assert_eq!(ip.policies, []);
    }

    #[test]
    fn what_a_former_process_added_goes_with_its_policies_after_a_restart() {
        let mut ip = client(&[]);
        apply(
            &mut ip,
            &from(&["10.1.0.1", "10.1.0.2", "172.16.1.101"]),
            &Memory::default(),
        );

        let known = apply(&mut ip, &from(&["10.1.0.2"]), &Memory::default());
        assert_eq!(ip.src_ip_addrs, [ASSIGNED, "10.1.0.2/32"]);

        apply(&mut ip, &[], &known);
        assert_eq!(ip.src_ip_addrs, [ASSIGNED]);
    }

    #[test]
    fn what_an_answer_gave_that_was_lost_or_came_late_goes_too() {
        let mut ip = client(&[]);
        let known = apply(&mut ip, &from(&["10.1.0.1"]), &Memory::default());
        // The endpoint has gone on to another list, and the client has not heard of it.
        let old = ip.clone();
        let known = apply(&mut ip, &from(&["10.1.0.2"]), &known);

        let mut ip = old;
        apply(&mut ip, &from(&["10.1.0.2"]), &known);

        assert_eq!(ip.src_ip_addrs, [ASSIGNED, "10.1.0.2/32"]);
    }

    #[test]
    fn the_clients_own_address_stays_when_a_policy_names_it_for_a_while() {
        let mut ip = client(&["192.168.7.1/24"]);
        let mut known = Memory::default();

        for list in [
            &["192.168.7.1"][..],
            &["192.168.7.1"],
            &[],
            &["192.168.7.1"],
            &[],
            &[],
        ] {
            known = apply(&mut ip, &from(list), &known);
            assert_eq!(ip.src_ip_addrs, [ASSIGNED, "192.168.7.1/24"]);
        }
    }
}
