//! The wire, pinned to bytes that another protobuf implementation made: see `testdata/make.py`.
//! What the mesh's Go components write to their sockets is in `tests/interop/golden`.

mod registry;

use std::collections::BTreeMap;
use std::fmt::Debug;

use prost::Message;
use prost_types::Timestamp;

use crate::connection::{
    Connection, ConnectionEvent, ConnectionEventType, Mechanism, MonitorScopeSelector, Path,
    PathSegment, State,
};
use crate::connectioncontext::{
    ConnectionContext, DnsConfig, DnsContext, EthernetContext, ExtraPrefixRequest, IpContext,
    IpFamily, IpNeighbor, PolicyRoute, Route, ip_family,
};
use crate::networkservice::NetworkServiceRequest;

/// 18 May 2033, 03:33:20 UTC.
const EXPIRY: i64 = 2_000_000_000;

#[track_caller]
fn pinned<M: Message + Default + PartialEq + Debug>(wire: &[u8], message: M) {
    assert_eq!(M::decode(wire).unwrap(), message);
    assert_eq!(message.encode_to_vec(), wire);
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(text).into()
}

fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.map(|(key, value)| (text(key), text(value))).into()
}

fn route(prefix: &str, next_hop: &str) -> Route {
    Route {
        prefix: text(prefix),
        next_hop: text(next_hop),
    }
}

fn kernel() -> Mechanism {
    Mechanism {
        cls: text("LOCAL"),
        r#type: text("KERNEL"),
        parameters: map([
            ("inodeURL", "inode://4/4026532581"),
            ("name", "nsm-1"),
            ("vlan", "100"),
        ]),
    }
}

fn ip_context() -> IpContext {
    IpContext {
        src_ip_addrs: texts(["172.16.1.2/32", "2001:db8::2/128"]),
        dst_ip_addrs: texts(["172.16.1.3/32"]),
        src_ip_required: true,
        dst_ip_required: true,
        src_routes: vec![route("172.16.4.0/24", "172.16.1.4")],
        dst_routes: vec![route("172.16.5.0/24", "172.16.1.5")],
        excluded_prefixes: texts(["10.96.0.0/12"]),
        ip_neighbors: vec![IpNeighbor {
            ip: text("172.16.1.6"),
            hardware_address: text("02:00:00:00:00:06"),
        }],
        extra_prefix_request: vec![ExtraPrefixRequest {
            addr_family: Some(IpFamily {
                family: ip_family::Family::Ipv6.into(),
            }),
            prefix_len: 64,
            required_number: 1,
            requested_number: 300,
        }],
        extra_prefixes: texts(["2001:db8:7::/64"]),
        policies: vec![
            PolicyRoute {
                from: text("172.16.1.2"),
                proto: text("6"),
                dst_port: text("6666"),
                src_port: text("1024-2048"),
                routes: vec![
                    route("172.16.2.0/24", "172.16.1.1"),
                    route("172.16.3.0/24", ""),
                ],
            },
            PolicyRoute {
                from: text("2001:db8::2"),
                ..PolicyRoute::default()
            },
        ],
    }
}

