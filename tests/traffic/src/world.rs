//! A pod with three interfaces, and what is behind them: two network namespaces that end with the
//! process.

use crate::Error;
use crate::stream::Stream;
use ipnet::IpNet;
use nsm_netlink::{DuplicateDetection, Family, Kernel, LinkState, Namespace, Netns, Rtnl, VethEnd};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;
use std::time::{Duration, Instant};

/// The index of `lo` in every namespace.
const LOOPBACK: u32 = 1;
/// `RT_TABLE_LOCAL`.
const LOCAL: u32 = 255;
/// How long the kernel may take until it uses what it was given.
const PATIENCE: Duration = Duration::from_secs(5);
/// What would answer, drop or reroute on its own while it is counted.
const SYSCTLS: [(&str, &str); 4] = [
    ("ipv6/conf/default/addr_gen_mode", "1"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
];

/// An interface of the pod. Both ends of the pair have its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// The first connection's.
    #[serde(rename = "nsm-0")]
    Nsm0,
    /// The second connection's.
    #[serde(rename = "nsm-1")]
    Nsm1,
    /// The pod's own, which its main table leads to: what no policy catches leaves here.
    Eth0,
}

impl Link {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Nsm0, Self::Nsm1, Self::Eth0];

    /// Its name at the start, before anything is renamed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nsm0 => "nsm-0",
            Self::Nsm1 => "nsm-1",
            Self::Eth0 => "eth0",
        }
    }

    /// The network of the link in a family, and in it the address of a host.
    pub fn host(self, family: Family, host: u8) -> IpNet {
        let number = self as u8 + 1;
        match family {
            Family::V4 => IpNet::new_assert(Ipv4Addr::new(172, 16, number, host).into(), 24),
            Family::V6 => {
                let address = Ipv6Addr::new(0xfd00, 0, 0, number.into(), 0, 0, 0, host.into());
                IpNet::new_assert(address.into(), 64)
            }
        }
    }

    /// The next hop of a number on the link.
    pub fn gateway(self, family: Family, hop: Hop) -> IpAddr {
        self.host(family, hop as u8).addr()
    }

    fn mac(self, end: u8) -> [u8; 6] {
        [2, 0, 0, 0, self as u8 + 1, end]
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One of the two next hops on each link. Both are the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// The first.
    A = 1,
    /// The second.
    B = 9,
}

impl Hop {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// The host number of the pod on each link.
const POD: u8 = 2;

/// The namespaces and the indexes of the interfaces between them.
#[derive(Debug)]
pub struct World {
    pod: Netns,
    far: Netns,
    near: [u32; 3],
    far_ends: [u32; 3],
}

impl World {
    /// A pod with a default route by `eth0`, the addresses of all streams, and neither rule nor
    /// connection.
    ///
    /// # Errors
    /// When the kernel does not want to.
    pub fn new() -> Result<Self, Error> {
        let mut world = Self {
            pod: Netns::create()?,
            far: Netns::create()?,
            near: [0; 3],
            far_ends: [0; 3],
        };
        for netns in [&world.pod, &world.far] {
            for (key, value) in SYSCTLS {
                let file = format!("/proc/sys/net/{key}");
                let written = netns.enter(|| fs::write(&file, value))?;
                written.map_err(|error| format!("cannot write {file}: {error}"))?;
            }
        }
        let (mut pod, mut far) = (world.pod.open()?, world.far.open()?);
        for stream in Stream::ALL {
            pod.add_address(LOOPBACK, stream.source().into(), DuplicateDetection::Skip)?;
        }
        for family in Family::ALL {
            let destination = Stream::destination(family).ip();
            far.add_address(LOOPBACK, destination.into(), DuplicateDetection::Skip)?;
        }
        for link in Link::ALL {
            let ends = [POD, Hop::A as u8].map(|end| VethEnd {
                mac: Some(link.mac(end)),
                ..VethEnd::named(link.name())
            });
            pod.add_veth(&ends[0], &ends[1], &world.far)?;
            world.near[link as usize] = plug(&mut pod, link, POD, &[Hop::A as u8, Hop::B as u8])?;
            world.far_ends[link as usize] = plug(&mut far, link, Hop::A as u8, &[POD])?;
        }
        for family in Family::ALL {
            let eth0 = Link::Eth0.gateway(family, Hop::A);
            let back = Link::Nsm0.host(family, POD).addr();
            let default = family.default_prefix();
            pod.add_main_route(default, world.near(Link::Eth0), Some(eth0))?;
            // What answers comes back by one link, whichever it was asked by.
            far.add_main_route(default, world.far_end(Link::Nsm0), Some(back))?;
        }
        world.settle(&mut pod)?;
        Ok(world)
    }

    /// The pod's namespace.
    pub fn pod(&self) -> &Netns {
        &self.pod
    }

    /// The namespace where all far ends are, and whoever listens there.
    pub fn far(&self) -> &Netns {
        &self.far
    }

    /// The index of an interface in the pod. It stays whatever the name becomes.
    pub fn near(&self, link: Link) -> u32 {
        self.near[link as usize]
    }

    /// The index of its other end.
    pub fn far_end(&self, link: Link) -> u32 {
        self.far_ends[link as usize]
    }

    /// Waits until IPv6 has put everything to use. It does so a little later, by changes that make
    /// sockets look their routes up again: they would hide that one is stuck.
    fn settle(&self, pod: &mut Rtnl) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let routes = pod.routes(Family::V6, LOCAL..=LOCAL)?.items;
            let ready = |prefix: IpNet, dev| {
                routes
                    .iter()
                    .any(|route| route.prefix == prefix && route.dev() == Some(dev))
            };
            let multicast: IpNet =
                IpNet::new_assert(IpAddr::from([0xff00u16, 0, 0, 0, 0, 0, 0, 0]), 8);
            let links = Link::ALL.iter().all(|link| {
                let address = link.host(Family::V6, POD).addr();
                ready(multicast, self.near(*link)) && ready(address.into(), self.near(*link))
            });
            let known: BTreeSet<IpAddr> = routes.iter().map(|route| route.prefix.addr()).collect();
            let sources = Stream::ALL.iter().map(|stream| stream.source());
            let mut v6 = sources.filter(IpAddr::is_ipv6);
            if links && v6.all(|source| known.contains(&source)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err("the pod's IPv6 addresses do not come into use".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Sets up one end of a link: its address in both families, and who it knows on the other end.
fn plug(kernel: &mut Rtnl, link: Link, host: u8, neighbours: &[u8]) -> Result<u32, Error> {
    let index = kernel.index_of(link.name())?;
    kernel.set_link(index, LinkState::Up)?;
    for family in Family::ALL {
        kernel.add_address(index, link.host(family, host), DuplicateDetection::Skip)?;
        for neighbour in neighbours {
            let address = link.host(family, *neighbour).addr();
            // Every next hop is the one far end.
            let mac = link.mac(if *neighbour == POD { POD } else { Hop::A as u8 });
            kernel.set_neighbour(index, address, mac)?;
        }
    }
    Ok(index)
}
