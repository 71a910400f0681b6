//! One pod, one endpoint, one forwarder, and a connection with all that there is.

use injection_suite::{Answer, Client, Ear, FarEnd, Forwarder, Place, Snapshot, Writes};
use nsm_api::connectioncontext::{ConnectionContext, IpContext, PolicyRoute, Route};

pub struct World {
    pub pod: Place,
    pub endpoint: Place,
    pub far_end: FarEnd,
    pub forwarder: Forwarder,
}

impl World {
    pub fn new() -> Self {
        Self::of(Place::new(), Place::new())
    }

    /// One in namespaces that are there.
    pub fn of(pod: Place, endpoint: Place) -> Self {
        let far_end = FarEnd::default();
        Self {
            pod,
            endpoint,
            forwarder: Forwarder::start(&far_end),
            far_end,
        }
    }

    /// A client with a connection of both families, which the endpoint answers with the addresses
    /// `172.16.N.2` and `2001:db8:N::2`.
    pub fn client(&self, id: &str, interface: &str, n: u8) -> Client {
        let answer = Answer {
            context: ConnectionContext {
                ip_context: Some(addresses(n)),
                ..ConnectionContext::default()
            },
            place: Some(self.endpoint.clone()),
            ..Answer::default()
        };
        self.far_end.answer(id, answer);
        Client::new(id, &self.pod, interface)
    }

    /// A client whose connection stands.
    pub async fn connected(&self, id: &str, interface: &str, n: u8) -> Client {
        let mut client = self.client(id, interface, n);
        client.request(&self.forwarder).await.unwrap();
        client
    }

    /// Changes the IP context that a client is answered.
    #[track_caller]
    pub fn change_ip(&self, id: &str, change: impl FnOnce(&mut IpContext)) {
        self.far_end.change(id, |answer| {
            change(answer.context.ip_context.get_or_insert_default());
        });
    }

    /// The forwarder dies, and another one starts.
    pub fn restart(&mut self) {
        self.forwarder = Forwarder::start(&self.far_end);
    }

    /// All that stands in both namespaces.
    pub fn snapshot(&self) -> [Snapshot; 2] {
        [self.pod.snapshot(), self.endpoint.snapshot()]
    }

    /// What a request must not do when nothing changed.
    pub fn quiet(&self) -> Quiet {
        Quiet {
            before: self.snapshot(),
            ears: [self.pod.ear(), self.endpoint.ear()],
            writes: Writes::from_now(),
        }
    }
}

/// That nothing is written and nothing happens.
pub struct Quiet {
    before: [Snapshot; 2],
    ears: [Ear; 2],
    writes: Writes,
}

impl Quiet {
    #[track_caller]
    pub fn was_kept(mut self, world: &World) {
        assert_eq!(self.writes.so_far(), 0, "writes");
        for ear in &mut self.ears {
            ear.heard_nothing();
        }
        assert_eq!(world.snapshot(), self.before);
    }
}

/// Addresses of both families for both ends, and a route to what lies behind the endpoint.
pub fn addresses(n: u8) -> IpContext {
    let route = |prefix: String| Route {
        prefix,
        next_hop: String::new(),
    };
    IpContext {
        src_ip_addrs: vec![format!("172.16.{n}.2/32"), format!("2001:db8:{n}::2/128")],
        dst_ip_addrs: vec![format!("172.16.{n}.1/32"), format!("2001:db8:{n}::1/128")],
        src_routes: vec![
            route(format!("10.{n}.0.0/16")),
            route(format!("2001:db8:{n}:1::/64")),
        ],
        ..IpContext::default()
    }
}

/// A policy that lets what comes from an address leave by the connection.
pub fn policy(from: &str) -> PolicyRoute {
    PolicyRoute {
        from: from.to_owned(),
        ..PolicyRoute::default()
    }
}
