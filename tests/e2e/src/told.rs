//! That what stands is what the clients were told.

use crate::{Mesh, Process, source};
use nsm_netlink::Family;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl Mesh {
    /// That each connection of these clients of pods has an interface at both ends, the addresses
    /// here that its client was told last, and there those that make pairs with them; that no
    /// address is given twice; and that there is nothing else.
    #[track_caller]
    pub fn is_as_told(&self, clients: &[(usize, &Process)]) {
        let mut pairs = vec![BTreeSet::new(); self.networks.len()];
        for &(pod, client) in clients {
            let stands = self.in_pod(pod);
            assert_eq!(stands.interfaces.len(), pairs.len(), "pod {pod}");
            // One of each policy.
            assert_eq!(stands.rules.len(), 2 * pairs.len(), "pod {pod}");
            // One of each policy, and one to the endpoint in each family.
            assert_eq!(stands.routes.len(), 4 * pairs.len(), "pod {pod}");
            for (network, pairs) in pairs.iter_mut().enumerate() {
                let interface = format!("nsm-{network}");
                let told = client.told_addresses(&interface);
                assert_eq!(stands.addresses_on(&interface), told, "pod {pod}");
                let policies = Family::ALL.map(|family| source(network, family));
                let own = told.iter().map(|it| address(it));
                for own in own.filter(|it| !policies.contains(it)) {
                    assert!(pairs.insert(before(own)), "{own} is given twice");
                }
            }
        }
        for (network, pairs) in pairs.iter().enumerate() {
            let stands = self.in_network(network);
            assert_eq!(stands.interfaces.len(), clients.len(), "network {network}");
            assert_eq!(stands.addresses.len(), pairs.len(), "network {network}");
            let there = stands.addresses.iter().map(|it| address(it));
            assert_eq!(there.collect::<BTreeSet<_>>(), *pairs, "network {network}");
        }
    }
}

/// The address of a prefix.
fn address(text: &str) -> IpAddr {
    text.split('/').next().unwrap().parse().unwrap()
}

/// The other address of a pair: endpoints have the first of two.
fn before(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) - 1).into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) - 1).into(),
    }
}
