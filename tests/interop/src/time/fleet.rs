//! Pods, each with the interfaces of its connections.

use super::Error;
use ipnet::IpNet;
use nsm_netlink::{DuplicateDetection, Family, Kernel, LinkState, Namespace, Netns, VethEnd};
use serde_json::{Value, json};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};

/// The kernel's own rules and routes (`RTPROT_KERNEL`, rtnetlink(7)).
const KERNEL: u8 = 2;

/// Pods with the same number of connections, which have the same number of policies.
#[derive(Debug)]
pub(crate) struct Fleet {
    pods: Vec<Netns>,
    connections: usize,
    policies: usize,
    /// Where the other ends of all interfaces are.
    _far: Netns,
}

impl Fleet {
    pub(crate) fn new(pods: usize, connections: usize, policies: usize) -> Result<Self, Error> {
        let far = Netns::create()?;
        let mut fleet = Self {
            pods: Vec::with_capacity(pods),
            connections,
            policies,
            _far: far,
        };
        for number in 0..pods {
            let pod = Netns::create()?;
            let mut kernel = pod.open()?;
            for connection in 0..connections {
                let there = format!("v{number}-{connection}");
                let here = interface(connection);
                let ends = [VethEnd::named(&here), VethEnd::named(&there)];
                kernel.add_veth(&ends[0], &ends[1], &fleet._far)?;
                let index = kernel.index_of(&here)?;
                kernel.set_link(index, LinkState::Up)?;
                let address = IpNet::new(host(connection, 1).into(), 16)?;
                kernel.add_address(index, address, DuplicateDetection::Skip)?;
            }
            fleet.pods.push(pod);
        }
        Ok(fleet)
    }

    /// A first request of every connection.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.ops("request")
    }

    /// A request of every connection whose client has the last answer, and sends it.
    pub(crate) fn refreshes(&self) -> Vec<Value> {
        let mut ops = self.ops("request");
        for op in &mut ops {
            op["asked"] = op["policies"].clone();
        }
        ops
    }

    /// A close of every connection.
    pub(crate) fn closes(&self) -> Vec<Value> {
        self.ops("close")
    }

    fn ops(&self, op: &str) -> Vec<Value> {
        let pods = self.pods.iter().enumerate();
        let all =
            pods.flat_map(|(number, pod)| (0..self.connections).map(move |c| (number, pod, c)));
        all.map(|(number, pod, connection)| {
            let policies: Vec<_> = (0..self.policies)
                .map(|policy| {
                    json!({
                        "from": format!("{}/32", source(connection, policy)),
                        "routes": [{
                            "prefix": "0.0.0.0/0",
                            "nexthop": host(connection, 254),
                        }],
                    })
                })
                .collect();
            json!({
                "op": op,
                "id": format!("connection-{number}-{connection}"),
                "netns": format!("/proc/{}/fd/{}", std::process::id(), pod.as_fd().as_raw_fd()),
                "interface": interface(connection),
                "sources": [format!("{}/32", host(connection, 1))],
                "policies": policies,
            })
        })
        .collect()
    }

    /// How many policies there are.
    pub(crate) fn size(&self) -> usize {
        self.pods.len() * self.connections * self.policies
    }

    /// How many rules and routes stand that the kernel has not made.
    pub(crate) fn left(&self) -> Result<usize, Error> {
        let mut left = 0;
        for pod in &self.pods {
            let mut kernel = pod.open()?;
            for family in Family::ALL {
                let rules = kernel.rules(family)?.items;
                let routes = kernel.routes(family, 0..=u32::MAX)?.items;
                left += rules.iter().filter(|it| it.protocol != KERNEL).count();
                left += routes.iter().filter(|it| it.protocol != KERNEL).count();
            }
        }
        Ok(left)
    }

    /// How many policies stand: their one rule leads to a default route of their own interface.
    pub(crate) fn right(&self) -> Result<usize, Error> {
        let mut right = 0;
        for pod in &self.pods {
            let mut kernel = pod.open()?;
            let rules = kernel.rules(Family::V4)?.items;
            let routes = kernel.routes(Family::V4, 0..=u32::MAX)?.items;
            for connection in 0..self.connections {
                let index = kernel.index_of(&interface(connection))?;
                for policy in 0..self.policies {
                    let from = IpNet::from(IpAddr::from(source(connection, policy)));
                    let mut mine = rules.iter().filter(|rule| rule.selector.from == Some(from));
                    let (Some(rule), None) = (mine.next(), mine.next()) else {
                        continue;
                    };
                    let mut hops = routes.iter().filter(|route| route.table == rule.table);
                    let leads = |hop: &nsm_netlink::Hop| hop.dev == index;
                    let own = hops
                        .next()
                        .and_then(|route| route.hop.as_ref())
                        .is_some_and(leads);
                    right += usize::from(own && hops.next().is_none());
                }
            }
        }
        Ok(right)
    }
}

fn interface(connection: usize) -> String {
    format!("nsm-{connection}")
}

fn host(connection: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, connection as u8, 0, host)
}

fn source(connection: usize, policy: usize) -> Ipv4Addr {
    let [high, low] = (policy as u16).to_be_bytes();
    Ipv4Addr::new(10, 100 + connection as u8, high, low)
}

/// The memory of a process that is in use, in KiB.
pub(crate) fn resident(pid: u32) -> Result<f64, Error> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.split_whitespace().next());
    Ok(size.ok_or("no VmRSS")?.parse()?)
}
