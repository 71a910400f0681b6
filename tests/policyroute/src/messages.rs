use nsm_api::connection::{Connection, Mechanism};
use nsm_api::connectioncontext::{PolicyRoute, Route};
use nsm_api::mechanism::INTERFACE_NAME;
use std::ops::Deref;

/// A policy without any field.
pub fn policy() -> PolicyDraft {
    PolicyDraft::default()
}

/// A policy that gets its fields one after the other.
#[derive(Debug, Clone, Default)]
pub struct PolicyDraft(PolicyRoute);

impl PolicyDraft {
    /// From an address or a prefix.
    #[must_use]
    pub fn from(mut self, from: &str) -> Self {
        from.clone_into(&mut self.0.from);
        self
    }

    /// Of a protocol.
    #[must_use]
    pub fn proto(mut self, proto: &str) -> Self {
        proto.clone_into(&mut self.0.proto);
        self
    }

    /// To a port or to a range of ports.
    #[must_use]
    pub fn dport(mut self, ports: &str) -> Self {
        ports.clone_into(&mut self.0.dst_port);
        self
    }

    /// From a port or from a range of ports.
    #[must_use]
    pub fn sport(mut self, ports: &str) -> Self {
        ports.clone_into(&mut self.0.src_port);
        self
    }

    /// TCP to a port.
    #[must_use]
    pub fn tcp(self, port: u16) -> Self {
        self.proto("6").dport(&port.to_string())
    }

    /// UDP to a port.
    #[must_use]
    pub fn udp(self, port: u16) -> Self {
        self.proto("17").dport(&port.to_string())
    }

    /// With a default route by a next hop.
    #[must_use]
    pub fn via(self, next_hop: &str) -> Self {
        let default = if next_hop.contains(':') {
            "::/0"
        } else {
            "0.0.0.0/0"
        };
        self.route(default, next_hop)
    }

    /// With a route to a prefix; without a next hop it is on-link.
    #[must_use]
    pub fn route(mut self, prefix: &str, next_hop: &str) -> Self {
        self.0.routes.push(Route {
            prefix: prefix.to_owned(),
            next_hop: next_hop.to_owned(),
        });
        self
    }
}

/// A connection of that id by `nsm-0`, without policies.
pub fn connection(id: &str) -> Draft {
    let connection = Connection {
        id: id.to_owned(),
        ..Connection::default()
    };
    Draft(connection).by("nsm-0")
}

/// A connection that gets what it has one after the other.
#[derive(Debug, Clone)]
pub struct Draft(Connection);

impl Draft {
    /// By an interface.
    #[must_use]
    pub fn by(self, interface: &str) -> Self {
        self.mechanism(Mechanism::kernel().with_parameter(INTERFACE_NAME, interface))
    }

    /// By a mechanism.
    #[must_use]
    pub fn mechanism(mut self, mechanism: Mechanism) -> Self {
        self.0.mechanism = Some(mechanism);
        self
    }

    /// By a mechanism that the other end is still to choose, as in a client's first request.
    #[must_use]
    pub fn mechanism_to_be_chosen(mut self) -> Self {
        self.0.mechanism = None;
        self
    }

    /// With an address of the client's end.
    #[must_use]
    pub fn source(mut self, address: &str) -> Self {
        let context = self.0.ip_context_mut();
        context.src_ip_addrs.push(address.to_owned());
        self
    }

    /// With one more policy.
    #[must_use]
    pub fn policy(self, policy: PolicyDraft) -> Self {
        self.policies([policy])
    }

    /// With more policies.
    #[must_use]
    pub fn policies(mut self, policies: impl IntoIterator<Item = PolicyDraft>) -> Self {
        let policies = policies.into_iter().map(|policy| policy.0);
        self.0.ip_context_mut().policies.extend(policies);
        self
    }
}

impl Deref for Draft {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}
