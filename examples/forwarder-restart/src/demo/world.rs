//! A node and a pod on it: two network namespaces that end with the process.

use super::foreign;
use super::topology::{Interface, Topology};
use ipnet::IpNet;
use nsm_netlink::{
    DuplicateDetection, Errno, Family, Kernel, KernelError, LinkState, Namespace, Netns,
    NetnsError, Refusal, Rtnl, SetupError, VethEnd,
};
use std::collections::BTreeMap;

/// The index of `lo` in every namespace.
const LOOPBACK: u32 = 1;
/// Whom every gateway's address belongs to. It is nobody's, so that the node looks at frames on
/// its end of a link and does nothing with them.
const GATEWAY: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];

/// The namespaces and the links between them.
#[derive(Debug)]
pub struct World {
    node: Netns,
    pod: Netns,
    places: BTreeMap<u32, Place>,
    connected: Vec<u32>,
}

/// Where a datagram comes out of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// By the pod's own network.
    Eth0,
    /// By the interface of a connection.
    Connection(usize),
}

/// Why there is no such world, or no such pod in it.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The kernel was built without it.
    #[error("this kernel has no policy routing for {0}: run the demo on one that has, with {1}")]
    NoPolicyRouting(Family, &'static str),
    /// The kernel was built without them, or their module is not there.
    #[error("this kernel has no veth interfaces: load its module veth")]
    NoVeth(#[source] SetupError),
    /// It is switched off for new namespaces.
    #[error("IPv6 is switched off: set sysctl net.ipv6.conf.default.disable_ipv6 to 0")]
    NoIpv6(#[source] SetupError),
    /// There is no namespace.
    #[error("cannot have a pod's network namespace")]
    Netns(#[from] NetnsError),
    /// The kernel cannot be asked.
    #[error("cannot read the pod")]
    Kernel(#[from] KernelError),
    /// The kernel refuses a link or an address.
    #[error("cannot make the pod")]
    Setup(#[from] SetupError),
    /// The kernel refuses a rule or a route.
    #[error("cannot {op}")]
    Refused {
        /// What was to be done.
        op: String,
        /// The kernel's reason.
        #[source]
        source: Refusal,
    },
}

impl World {
    /// A pod with its own network, the addresses of all policies, rules and routes of others, and no
    /// connection.
    ///
    /// The addresses stand on `lo`, where they outlive the interfaces: so what is sent while an
    /// interface is gone really falls through to the main table, in place of failing at its socket.
    pub fn new(topology: &Topology) -> Result<Self, WorldError> {
        let mut world = Self {
            node: Netns::current()?,
            pod: Netns::create()?,
            places: BTreeMap::new(),
            connected: Vec::new(),
        };
        let mut pod = world.pod.open()?;
        let options = ["CONFIG_IP_MULTIPLE_TABLES", "CONFIG_IPV6_MULTIPLE_TABLES"];
        for (family, option) in Family::ALL.into_iter().zip(options) {
            // Where there is policy routing, there are rules for `local` and `main`.
            match pod.rules(family) {
                Ok(rules) if !rules.items.is_empty() => {}
                Err(error) if !is_missing(error.errno()) => return Err(error.into()),
                _ => return Err(WorldError::NoPolicyRouting(family, option)),
            }
        }
        for policy in &topology.policies {
            add_address(&mut pod, LOOPBACK, policy.source.into())?;
        }
        let eth0 = world.plug(&mut pod, &Interface::eth0(), Place::Eth0)?;
        for (family, gateway) in Family::ALL.into_iter().zip(Interface::eth0().gateways) {
            pod.add_main_route(family.default_prefix(), eth0, Some(gateway))?;
        }
        foreign::plant(&mut pod, eth0, topology)?;
        Ok(world)
    }

    /// The pod's namespace.
    pub fn pod(&self) -> &Netns {
        &self.pod
    }

    /// Which link each interface of the node that ever was is the far end of.
    pub fn places(&self) -> &BTreeMap<u32, Place> {
        &self.places
    }

    /// Makes the interfaces of all connections, in this order.
    pub fn connect(&mut self, topology: &Topology, order: &[usize]) -> Result<(), WorldError> {
        let mut pod = self.pod.open()?;
        for &index in order {
            let interface = &topology.connections[index];
            let link = self.plug(&mut pod, interface, Place::Connection(index))?;
            self.connected.push(link);
        }
        Ok(())
    }

    /// Deletes the interfaces of all connections.
    pub fn disconnect(&mut self) -> Result<(), WorldError> {
        let mut pod = self.pod.open()?;
        for link in self.connected.drain(..) {
            pod.delete_link(link)?;
        }
        Ok(())
    }

    fn plug(
        &mut self,
        pod: &mut Rtnl,
        interface: &Interface,
        place: Place,
    ) -> Result<u32, WorldError> {
        let far = format!("{}-far", interface.name);
        let pair = [interface.name.as_str(), &far].map(VethEnd::named);
        let pair = pod.add_veth(&pair[0], &pair[1], &self.node);
        pair.map_err(|error| match error.errno() {
            errno if is_missing(errno) => WorldError::NoVeth(error),
            _ => error.into(),
        })?;
        let mut node = self.node.open()?;
        let far = node.index_of(&far)?;
        node.set_link(far, LinkState::Up)?;
        self.places.insert(far, place);

        let link = pod.index_of(&interface.name)?;
        pod.set_link(link, LinkState::Up)?;
        for address in interface.addresses {
            add_address(pod, link, address)?;
        }
        for gateway in interface.gateways {
            pod.set_neighbour(link, gateway, GATEWAY)?;
        }
        Ok(link)
    }
}

fn add_address(pod: &mut Rtnl, link: u32, address: IpNet) -> Result<(), WorldError> {
    let added = pod.add_address(link, address, DuplicateDetection::Skip);
    added.map_err(|error| match (Family::of_net(&address), error.errno()) {
        (Family::V6, Some(Errno::EACCES)) => WorldError::NoIpv6(error),
        _ => error.into(),
    })
}

/// Whether the kernel says that it does not know what it is asked for.
fn is_missing(errno: Option<Errno>) -> bool {
    matches!(errno, Some(Errno::EOPNOTSUPP | Errno::EAFNOSUPPORT))
}
