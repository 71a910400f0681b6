//! A node, a pod on it, and a network behind each endpoint: network namespaces that end with their
//! processes.

use super::setting::{ENDPOINTS, ETH0, EVERYWHERE, net};
use nsm_netlink::{
    DuplicateDetection, Family, KernelError, LinkState, Namespace, Netns, NetnsError, SetupError,
    VethEnd,
};

/// The index of `lo` in every namespace.
const LOOPBACK: u32 = 1;

/// The namespaces.
#[derive(Debug)]
pub struct World {
    /// Where the forwarder runs, and what the pod's own network leads to.
    pub node: Netns,
    /// Where the client runs.
    pub pod: Netns,
    /// Where the endpoints run.
    pub networks: Vec<Netns>,
}

/// Why there is no such world.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// There is no namespace.
    #[error("cannot have a network namespace")]
    Netns(#[from] NetnsError),
    /// The kernel cannot be asked.
    #[error("cannot read a network namespace")]
    Kernel(#[from] KernelError),
    /// The kernel refuses a link or an address.
    #[error("cannot set up a network namespace")]
    Setup(#[from] SetupError),
}

impl World {
    /// A pod with its own network, and networks that have nothing but [`EVERYWHERE`].
    pub fn new() -> Result<Self, WorldError> {
        let world = Self {
            node: Netns::current()?,
            pod: Netns::create()?,
            networks: ENDPOINTS
                .iter()
                .map(|_| Netns::create())
                .collect::<Result<_, _>>()?,
        };
        for netns in world.networks.iter().chain([&world.node]) {
            let mut kernel = netns.open()?;
            for address in EVERYWHERE {
                kernel.add_address(LOOPBACK, address.into(), DuplicateDetection::Skip)?;
            }
        }
        let (mut pod, mut node) = (world.pod.open()?, world.node.open()?);
        let ends = ["eth0", "pod-eth0"].map(VethEnd::named);
        pod.add_veth(&ends[0], &ends[1], &world.node)?;
        let (near, far) = (pod.index_of("eth0")?, node.index_of("pod-eth0")?);
        pod.set_link(near, LinkState::Up)?;
        node.set_link(far, LinkState::Up)?;
        for ([here, there], family) in ETH0.iter().zip(Family::ALL) {
            let (here, there) = (net(here), net(there));
            pod.add_address(near, here, DuplicateDetection::Skip)?;
            node.add_address(far, there, DuplicateDetection::Skip)?;
            pod.add_main_route(family.default_prefix(), near, Some(there.addr()))?;
        }
        Ok(world)
    }

    /// Deletes the interfaces of the connections, as those forwarders leave them that keep the other
    /// half of each to themselves.
    pub fn delete_interfaces(&self) -> Result<(), WorldError> {
        let mut pod = self.pod.open()?;
        for endpoint in &ENDPOINTS {
            let index = pod.index_of(endpoint.interface)?;
            pod.delete_link(index)?;
        }
        Ok(())
    }
}
