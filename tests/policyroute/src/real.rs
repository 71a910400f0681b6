use crate::Machine;
use ipnet::IpNet;
use nsm_netlink::{DuplicateDetection, Event, LinkState, Monitor, Namespace, Netns, Rtnl, VethEnd};
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

/// The kernel that the suite runs on. The process is in its sandbox.
#[derive(Debug)]
pub struct Real {
    namespace: Arc<Netns>,
    /// Where the other ends of all interfaces are. They stay down: with a carrier the kernel would
    /// give IPv6 addresses of its own, and tell of it in the middle of a case.
    far: Netns,
    monitor: Mutex<Monitor>,
}

impl Real {
    fn kernel(&self) -> Rtnl {
        self.namespace.open().unwrap()
    }
}

impl Machine for Real {
    const NAME: &'static str = "kernel";

    type Namespace = Netns;

    fn boot() -> Self {
        let namespace = Netns::create().unwrap();
        let monitor = Monitor::new(&namespace).unwrap();
        Self {
            namespace: Arc::new(namespace),
            far: Netns::create().unwrap(),
            monitor: Mutex::new(monitor),
        }
    }

    fn namespace(&self) -> &Arc<Netns> {
        &self.namespace
    }

    fn add_link(&self, name: &str) -> u32 {
        let mut kernel = self.kernel();
        let end = VethEnd::named(name);
        kernel.add_veth(&end, &end, &self.far).unwrap();
        kernel.index_of(name).unwrap()
    }

    fn delete_link(&self, index: u32) {
        self.kernel().delete_link(index).unwrap();
    }

    fn set_link(&self, index: u32, state: LinkState) {
        self.kernel().set_link(index, state).unwrap();
    }

    fn add_address(&self, index: u32, address: IpNet) {
        let detection = DuplicateDetection::Skip;
        let mut kernel = self.kernel();
        kernel.add_address(index, address, detection).unwrap();
    }

    fn remove_address(&self, index: u32, address: IpNet) {
        self.kernel().delete_address(index, address).unwrap();
    }

    fn forbid_ipv6(&self, _: u32, name: &str) {
        let file = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        let written = self.namespace.enter(|| fs::write(file, "1"));
        written.unwrap().unwrap();
    }

    fn short_reads(&self) {}

    fn events(&self) -> Vec<Event> {
        let mut monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
        monitor.drain().unwrap()
    }
}
