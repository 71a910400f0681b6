#!/usr/bin/env python3
"""Makes the *.bin files beside this script: messages as another protobuf implementation encodes them.

The definitions are the public ones, not those of this repository, so that the tests pin the wire and
not our reading of it. They are *.proto files of github.com/networkservicemesh/api, in one folder:

    pkg/api/networkservice/{connection,connectioncontext,networkservice}.proto
    pkg/api/registry/registry.proto

To run it:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install protobuf grpcio-tools
    /tmp/venv/bin/python proto/testdata/make.py FOLDER

All values differ and every field of every message is set somewhere (the script checks it), so that
two fields that change places show.
"""

import pathlib
import sys
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_tools import protoc
import grpc_tools

FILES = ["networkservice.proto", "connection.proto", "connectioncontext.proto", "registry.proto"]

POLICY = {
    "from": "172.16.1.2",
    "proto": "6",
    "dst_port": "6666",
    "src_port": "1024-2048",
    "routes": [{"prefix": "172.16.2.0/24", "nextHop": "172.16.1.1"}, {"prefix": "172.16.3.0/24"}],
}

CONTEXT = {
    "ip_context": {
        "src_ip_addrs": ["172.16.1.2/32", "2001:db8::2/128"],
        "dst_ip_addrs": ["172.16.1.3/32"],
        "src_ip_required": True,
        "dst_ip_required": True,
        "src_routes": [{"prefix": "172.16.4.0/24", "nextHop": "172.16.1.4"}],
        "dst_routes": [{"prefix": "172.16.5.0/24", "nextHop": "172.16.1.5"}],
        "excluded_prefixes": ["10.96.0.0/12"],
        "ip_neighbors": [{"ip": "172.16.1.6", "hardware_address": "02:00:00:00:00:06"}],
        "extra_prefix_request": [
            {
                "addr_family": {"family": "IPV6"},
                "prefix_len": 64,
                "required_number": 1,
                "requested_number": 300,
            }
        ],
        "extra_prefixes": ["2001:db8:7::/64"],
        "policies": [POLICY, {"from": "2001:db8::2"}],
    },
    "dns_context": {
        "configs": [
            {"dns_server_ips": ["172.16.1.8"], "search_domains": ["mesh.example", "example.net"]}
        ]
    },
    "ethernet_context": {
        "src_mac": "02:00:00:00:00:09",
        "dst_mac": "02:00:00:00:00:0a",
        "vlan_tag": -1,
    },
    "extra_context": {"policy.generation": "12", "zone": "north"},
    "MTU": 1450,
}

KERNEL = {
    "cls": "LOCAL",
    "type": "KERNEL",
    "parameters": {"name": "nsm-1", "inodeURL": "inode://4/4026532581", "vlan": "100"},
}

CONNECTION = {
    "id": "nsmgr-0001",
    "network_service": "policy-based-routing",
    "mechanism": KERNEL,
    "context": CONTEXT,
    "labels": {"app": "nsc", "node": "worker-1"},
    "path": {
        "index": 1,
        "path_segments": [
            {
                "name": "nsc",
                "id": "nsc-0001",
                "token": "header.claims.signature",
                "expires": "2033-05-18T03:33:20.000000250Z",
                "metrics": {"client_rx_bytes": "4096", "client_interface": "KERNEL/nsm-1"},
            },
            {"name": "nsmgr", "id": "nsmgr-0001"},
        ],
    },
    "network_service_endpoint_name": "nse-a",
    "payload": "IP",
    "state": "REFRESH_REQUESTED",
}

ENDPOINT = {
    "name": "nse-a",
    "network_service_names": ["policy-based-routing", "other"],
    "network_service_labels": {
        "other": {"labels": {"tier": "back"}},
        "policy-based-routing": {"labels": {"tier": "front"}},
    },
    "url": "tcp://10.0.0.7:5001",
    "expiration_time": "2033-05-18T03:33:20Z",
    "initial_registration_time": "2001-09-09T01:46:40.5Z",
    "path_ids": ["spiffe://example/nse", "spiffe://example/nsmgr"],
}

