//! A client's network namespace and an endpoint's, joined by a pair of interfaces.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;

use nsm_api::connection::{Connection, Mechanism};
use nsm_api::connectioncontext::{ConnectionContext, IpContext};
use nsm_netlink::{DuplicateDetection, LinkState, Namespace, Netns, VethEnd};

/// The client's addresses.
pub const SOURCES: [&str; 3] = ["172.16.1.1/32", "10.9.0.9/32", "fd00:1::1/128"];
/// The endpoint's.
pub const DESTINATIONS: [&str; 2] = ["172.16.1.0/32", "fd00:1::/128"];

const NAME: &str = "nsm-0";

/// One end.
#[derive(Debug)]
pub struct End {
    /// Where it is.
    pub netns: Netns,
    /// The index of its interface.
    pub interface: u32,
}

/// A connection that stands, as a forwarder leaves it.
#[derive(Debug)]
pub struct Joined {
    /// The client's end.
    pub client: End,
    /// The endpoint's.
    pub endpoint: End,
}

impl Joined {
    /// Joins two new namespaces.
    pub fn new() -> Self {
        let [client, endpoint] = [(); 2].map(|()| Netns::create().unwrap());
        let end = VethEnd::named(NAME);
        client
            .open()
            .unwrap()
            .add_veth(&end, &end, &endpoint)
            .unwrap();
        let joined = Self {
            client: End::new(client),
            endpoint: End::new(endpoint),
        };
        joined.client.join(&SOURCES, &DESTINATIONS);
        joined.endpoint.join(&DESTINATIONS, &SOURCES);
        joined
    }

    /// The connection, as its client knows it.
    pub fn connection(&self) -> Connection {
        let texts = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect();
        Connection {
            id: "nsc-0".to_owned(),
            mechanism: Some(Mechanism::kernel()),
            context: Some(ConnectionContext {
                ip_context: Some(IpContext {
                    src_ip_addrs: texts(&SOURCES),
                    dst_ip_addrs: texts(&DESTINATIONS),
                    ..IpContext::default()
                }),
                ..ConnectionContext::default()
            }),
            ..Connection::default()
        }
    }
}

impl Default for Joined {
    fn default() -> Self {
        Self::new()
    }
}

impl End {
    fn new(netns: Netns) -> Self {
        let interface = netns.open().unwrap().index_of(NAME).unwrap();
        Self { netns, interface }
    }

    fn join(&self, own: &[&str], others: &[&str]) {
        let mut kernel = self.netns.open().unwrap();
        kernel.set_link(self.interface, LinkState::Up).unwrap();
        for address in own {
            let address = address.parse().unwrap();
            let detection = DuplicateDetection::Skip;
            kernel
                .add_address(self.interface, address, detection)
                .unwrap();
        }
        for other in others {
            let prefix = other.parse().unwrap();
            kernel.add_main_route(prefix, self.interface, None).unwrap();
        }
    }

    /// Takes an address away.
    pub fn lose(&self, address: &str) {
        let mut kernel = self.netns.open().unwrap();
        let address = address.parse().unwrap();
        kernel.delete_address(self.interface, address).unwrap();
    }

    /// Sets the interface down.
    pub fn set_down(&self) {
        let mut kernel = self.netns.open().unwrap();
        kernel.set_link(self.interface, LinkState::Down).unwrap();
    }

    /// Lets everybody ping, as a forwarder does in a client's namespace.
    pub fn allow_pings(&self) {
        // A file of /proc/sys/net is that of the namespace in which it is opened.
        let file = "/proc/sys/net/ipv4/ping_group_range";
        let written = self.netns.enter(|| fs::write(file, "0 0"));
        written.unwrap().unwrap();
    }

    /// Runs a future on this thread, in the namespace.
    pub fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            runtime_of(runtime).block_on(work)
        };
        self.netns.enter(run).unwrap()
    }
}

fn runtime_of(mut builder: tokio::runtime::Builder) -> tokio::runtime::Runtime {
    builder.enable_all().build().unwrap()
}
