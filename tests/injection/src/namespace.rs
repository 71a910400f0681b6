//! A network namespace of a case, and what stands and happens in it.

use ipnet::IpNet;
use nsm_netlink::{
    DuplicateDetection, Event, Family, Interface, InterfaceAddress, InterfaceEvent,
    InterfaceMonitor, InterfaceSubject, Kernel, LinkState, Monitor, Namespace, Neighbour, Netns,
    Object, Route, Rtnl, Rule, VethEnd,
};
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MAIN: u32 = 254;
const LOOPBACK: u32 = 1;
/// `RTPROT_KERNEL`.
const BY_THE_KERNEL: u8 = 2;
/// How long a datagram may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// A namespace.
#[derive(Debug, Clone)]
pub struct Place {
    netns: Arc<Netns>,
    /// Where other ends of its interfaces are.
    others: Arc<Mutex<Vec<Netns>>>,
}

/// All that a forwarder may have made in a namespace, and all that others have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Interfaces without `lo`.
    pub interfaces: Vec<Interface>,
    /// Addresses that are used beyond their link.
    pub addresses: Vec<InterfaceAddress>,
    /// The main table without what the kernel makes by itself.
    pub routes: Vec<Route>,
    /// Neighbours that were told.
    pub neighbours: Vec<Neighbour>,
    /// Rules of both families.
    pub rules: Vec<Rule>,
}

