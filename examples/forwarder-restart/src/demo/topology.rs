//! What the demo sets up, as plain values: the pod of the report, and more of the same.

use ipnet::IpNet;
use nsm_api::connectioncontext::{PolicyRoute, Route};
use nsm_netlink::{Family, Selector};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The interfaces and policies of a pod.
#[derive(Debug, Clone)]
pub struct Topology {
    /// The interface of each connection.
    pub connections: Vec<Interface>,
    /// All policies, connection by connection, IPv4 first.
    pub policies: Vec<Policy>,
}

/// An interface of the pod.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its name in the pod.
    pub name: String,
    /// Its addresses.
    pub addresses: [IpNet; 2],
    /// Who its traffic is sent to.
    pub gateways: [IpAddr; 2],
}

/// One policy: what comes from this address leaves by this connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The index of its connection.
    pub connection: usize,
    /// The address that it selects.
    pub source: IpAddr,
    /// The next hop of its default route.
    pub gateway: IpAddr,
}

impl Topology {
    /// So many connections, each with so many policies in each family. Two and two are those of
    /// the report.
    pub fn new(connections: u16, policies: u16) -> Self {
        Self {
            connections: (0..connections).map(Interface::of_connection).collect(),
            policies: (0..connections)
                .flat_map(|index| Policy::of_connection(index, policies))
                .collect(),
        }
    }

    /// The policies of a connection.
    pub fn policies_of(&self, connection: usize) -> impl Iterator<Item = &Policy> {
        self.policies
            .iter()
            .filter(move |policy| policy.connection == connection)
    }
}

impl Interface {
    /// The one that the pod has from its cluster, and that its main table leads to.
    pub fn eth0() -> Self {
        Self::new("eth0".to_owned(), v4(10, 244, 0), v6(0xe, 0), 7)
    }

    /// `nsm-0` in 172.16.1.0/24, `nsm-1` in 172.16.16.0/24, and on in steps of 15.
    fn of_connection(index: u16) -> Self {
        let number = number(index);
        Self::new(
            format!("nsm-{index}"),
            v4(172, 16, number),
            v6(digits(number), 0),
            4,
        )
    }

    fn new(name: String, v4: Ipv4Addr, v6: Ipv6Addr, host: u8) -> Self {
        let at = |host: u8| -> [IpAddr; 2] {
            let v4 = Ipv4Addr::from_bits(v4.to_bits() + u32::from(host));
            let v6 = Ipv6Addr::from_bits(v6.to_bits() + u128::from(host));
            [v4.into(), v6.into()]
        };
        let [v4, v6] = at(host);
        Self {
            name,
            addresses: [IpNet::new_assert(v4, 24), IpNet::new_assert(v6, 64)],
            gateways: at(1),
        }
    }
}

impl Policy {
    /// From 214.14.131.113 on, of the second connection from 214.14.132.65 on. Those of IPv6 show
    /// the same digits.
    fn of_connection(index: u16, count: u16) -> impl Iterator<Item = Self> {
        let [v4_gateway, v6_gateway] = Interface::of_connection(index).gateways;
        let site = 131 + index;
        let first = if index == 0 { 113 } else { 65 };
        let v4 = (first..first + count).map(move |host| {
            let net = v4(214, 14, site).to_bits();
            (
                Ipv4Addr::from_bits(net + u32::from(host)).into(),
                v4_gateway,
            )
        });
        let v6 = (first..first + count)
            .map(move |host| (v6(digits(site), digits(host)).into(), v6_gateway));
        v4.chain(v6).map(move |(source, gateway)| Self {
            connection: index.into(),
            source,
            gateway,
        })
    }

    /// The family of its traffic.
    pub fn family(&self) -> Family {
        Family::of(&self.source)
    }

    /// What its rule selects.
    pub fn selector(&self) -> Selector {
        Selector {
            from: Some(self.source.into()),
            ..Selector::any(self.family())
        }
    }

    /// The policy as an endpoint publishes it.
    pub fn to_api(&self) -> PolicyRoute {
        let default = Route {
            prefix: self.family().default_prefix().to_string(),
            next_hop: self.gateway.to_string(),
        };
        PolicyRoute {
            from: IpNet::from(self.source).to_string(),
            routes: vec![default],
            ..PolicyRoute::default()
        }
    }
}

/// The network number of a connection's interface.
fn number(index: u16) -> u16 {
    1 + 15 * index
}

/// The network `a.b.number.0`, which runs on past `a.b.255.0`.
fn v4(a: u8, b: u8, number: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(a, b, 0, 0).to_bits() + (u32::from(number) << 8))
}

/// `2001:db8:net::host`.
fn v6(net: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, host)
}

/// The number that shows in hexadecimal the digits that this one shows in decimal.
fn digits(number: u16) -> u16 {
    if number < 10 {
        number
    } else {
        (digits(number / 10) << 4) + number % 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_connections_with_two_policies_are_those_of_the_report() {
        let topology = Topology::new(2, 2);

        let policies: Vec<String> = topology
            .policies
            .iter()
            .map(|policy| {
                let interface = &topology.connections[policy.connection].name;
                format!("{} via {} dev {interface}", policy.source, policy.gateway)
            })
            .collect();

        assert_eq!(
            policies,
            [
                "214.14.131.113 via 172.16.1.1 dev nsm-0",
                "214.14.131.114 via 172.16.1.1 dev nsm-0",
                "2001:db8:131::113 via 2001:db8:1::1 dev nsm-0",
                "2001:db8:131::114 via 2001:db8:1::1 dev nsm-0",
                "214.14.132.65 via 172.16.16.1 dev nsm-1",
                "214.14.132.66 via 172.16.16.1 dev nsm-1",
                "2001:db8:132::65 via 2001:db8:16::1 dev nsm-1",
                "2001:db8:132::66 via 2001:db8:16::1 dev nsm-1",
            ]
        );
    }

    #[test]
    fn no_address_is_given_twice_however_many_there_are() {
        let topology = Topology::new(50, 50);

        let mut addresses: Vec<IpAddr> = topology
            .connections
            .iter()
            .chain([&Interface::eth0()])
            .flat_map(|interface| interface.addresses.map(|net| net.addr()))
            .chain(topology.policies.iter().map(|policy| policy.source))
            .collect();
        let all = addresses.len();
        addresses.sort_unstable();
        addresses.dedup();

        assert_eq!((all, addresses.len()), (5102, 5102));
    }
}