SERVICE = {
    "name": "policy-based-routing",
    "payload": "ETHERNET",
    "matches": [
        {
            "source_selector": {"app": "nsc"},
            "routes": [{"destination_selector": {"tier": "front"}, "weight": 3}],
            "fallthrough": True,
            "metadata": {"labels": {"owner": "mesh"}},
        }
    ],
    "path_ids": ["spiffe://example/admin"],
}

MESSAGES = {
    "connection": ("connection.Connection", CONNECTION),
    "connection_event": (
        "connection.ConnectionEvent",
        {
            "type": "DELETE",
            "connections": {"a": {"id": "nse-0001", "state": "DOWN"}, "b": {"id": "nse-0002"}},
        },
    ),
    "monitor_scope_selector": (
        "connection.MonitorScopeSelector",
        {
            "path_segments": [{"name": "nsmgr"}, {"id": "nse-0001"}],
            "network_services": ["policy-based-routing"],
        },
    ),
    "network_service_request": (
        "networkservice.NetworkServiceRequest",
        {
            "connection": {"id": "nsc-0001", "network_service": "policy-based-routing"},
            "mechanism_preferences": [KERNEL, {"cls": "REMOTE", "type": "VXLAN"}],
        },
    ),
    "network_service": ("registry.NetworkService", SERVICE),
    "network_service_query": (
        "registry.NetworkServiceQuery",
        {"network_service": {"name": "policy-based-routing"}, "watch": True},
    ),
    "network_service_response": (
        "registry.NetworkServiceResponse",
        {"network_service": {"name": "policy-based-routing"}, "deleted": True},
    ),
    "network_service_endpoint": ("registry.NetworkServiceEndpoint", ENDPOINT),
    "network_service_endpoint_query": (
        "registry.NetworkServiceEndpointQuery",
        {"network_service_endpoint": {"name": "nse-a"}, "watch": True},
    ),
    "network_service_endpoint_response": (
        "registry.NetworkServiceEndpointResponse",
        {"network_service_endpoint": {"name": "nse-a"}, "deleted": True},
    ),
}


def load(folder):
    """Compiles the definitions in `folder`."""
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.NamedTemporaryFile() as out:
        arguments = [f"-I{folder}", f"-I{well_known}", "--include_imports"]
        if protoc.main(["protoc", *arguments, f"--descriptor_set_out={out.name}", *FILES]) != 0:
            sys.exit("the definitions do not compile")
        definitions = descriptor_pb2.FileDescriptorSet.FromString(out.read())
    pool = descriptor_pool.DescriptorPool()
    for file in definitions.file:
        pool.Add(file)
    return pool


def fields_of(descriptor):
    """The fields of a message and of the messages within."""
    for field in descriptor.fields:
        yield field.full_name
    for nested in descriptor.nested_types:
        yield from fields_of(nested)


def fields_set_in(message):
    """The fields that are set in a message, and in the messages within."""
    for field, value in message.ListFields():
        yield field.full_name
        if field.type != field.TYPE_MESSAGE:
            continue
        if field.message_type.GetOptions().map_entry:
            yield from (entry.full_name for entry in field.message_type.fields)
            values = value.values() if field.message_type.fields[1].message_type else []
        elif field.is_repeated:
            values = value
        else:
            values = [value]
        for inner in values:
            yield from fields_set_in(inner)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    pool = load(sys.argv[1])
    unset = set()
    for name in FILES:
        for descriptor in pool.FindFileByName(name).message_types_by_name.values():
            unset.update(fields_of(descriptor))
    wire = {}
    for name, (kind, value) in MESSAGES.items():
        message = message_factory.GetMessageClass(pool.FindMessageTypeByName(kind))()
        json_format.ParseDict(value, message, descriptor_pool=pool)
        unset.difference_update(fields_set_in(message))
        # Maps have no order on the wire. Sorted by key is the order that this crate writes.
        wire[name] = message.SerializeToString(deterministic=True)
    if unset:
        sys.exit(f"fields that no message sets: {', '.join(sorted(unset))}")
    for name, data in wire.items():
        pathlib.Path(__file__).with_name(f"{name}.bin").write_bytes(data)


if __name__ == "__main__":
    main()