impl Place {
    /// A new namespace. Nothing happens in it by itself: interfaces get no link-local addresses.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let place = Self {
            netns: Arc::new(Netns::create().unwrap()),
            others: Arc::default(),
        };
        place.set("net/ipv6/conf/default/addr_gen_mode", "1");
        place
    }

    /// A namespace of another process's case.
    pub fn of(netns: Netns) -> Self {
        Self {
            netns: Arc::new(netns),
            others: Arc::default(),
        }
    }

    /// The namespace.
    pub fn netns(&self) -> &Arc<Netns> {
        &self.netns
    }

    /// How many hold the namespace, besides the one that asks.
    pub fn others_holding(&self) -> usize {
        Arc::strong_count(&self.netns) - 1
    }

    /// The kernel in it.
    pub fn kernel(&self) -> Rtnl {
        self.netns.open().unwrap()
    }

    /// Writes a sysctl.
    pub fn set(&self, name: &str, value: &str) {
        let file = format!("/proc/sys/{name}");
        self.netns
            .enter(|| fs::write(file, value))
            .unwrap()
            .unwrap();
    }

    /// Reads a sysctl.
    pub fn get(&self, name: &str) -> String {
        let file = format!("/proc/sys/{name}");
        let text = self.netns.enter(|| fs::read_to_string(file));
        text.unwrap().unwrap().trim().to_owned()
    }

    /// The interface of a name.
    #[track_caller]
    pub fn interface(&self, name: &str) -> Interface {
        let interfaces = self.kernel().interfaces().unwrap();
        let found = interfaces.iter().find(|it| it.name == name);
        match found {
            Some(interface) => interface.clone(),
            None => panic!("{name} is not among {interfaces:?}"),
        }
    }

    /// The names of all interfaces but `lo`.
    pub fn names(&self) -> Vec<String> {
        let interfaces = self.snapshot().interfaces;
        interfaces.into_iter().map(|it| it.name).collect()
    }

    /// The addresses of an interface.
    pub fn addresses(&self, name: &str) -> Vec<String> {
        let index = self.interface(name).index;
        let addresses = self.snapshot().addresses;
        let own = addresses.iter().filter(|address| address.index == index);
        own.map(|address| address.net.to_string()).collect()
    }

    /// The routes of the main table by an interface, as `ip route` prints them.
    pub fn routes(&self, name: &str) -> Vec<String> {
        let index = self.interface(name).index;
        let routes = self.snapshot().routes;
        let own = routes.iter().filter(|route| route.dev() == Some(index));
        own.map(|route| {
            route
                .display(|_| Some(name.to_owned()))
                .to_string()
                .trim()
                .to_owned()
        })
        .collect()
    }

    /// The interfaces that the IPv4 routes of a table leave by.
    pub fn leaves_by(&self, table: u32) -> Vec<u32> {
        let routes = self.kernel().routes(Family::V4, table..=table).unwrap();
        routes.items.iter().filter_map(Route::dev).collect()
    }

    /// The neighbours that an interface was told, each with its hardware address.
    pub fn neighbours(&self, name: &str) -> Vec<(String, [u8; 6])> {
        let index = self.interface(name).index;
        let neighbours = self.snapshot().neighbours;
        let own = neighbours.iter().filter(|it| it.index == index);
        own.map(|it| (it.address.to_string(), it.mac.unwrap()))
            .collect()
    }

    /// All that stands.
    pub fn snapshot(&self) -> Snapshot {
        let mut kernel = self.kernel();
        let mut interfaces = kernel.interfaces().unwrap();
        interfaces.retain(|it| it.index != LOOPBACK);
        let mut addresses = kernel.interface_addresses().unwrap();
        addresses.retain(|address| address.global && address.index != LOOPBACK);
        let mut neighbours = Vec::new();
        for interface in &interfaces {
            neighbours.extend(kernel.neighbours(interface.index).unwrap());
        }
        neighbours.retain(|it| it.permanent);
        neighbours.sort_by_key(|it| (it.index, it.address));
        let (mut routes, mut rules) = (Vec::new(), Vec::new());
        for family in Family::ALL {
            routes.extend(kernel.routes(family, MAIN..=MAIN).unwrap().items);
            rules.extend(kernel.rules(family).unwrap().items);
        }
        routes.retain(|route| route.protocol != BY_THE_KERNEL);
        Snapshot {
            interfaces,
            addresses,
            routes,
            neighbours,
            rules,
        }
    }

    /// Gives the namespace a network of its own: `eth0` with default routes.
    pub fn plug_eth0(&self) {
        let mut kernel = self.kernel();
        let far = Netns::create().unwrap();
        kernel
            .add_veth(&VethEnd::named("eth0"), &VethEnd::named("far"), &far)
            .unwrap();
        let mut far_kernel = far.open().unwrap();
        let far_index = far_kernel.index_of("far").unwrap();
        far_kernel.set_link(far_index, LinkState::Up).unwrap();
        self.others.lock().unwrap().push(far);
        let eth0 = kernel.index_of("eth0").unwrap();
        kernel.set_link(eth0, LinkState::Up).unwrap();
        for address in ["10.200.0.2/24", "2001:db8:200::2/64"] {
            self.give("eth0", address);
        }
        for (family, via) in Family::ALL
            .into_iter()
            .zip(["10.200.0.1", "2001:db8:200::1"])
        {
            let via = Some(via.parse().unwrap());
            kernel
                .add_main_route(family.default_prefix(), eth0, via)
                .unwrap();
        }
    }

    /// Somebody else gives an interface an address.
    pub fn give(&self, name: &str, address: &str) {
        let index = self.interface(name).index;
        let address: IpNet = address.parse().unwrap();
        let given = self
            .kernel()
            .add_address(index, address, DuplicateDetection::Skip);
        given.unwrap();
    }

    /// The address from which packets to another leave.
    pub fn source_towards(&self, to: &str) -> IpAddr {
        let to: IpAddr = to.parse().unwrap();
        let any = match to {
            IpAddr::V4(_) => "0.0.0.0:0",
            IpAddr::V6(_) => "[::]:0",
        };
        let socket = self.netns.enter(|| UdpSocket::bind(any)).unwrap().unwrap();
        socket.connect((to, 9)).unwrap();
        socket.local_addr().unwrap().ip()
    }

    /// A socket on an address, which waits no longer for a datagram than one may take.
    pub fn socket(&self, address: IpAddr) -> UdpSocket {
        let socket = self.netns.enter(|| UdpSocket::bind((address, 0)));
        let socket = socket.unwrap().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Whether a datagram comes from one address here to another there, and one back: the first of
    /// each, well before a neighbour is asked for a second time. An IPv6 address that waits for
    /// duplicates cannot be bound at all.
    pub fn talks_to(&self, own: &str, there: &Self, other: &str) -> bool {
        let here = self.socket(own.parse().unwrap());
        let far = there.socket(other.parse().unwrap());
        let mut buffer = [0; 8];
        here.send_to(b"ping", far.local_addr().unwrap()).unwrap();
        let Ok((_, from)) = far.recv_from(&mut buffer) else {
            return false;
        };
        far.send_to(b"pong", from).unwrap();
        here.recv_from(&mut buffer).is_ok()
    }

    /// Listens from now on.
    pub fn ear(&self) -> Ear {
        Ear {
            interfaces: InterfaceMonitor::new(&self.netns).unwrap(),
            routes: Monitor::new(&self.netns).unwrap(),
            before: self.snapshot(),
        }
    }
}

/// Hears what happens in a namespace.
#[derive(Debug)]
pub struct Ear {
    interfaces: InterfaceMonitor,
    routes: Monitor,
    before: Snapshot,
}

impl Ear {
    /// What was heard, without what the kernel tells late of what it has done by itself: that an
    /// interface has a carrier, and that an IPv6 address is ready. There nothing that is looked at
    /// here is other than before.
    pub fn heard(&mut self) -> (Vec<InterfaceEvent>, Vec<Event>) {
        let mut interfaces = self.interfaces.drain().unwrap();
        interfaces.retain(|event| match &event.subject {
            InterfaceSubject::Interface(it) => !self.before.interfaces.contains(it),
            InterfaceSubject::Address(it) => it.global && !self.before.addresses.contains(it),
            InterfaceSubject::Neighbour(neighbour) => neighbour.permanent,
        });
        let mut routes = self.routes.drain().unwrap();
        routes.retain(|event| match &event.object {
            Object::Route(route) => route.protocol != BY_THE_KERNEL,
            Object::Rule(_) => true,
        });
        (interfaces, routes)
    }

    /// Asserts that nothing happened.
    #[track_caller]
    pub fn heard_nothing(&mut self) {
        assert_eq!(self.heard(), (vec![], vec![]));
    }
}
