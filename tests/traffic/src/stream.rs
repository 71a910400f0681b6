//! The streams that are measured: what sends them, and the policy that each is under.

use crate::world::{Hop, Link};
use ipnet::IpNet;
use nsm_api::connectioncontext::{PolicyRoute, Route};
use nsm_netlink::{Family, PortRange, Selector};
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `discard`.
const PORT: u16 = 9;

/// How a stream is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sending {
    /// Datagrams by a socket that is not connected: the route is looked up for each.
    Udp,
    /// Datagrams by a connected socket: it keeps its route until the kernel says otherwise.
    ConnectedUdp,
    /// Segments of an established connection.
    Tcp,
}

impl Sending {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Udp, Self::ConnectedUdp, Self::Tcp];

    /// Whether the socket keeps its route.
    pub const fn keeps_its_route(self) -> bool {
        !matches!(self, Self::Udp)
    }
}

impl fmt::Display for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Udp => "UDP",
            Self::ConnectedUdp => "connected UDP",
            Self::Tcp => "TCP",
        })
    }
}

/// What is sent from one source, under a policy of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Stream {
    /// The family.
    #[serde(serialize_with = "family")]
    pub family: Family,
    /// What sends it.
    pub sending: Sending,
}

impl Stream {
    /// All streams: both families, each sent in every way.
    pub const ALL: [Self; 6] = {
        let [udp, connected, tcp] = Sending::ALL;
        [
            Self::new(Family::V4, udp),
            Self::new(Family::V4, connected),
            Self::new(Family::V4, tcp),
            Self::new(Family::V6, udp),
            Self::new(Family::V6, connected),
            Self::new(Family::V6, tcp),
        ]
    };

    const fn new(family: Family, sending: Sending) -> Self {
        Self { family, sending }
    }

    /// The address that it is sent from: no two streams share one, so that none is caught by
    /// another's policy.
    pub fn source(self) -> IpAddr {
        source(self.family, self.sending as u8 + 1)
    }

    /// Where all streams of a family go (RFC 2544, RFC 5180).
    pub fn destination(family: Family) -> SocketAddr {
        let address: IpAddr = match family {
            Family::V4 => Ipv4Addr::new(198, 18, 0, 1).into(),
            Family::V6 => Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1).into(),
        };
        SocketAddr::new(address, PORT)
    }

    /// The protocol above IP, by its IANA number.
    pub const fn protocol(self) -> u8 {
        match self.sending {
            Sending::Udp | Sending::ConnectedUdp => 17,
            Sending::Tcp => 6,
        }
    }

    /// What its policy selects: the source alone, or the protocol and the port too.
    pub fn selector(self) -> Selector {
        let source = Selector {
            from: Some(self.source().into()),
            ..Selector::any(self.family)
        };
        match self.sending {
            Sending::Udp => source,
            Sending::ConnectedUdp | Sending::Tcp => Selector {
                proto: Some(self.protocol()),
                dport: Some(PortRange::from_dump(PORT, PORT)),
                ..source
            },
        }
    }

    /// Its policy: by default to this next hop.
    pub fn policy(self, link: Link, hop: Hop) -> PolicyRoute {
        let selector = self.selector();
        let text = |number: Option<String>| number.unwrap_or_default();
        PolicyRoute {
            from: text(selector.from.map(|net| net.to_string())),
            proto: text(selector.proto.map(|proto| proto.to_string())),
            dst_port: text(selector.dport.map(|ports| ports.to_string())),
            routes: vec![default(self.family, link, hop)],
            ..PolicyRoute::default()
        }
    }

    /// Whether an IP packet, from its first byte on, is one of the stream's.
    pub fn sent(self, packet: &[u8]) -> bool {
        let (protocol, addresses) = match self.family {
            Family::V4 => (packet.get(9), packet.get(12..20)),
            Family::V6 => (packet.get(6), packet.get(8..40)),
        };
        let version = packet.first().map(|byte| byte >> 4);
        let destination = Self::destination(self.family).ip();
        let expected = [octets(self.source()), octets(destination)].concat();
        let number = if self.family == Family::V4 { 4 } else { 6 };
        version == Some(number)
            && protocol == Some(&self.protocol())
            && addresses == Some(&expected[..])
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.family, self.sending)
    }
}

/// A network that the destination of a family lies in (RFC 2544, RFC 5180).
pub fn narrower_prefix(family: Family) -> IpNet {
    let len = match family {
        Family::V4 => 15,
        Family::V6 => 48,
    };
    IpNet::new_assert(Stream::destination(family).ip(), len).trunc()
}

/// A policy that nobody sends under, of a number.
pub fn idle_policy(family: Family, number: u8, link: Link) -> PolicyRoute {
    PolicyRoute {
        from: IpNet::from(source(family, 100 + number)).to_string(),
        routes: vec![default(family, link, Hop::A)],
        ..PolicyRoute::default()
    }
}

/// The default route of a family by a next hop.
pub fn default(family: Family, link: Link, hop: Hop) -> Route {
    Route {
        prefix: family.default_prefix().to_string(),
        next_hop: link.gateway(family, hop).to_string(),
    }
}

fn source(family: Family, number: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 60, 0, number).into(),
        Family::V6 => Ipv6Addr::new(0xfd60, 0, 0, 0, 0, 0, 0, number.into()).into(),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn family<S: serde::Serializer>(family: &Family, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(family)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(stream: Stream) -> Vec<u8> {
        let (head, protocol, at) = match stream.family {
            Family::V4 => (0x45, 9, 12),
            Family::V6 => (0x60, 6, 8),
        };
        let mut packet = vec![0; 60];
        packet[0] = head;
        packet[protocol] = stream.protocol();
        let destination = Stream::destination(stream.family).ip();
        let addresses = [octets(stream.source()), octets(destination)].concat();
        packet[at..at + addresses.len()].copy_from_slice(&addresses);
        packet
    }

    #[test]
    fn a_packet_is_of_its_own_stream_and_of_no_other() {
        for one in Stream::ALL {
            for other in Stream::ALL {
                assert_eq!(other.sent(&packet(one)), one == other, "{one}, {other}");
            }
        }
    }

    #[test]
    fn what_is_cut_short_or_something_else_is_of_no_stream() {
        for stream in Stream::ALL {
            let packet = packet(stream);
            assert!(!stream.sent(&[]));
            assert!(!stream.sent(&packet[..12]));
            assert!(!stream.sent(&[&[0x10], &packet[1..]].concat()));
        }
    }
}
