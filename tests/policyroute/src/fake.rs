use crate::Machine;
use ipnet::IpNet;
use nsm_netlink::fake::FakeNamespace;
use nsm_netlink::{Event, LinkState, Route};
use std::sync::Arc;

/// The kernel in memory.
#[derive(Debug)]
pub struct Fake {
    namespace: Arc<FakeNamespace>,
}

impl Machine for Fake {
    const NAME: &'static str = "fake";

    type Namespace = FakeNamespace;

    fn boot() -> Self {
        Self {
            namespace: Arc::new(FakeNamespace::new()),
        }
    }

    fn namespace(&self) -> &Arc<FakeNamespace> {
        &self.namespace
    }

    fn add_link(&self, name: &str) -> u32 {
        self.namespace.add_link(name).unwrap()
    }

    fn delete_link(&self, index: u32) {
        self.namespace.delete_link(index).unwrap();
    }

    fn set_link(&self, index: u32, state: LinkState) {
        match state {
            LinkState::Up => self.namespace.set_up(index),
            LinkState::Down => self.namespace.set_down(index),
        }
        .unwrap();
    }

    fn add_address(&self, index: u32, address: IpNet) {
        self.namespace.add_address(index, address).unwrap();
    }

    fn remove_address(&self, index: u32, address: IpNet) {
        self.namespace.remove_address(index, address).unwrap();
    }

    fn replace_route(&self, route: &Route) {
        self.namespace.replace_route(route.clone()).unwrap();
    }

    fn forbid_ipv6(&self, index: u32, _: &str) {
        self.namespace.set_ipv6(index, false).unwrap();
    }

    fn short_reads(&self) {
        self.namespace.limit_reads(100);
    }

    fn listeners(&self) -> usize {
        self.namespace.listeners()
    }

    fn events(&self) -> Vec<Event> {
        self.namespace.drain_events()
    }
}
