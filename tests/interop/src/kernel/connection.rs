//! A connection as its client knows it.

use super::Error;
use super::pod::{Packet, Pod, Way};
use ipnet::IpNet;
use nsm_netlink::{Family, PortRange, Selector};
use serde::Serialize;
use std::net::IpAddr;

/// What a driver is told of a connection.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Connection {
    pub(crate) id: String,
    pub(crate) netns: String,
    pub(crate) interface: String,
    pub(crate) vlan: u16,
    sources: Vec<String>,
    /// What the client still has of the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<Vec<Policy>>,
    /// What the endpoint answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policies: Option<Vec<Policy>>,
    #[serde(skip)]
    number: usize,
}

#[derive(Debug, Clone, Serialize, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) from: String,
    pub(crate) proto: String,
    pub(crate) dstport: String,
    pub(crate) srcport: String,
    pub(crate) routes: Vec<Via>,
}

#[derive(Debug, Clone, Serialize, Default, PartialEq, Eq)]
pub(crate) struct Via {
    pub(crate) prefix: String,
    pub(crate) nexthop: String,
}

impl Connection {
    /// The `number`th of a pod, by an interface of its own, with addresses and a next hop of its own.
    pub(crate) fn new(pod: &Pod, number: usize) -> Self {
        Self {
            id: format!("connection-{number}"),
            netns: pod.path(),
            interface: format!("nsm-{number}"),
            vlan: 0,
            sources: vec![
                format!("10.0.{number}.1/32"),
                format!("10.0.{number}.2/32"),
                format!("fd00:{number}::1/128"),
            ],
            asked: None,
            policies: Some(Vec::new()),
            number,
        }
    }

    /// The same with these policies.
    pub(crate) fn with(mut self, policies: impl IntoIterator<Item = Policy>) -> Self {
        self.policies = Some(policies.into_iter().collect());
        self
    }

    /// The policy of the first address, and that of the second for one port.
    pub(crate) fn with_two(self) -> Self {
        let policies = [self.policy(), self.second_policy()];
        self.with(policies)
    }

    /// A default route for the first address.
    pub(crate) fn policy(&self) -> Policy {
        Policy {
            from: format!("10.0.{}.1/32", self.number),
            routes: vec![self.default_route()],
            ..Policy::default()
        }
    }

    /// A default route for one port of the second address.
    pub(crate) fn second_policy(&self) -> Policy {
        Policy {
            from: format!("10.0.{}.2/32", self.number),
            ..self.policy()
        }
        .tcp("443")
    }

    /// A default route by the connection's next hop.
    pub(crate) fn default_route(&self) -> Via {
        Via {
            prefix: "0.0.0.0/0".into(),
            nexthop: format!("10.0.{}.254", self.number),
        }
    }

    /// A route by one of the pod's own addresses: only the kernel refuses that.
    pub(crate) fn refused_route(&self) -> Via {
        Via {
            prefix: "203.0.113.0/24".into(),
            nexthop: format!("10.0.{}.1", self.number),
        }
    }

    /// Another connection of the same interface and addresses: the client under another id.
    pub(crate) fn renamed(mut self, id: &str) -> Self {
        id.clone_into(&mut self.id);
        self.asked = None;
        self
    }

    /// What its interface has.
    pub(crate) fn addresses(&self) -> [String; 3] {
        let number = self.number;
        [
            format!("10.0.{number}.1/24"),
            format!("10.0.{number}.2/24"),
            format!("fd00:{number}::1/64"),
        ]
    }

    /// What it has asked for.
    pub(crate) fn policies(&self) -> &[Policy] {
        self.policies.as_deref().unwrap_or_default()
    }

    /// A packet of a policy, and the way that it has to take.
    pub(crate) fn way(&self, policy: &Policy) -> Result<(Packet, Way), Error> {
        let nexthop = policy.routes.first().map(|route| route.nexthop.as_str());
        let via = nexthop.filter(|nexthop| !nexthop.is_empty());
        let way = Way {
            dev: self.interface.clone(),
            via: via.map(str::parse).transpose()?,
        };
        let packet = policy.packet(self.number)?;
        Ok((packet, way))
    }
}

impl Policy {
    /// The same for TCP to these ports.
    pub(crate) fn tcp(mut self, ports: &str) -> Self {
        "6".clone_into(&mut self.proto);
        ports.clone_into(&mut self.dstport);
        self
    }

    fn packet(&self, number: usize) -> Result<Packet, Error> {
        let is_v6 =
            self.from.contains(':') || self.routes.iter().any(|route| route.prefix.contains(':'));
        let own = match is_v6 {
            true => format!("fd00:{number}::1"),
            false => format!("10.0.{number}.1"),
        };
        let from = self.from.split('/').next().filter(|from| !from.is_empty());
        let port = |ports: &str| ports.split('-').next().and_then(|port| port.parse().ok());
        let to = if is_v6 { "2001:db8::8" } else { "198.51.100.8" };
        Ok(Packet {
            from: from.unwrap_or(&own).parse::<IpAddr>()?,
            to: to.parse()?,
            proto: self.proto.parse().ok(),
            sport: port(&self.srcport),
            dport: port(&self.dstport),
        })
    }

    /// The packets of the policy that the lookups ask for, as a rule selects them.
    pub(crate) fn traffic(&self) -> Result<Selector, Error> {
        let packet = self.packet(0)?;
        let port = |port: Option<u16>| port.map(|port| PortRange::new(port, port)).transpose();
        Ok(Selector {
            family: Family::of(&packet.from),
            from: Some(IpNet::from(packet.from)),
            proto: packet.proto,
            sport: port(packet.sport)?,
            dport: port(packet.dport)?,
        })
    }
}
