//! Who there is, and with which settings: plain values.

use ipnet::IpNet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The address that all traffic goes to, in each family. It stands in every network (RFC 2544,
/// RFC 5180), so that whoever answers tells which way the question has gone.
pub const EVERYWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1)),
];

/// The pod's own network: the pod's address and the node's, in each family.
pub const ETH0: [[&str; 2]; 2] = [
    ["10.244.1.2/24", "10.244.1.1/24"],
    ["fd00:244::2/64", "fd00:244::1/64"],
];

/// An endpoint, and the connection that leads to it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The network service.
    pub service: &'static str,
    /// The interface of the connection in the client's pod.
    pub interface: &'static str,
    /// The prefixes that addresses come from.
    pub prefixes: &'static str,
    /// The sources whose traffic goes there, and the next hop, in each family.
    pub policies: [(&'static str, &'static str); 2],
}

/// All endpoints.
pub const ENDPOINTS: [Endpoint; 2] = [
    Endpoint {
        service: "red",
        interface: "nsm-0",
        prefixes: "172.16.1.0/24,fd00:1::/64",
        policies: [
            ("214.14.131.113", "172.16.1.0"),
            ("2001:db8:131::113", "fd00:1::"),
        ],
    },
    Endpoint {
        service: "blue",
        interface: "nsm-1",
        prefixes: "172.16.16.0/24,fd00:16::/64",
        policies: [
            ("214.14.132.65", "172.16.16.0"),
            ("2001:db8:132::65", "fd00:16::"),
        ],
    },
];

impl Endpoint {
    /// Its name.
    pub fn name(&self) -> String {
        format!("nse-{}", self.service)
    }

    /// The file with its policies.
    pub fn policy_file(&self) -> String {
        let mut text = String::new();
        for ((from, next_hop), everything) in self.policies.iter().zip(["0.0.0.0/0", "::/0"]) {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "- from: {from}\n  routes:\n    - prefix: {everything}\n      nexthop: '{next_hop}'"
            );
        }
        text
    }

    /// Its settings, with all files in `folder`.
    pub fn settings(&self, folder: &Path) -> Vec<(&'static str, String)> {
        vec![
            ("NSM_NAME", self.name()),
            ("NSM_LISTEN_ON", self.socket(folder)),
            ("NSM_SERVICE_NAMES", self.service.to_owned()),
            ("NSM_CIDR_PREFIX", self.prefixes.to_owned()),
            (
                "NSM_PBR_CONFIG_PATH",
                self.policy_path(folder).display().to_string(),
            ),
        ]
    }

    /// Where its policies are.
    pub fn policy_path(&self, folder: &Path) -> std::path::PathBuf {
        folder.join(format!("{}.yaml", self.service))
    }

    fn socket(&self, folder: &Path) -> String {
        format!("unix://{}/{}.sock", folder.display(), self.name())
    }
}

/// The settings of the forwarder.
pub fn forwarder(folder: &Path) -> Vec<(&'static str, String)> {
    let endpoints = ENDPOINTS
        .iter()
        .map(|endpoint| format!("{}={}", endpoint.service, endpoint.socket(folder)));
    let endpoints: Vec<_> = endpoints.collect();
    vec![
        ("NSM_NAME", "forwarder".to_owned()),
        (
            "NSM_LISTEN_ON",
            format!("unix://{}", forwarder_socket(folder).display()),
        ),
        ("NSM_ENDPOINTS", endpoints.join(",")),
    ]
}

/// Where the forwarder listens.
pub fn forwarder_socket(folder: &Path) -> std::path::PathBuf {
    folder.join("forwarder.sock")
}

/// The settings of the client.
pub fn client(folder: &Path) -> Vec<(&'static str, String)> {
    let services = ENDPOINTS
        .iter()
        .map(|endpoint| format!("kernel://{}/{}", endpoint.service, endpoint.interface));
    let services: Vec<_> = services.collect();
    vec![
        ("NSM_NAME", "nsc".to_owned()),
        (
            "NSM_CONNECT_TO",
            format!("unix://{}", forwarder_socket(folder).display()),
        ),
        ("NSM_NETWORK_SERVICES", services.join(",")),
    ]
}

/// An address of this file.
pub fn address(text: &'static str) -> IpAddr {
    text.parse()
        .unwrap_or_else(|_| unreachable!("{text} is an address"))
}

/// A prefix of this file.
pub fn net(text: &'static str) -> IpNet {
    text.parse()
        .unwrap_or_else(|_| unreachable!("{text} is a prefix"))
}
