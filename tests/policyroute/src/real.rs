use crate::Machine;
use ipnet::IpNet;
use nsm_netlink::{
    DuplicateDetection, Event, Kernel, LinkState, Monitor, Namespace, Netns, Route, Rtnl, VethEnd,
};
use std::fs;
use std::process::Command;
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

    fn replace_route(&self, route: &Route) {
        replace_route(&self.namespace, route);
    }

    fn forbid_ipv6(&self, _: u32, name: &str) {
        let file = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        let written = self.namespace.enter(|| fs::write(file, "1"));
        written.unwrap().unwrap();
    }

    fn short_reads(&self) {}

    /// One is the machine's own.
    fn listeners(&self) -> usize {
        listeners(&self.namespace) - 1
    }

    fn events(&self) -> Vec<Event> {
        let mut monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
        monitor.drain().unwrap()
    }
}

/// Puts a route in the place of the first of its prefix and metric.
pub fn replace_route(netns: &Netns, route: &Route) {
    let links = netns.open().unwrap().links().unwrap();
    let name = |index| {
        let link = links.iter().find(|link| link.index == index);
        link.map(|link| link.name.clone())
    };
    let route = route.display(name).to_string();
    let words = ["route", "replace"].into_iter().chain(route.split(' '));
    let mut ip = Command::new("ip");
    let done = netns.enter(|| ip.args(words).output()).unwrap().unwrap();
    assert!(done.status.success(), "ip route replace {route}: {done:?}");
}

/// How many sockets of a namespace hear notifications: those with groups in proc_pid_net(5).
pub fn listeners(netns: &Netns) -> usize {
    let read = || fs::read_to_string("/proc/thread-self/net/netlink");
    let sockets = netns.enter(read).unwrap().unwrap();
    let groups = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
    let groups = sockets.lines().skip(1).filter_map(groups);
    groups.filter(|groups| groups != "00000000").count()
}
