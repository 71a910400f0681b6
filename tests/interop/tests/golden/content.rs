//! The values that Go was given (`go/golden/content.go`), and what its elements make of them.

use std::collections::BTreeMap;

use nsm_api::connection::{Connection, Mechanism, Path, PathSegment, State};
use nsm_api::connectioncontext::{
    ConnectionContext, DnsConfig, DnsContext, EthernetContext, ExtraPrefixRequest, IpContext,
    IpFamily, IpNeighbor, PolicyRoute, Route, ip_family,
};
use prost_types::Timestamp;

pub fn text(text: &str) -> String {
    text.to_owned()
}

pub fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(text).into()
}

pub fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.map(|(key, value)| (text(key), text(value))).into()
}

fn route(prefix: &str, next_hop: &str) -> Route {
    Route {
        prefix: text(prefix),
        next_hop: text(next_hop),
    }
}

pub fn kernel(name: &str) -> Mechanism {
    Mechanism {
        cls: text("LOCAL"),
        r#type: text("KERNEL"),
        parameters: map([("inodeURL", "inode://"), ("name", name), ("vlan", "0")]),
    }
}

pub fn vxlan() -> Mechanism {
    Mechanism {
        cls: text("REMOTE"),
        r#type: text("VXLAN"),
        ..Mechanism::default()
    }
}

fn labels() -> BTreeMap<String, String> {
    map([
        ("app", "nsc"),
        ("clusterName", "cluster-1"),
        ("color", "red"),
        ("nodeName", "worker-1"),
        ("podName", "nsc-pod"),
    ])
}

/// A hop with its token. An interface is told as a metric.
fn segment(name: &str, id: &str, side: &str, interface: &str) -> PathSegment {
    PathSegment {
        name: text(name),
        id: text(id),
        token: format!("token.{name}.signature"),
        expires: Some(Timestamp {
            seconds: 2_000_000_000,
            nanos: 250,
        }),
        metrics: map([(side, interface)]),
    }
}

/// What the client asks for.
pub fn asked() -> IpContext {
    IpContext {
        src_ip_required: true,
        dst_ip_required: true,
        excluded_prefixes: texts(["10.96.0.0/12", "10.244.0.0/16", "fd00:10:96::/112"]),
        extra_prefix_request: vec![ExtraPrefixRequest {
            addr_family: Some(IpFamily {
                family: ip_family::Family::Ipv6.into(),
            }),
            prefix_len: 64,
            required_number: 1,
            requested_number: 300,
        }],
        ..IpContext::default()
    }
}

fn policies() -> Vec<PolicyRoute> {
    vec![
        PolicyRoute {
            from: text("172.16.2.201/24"),
            proto: text("6"),
            dst_port: text("6666"),
            routes: vec![
                route("172.16.3.0/24", "172.16.2.200"),
                route("172.16.4.0/24", ""),
            ],
            ..PolicyRoute::default()
        },
        PolicyRoute {
            from: text("172.16.2.201/24"),
            proto: text("6"),
            src_port: text("5555"),
            ..PolicyRoute::default()
        },
        PolicyRoute {
            proto: text("17"),
            dst_port: text("6667-6670"),
            ..PolicyRoute::default()
        },
        PolicyRoute {
            from: text("2004::3/120"),
            proto: text("17"),
            dst_port: text("5555"),
            routes: vec![route("2004::5/120", "2004::6")],
            ..PolicyRoute::default()
        },
    ]
}

/// What the endpoint answers. Go adds the source of a policy as often as policies have it.
fn given() -> ConnectionContext {
    ConnectionContext {
        ip_context: Some(IpContext {
            src_ip_addrs: texts([
                "172.16.1.101/32",
                "172.16.2.201/24",
                "172.16.2.201/24",
                "2004::3/120",
            ]),
            dst_ip_addrs: texts(["172.16.1.100/32"]),
            src_routes: vec![
                route("172.16.1.100/32", ""),
                route("192.0.2.0/24", "172.16.1.100"),
            ],
            dst_routes: vec![route("172.16.1.101/32", "")],
            ip_neighbors: vec![IpNeighbor {
                ip: text("172.16.1.100"),
                hardware_address: text("02:00:00:00:00:0a"),
            }],
            extra_prefixes: texts(["2001:db8:7::/64"]),
            policies: policies(),
            ..asked()
        }),
        dns_context: Some(DnsContext {
            configs: vec![DnsConfig {
                dns_server_ips: texts(["172.16.1.100", "10.96.0.10"]),
                search_domains: texts(["mesh.example", "example.net"]),
            }],
        }),
        ethernet_context: Some(EthernetContext {
            src_mac: text("02:00:00:00:00:09"),
            dst_mac: text("02:00:00:00:00:0a"),
            vlan_tag: -1,
        }),
        extra_context: map([("policy.generation", "12"), ("zone", "north")]),
        mtu: 1450,
    }
}

/// What the forwarder and the endpoint call the connection: the first ids of the seed.
pub const FORWARDER: &str = "95af5a25-3679-41ba-a2ff-6cd471c483f1";
/// See [`FORWARDER`].
pub const NSE: &str = "5fb90bad-b37c-4821-b6d9-5526a41a9504";

/// The hops of the connection, and which of them it is at.
pub fn path(index: u32) -> Path {
    let (client, server) = ("client_interface", "server_interface");
    Path {
        index,
        path_segments: vec![
            segment("nsc", "nsc-0", client, "KERNEL/nsm-1"),
            segment("forwarder", FORWARDER, server, "KERNEL/nsm-1"),
            segment("nse", NSE, server, "KERNEL/nse-1"),
        ],
    }
}

pub fn answered() -> Connection {
    Connection {
        id: text("nsc-0"),
        network_service: text("policy-based-routing"),
        mechanism: Some(kernel("nsm-1")),
        context: Some(given()),
        labels: labels(),
        path: Some(path(0)),
        network_service_endpoint_name: text("nse"),
        payload: text("ETHERNET"),
        state: State::Up.into(),
    }
}
