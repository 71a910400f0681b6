//! What connections carry: policies from a handful, so that they are shared and conflict.

use crate::small_world::LINKS;
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::connectioncontext::{PolicyRoute, Route};
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_netlink::Family;

/// What one connection is asked to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Which of the links it uses.
    pub link: usize,
    /// The families of the addresses that NSM put on the interface.
    pub sources: &'static [Family],
    /// The policies.
    pub policies: Vec<Pick>,
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// Which of the [`SELECTORS`].
    pub selector: usize,
    /// The family of the routes, where the selector does not tell it.
    pub family: Family,
    /// The next hop of the default route, if there is such a route: which of [`next_hops`].
    pub default: Option<usize>,
    /// The next hop of a narrower route, likewise.
    pub narrow: Option<usize>,
}

/// The selecting fields of a policy.
#[derive(Debug, Clone, Copy)]
pub struct Fields {
    /// Source.
    pub from: &'static str,
    /// Protocol.
    pub proto: &'static str,
    /// Destination ports.
    pub dstport: &'static str,
}

const fn fields(from: &'static str, proto: &'static str, dstport: &'static str) -> Fields {
    Fields {
        from,
        proto,
        dstport,
    }
}

/// What is selected. The sixth has one rule in each family, the last stands for the addresses of
/// the interface.
pub const SELECTORS: [Fields; 7] = [
    fields("10.1.0.1", "", ""),
    fields("2001:db8::1", "", ""),
    fields("10.1.0.1", "6", "443"),
    fields("10.1.0.7/24", "", ""),
    fields("2001:db8::/64", "tcp", ""),
    fields("", "17", "5000-6000"),
    fields("", "", ""),
];

/// A policy as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyText {
    /// Source.
    pub from: String,
    /// Protocol.
    pub proto: String,
    /// Destination ports.
    pub dstport: String,
    /// Prefix and next hop of each route.
    pub routes: Vec<(String, String)>,
}

/// The prefixes of routes: the default and a narrower one.
pub fn prefixes(family: Family) -> [&'static str; 2] {
    match family {
        Family::V4 => ["0.0.0.0/0", "10.50.0.0/16"],
        Family::V6 => ["::/0", "fd50::/32"],
    }
}

/// The next hops of routes; empty is on-link.
pub fn next_hops(family: Family) -> [&'static str; 3] {
    match family {
        Family::V4 => ["", "172.16.1.254", "172.16.2.254"],
        Family::V6 => ["", "fe80::1", "fe80::2"],
    }
}

impl Pick {
    /// The policy as it is written.
    pub fn text(&self) -> PolicyText {
        let Fields {
            from,
            proto,
            dstport,
        } = SELECTORS[self.selector];
        let family = match from {
            // A policy without any field stands for the sources of its family; all connections
            // have one of IPv4.
            "" if proto.is_empty() => Family::V4,
            "" => self.family,
            from if from.contains(':') => Family::V6,
            _ => Family::V4,
        };
        let hops = [self.default, self.narrow];
        let routes = prefixes(family)
            .into_iter()
            .zip(hops)
            .filter_map(|(prefix, hop)| {
                Some((prefix.to_owned(), next_hops(family)[hop?].to_owned()))
            });
        PolicyText {
            from: from.to_owned(),
            proto: proto.to_owned(),
            dstport: dstport.to_owned(),
            routes: routes.collect(),
        }
    }
}

impl Content {
    /// What nobody has asked for.
    pub fn nothing() -> Self {
        Self {
            link: 0,
            sources: &[],
            policies: Vec::new(),
        }
    }

    /// The name of the link.
    pub fn interface(&self) -> &'static str {
        LINKS[self.link]
    }

    /// The addresses that NSM put on the interface.
    pub fn source_addresses(&self) -> Vec<String> {
        let source = |family: &Family| match family {
            Family::V4 => "10.1.0.1/32".to_owned(),
            Family::V6 => "2001:db8::1/128".to_owned(),
        };
        self.sources.iter().map(source).collect()
    }

    /// The policies as they are written.
    pub fn policies(&self) -> Vec<PolicyText> {
        self.policies.iter().map(Pick::text).collect()
    }

    /// As a connection of that id.
    pub fn connection(&self, id: &str) -> Connection {
        let mechanism = Mechanism::kernel().with_parameter(INTERFACE_NAME, self.interface());
        let mut connection = Connection {
            id: id.to_owned(),
            mechanism: Some(mechanism),
            ..Connection::default()
        };
        let context = connection.ip_context_mut();
        context.src_ip_addrs = self.source_addresses();
        context.policies = self.policies().into_iter().map(message).collect();
        connection
    }
}

fn message(policy: PolicyText) -> PolicyRoute {
    let route = |(prefix, next_hop)| Route { prefix, next_hop };
    PolicyRoute {
        from: policy.from,
        proto: policy.proto,
        dst_port: policy.dstport,
        src_port: String::new(),
        routes: policy.routes.into_iter().map(route).collect(),
    }
}