fn context() -> ConnectionContext {
    ConnectionContext {
        ip_context: Some(ip_context()),
        dns_context: Some(DnsContext {
            configs: vec![DnsConfig {
                dns_server_ips: texts(["172.16.1.8"]),
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

fn path() -> Path {
    Path {
        index: 1,
        path_segments: vec![
            PathSegment {
                name: text("nsc"),
                id: text("nsc-0001"),
                token: text("header.claims.signature"),
                expires: Some(Timestamp {
                    seconds: EXPIRY,
                    nanos: 250,
                }),
                metrics: map([
                    ("client_interface", "KERNEL/nsm-1"),
                    ("client_rx_bytes", "4096"),
                ]),
            },
            PathSegment {
                name: text("nsmgr"),
                id: text("nsmgr-0001"),
                ..PathSegment::default()
            },
        ],
    }
}

#[test]
fn a_connection_with_everything_that_it_can_carry() {
    let connection = Connection {
        id: text("nsmgr-0001"),
        network_service: text("policy-based-routing"),
        mechanism: Some(kernel()),
        context: Some(context()),
        labels: map([("app", "nsc"), ("node", "worker-1")]),
        path: Some(path()),
        network_service_endpoint_name: text("nse-a"),
        payload: text("IP"),
        state: State::RefreshRequested.into(),
    };
    pinned(include_bytes!("testdata/connection.bin"), connection);
}

#[test]
fn a_request() {
    let request = NetworkServiceRequest {
        connection: Some(Connection {
            id: text("nsc-0001"),
            network_service: text("policy-based-routing"),
            ..Connection::default()
        }),
        mechanism_preferences: vec![
            kernel(),
            Mechanism {
                cls: text("REMOTE"),
                r#type: text("VXLAN"),
                ..Mechanism::default()
            },
        ],
    };
    pinned(
        include_bytes!("testdata/network_service_request.bin"),
        request,
    );
}

#[test]
fn an_event_with_its_map_of_connections() {
    let down = Connection {
        id: text("nse-0001"),
        state: State::Down.into(),
        ..Connection::default()
    };
    let up = Connection {
        id: text("nse-0002"),
        ..Connection::default()
    };
    let event = ConnectionEvent {
        r#type: ConnectionEventType::Delete.into(),
        connections: [(text("a"), down), (text("b"), up)].into(),
    };
    pinned(include_bytes!("testdata/connection_event.bin"), event);
}

#[test]
fn a_monitor_scope_selector() {
    let selector = MonitorScopeSelector {
        path_segments: vec![
            PathSegment {
                name: text("nsmgr"),
                ..PathSegment::default()
            },
            PathSegment {
                id: text("nse-0001"),
                ..PathSegment::default()
            },
        ],
        network_services: texts(["policy-based-routing"]),
    };
    pinned(
        include_bytes!("testdata/monitor_scope_selector.bin"),
        selector,
    );
}

#[test]
fn enum_values_have_their_numbers() {
    let states = [
        State::Up,
        State::Down,
        State::RefreshRequested,
        State::ReselectRequested,
    ];
    assert_eq!(states.map(i32::from), [0, 1, 2, 3]);

    use ConnectionEventType::{Delete, InitialStateTransfer, Update};
    assert_eq!(
        [InitialStateTransfer, Update, Delete].map(i32::from),
        [0, 1, 2]
    );

    use ip_family::Family::{Ipv4, Ipv6};
    assert_eq!([Ipv4, Ipv6].map(i32::from), [0, 1]);
}

#[test]
fn a_state_that_only_a_newer_peer_knows_is_kept() {
    let wire = [9 << 3, 77];
    let connection = Connection {
        state: 77,
        ..Connection::default()
    };
    pinned(&wire, connection);
}

#[test]
fn a_field_that_only_a_newer_peer_knows_is_skipped() {
    let wire = [1 << 3 | 2, 1, b'a', 15 << 3 | 2, 2, b'n', b'w'];
    let connection = Connection {
        id: text("a"),
        ..Connection::default()
    };
    assert_eq!(Connection::decode(&wire[..]).unwrap(), connection);
}

#[test]
fn an_empty_value_of_a_map_may_be_written_or_left_out() {
    let written = [5 << 3 | 2, 5, 1 << 3 | 2, 1, b'k', 2 << 3 | 2, 0];
    let left_out = [5 << 3 | 2, 3, 1 << 3 | 2, 1, b'k'];
    let connection = Connection {
        labels: map([("k", "")]),
        ..Connection::default()
    };
    // Go writes it.
    assert_eq!(Connection::decode(&written[..]).unwrap(), connection);
    pinned(&left_out, connection);
}
