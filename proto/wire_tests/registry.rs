//! The registry's messages.

use prost_types::Timestamp;

use super::{EXPIRY, map, pinned, text, texts};
use crate::registry::{
    Destination, Match, Metadata, NetworkService, NetworkServiceEndpoint,
    NetworkServiceEndpointQuery, NetworkServiceEndpointResponse, NetworkServiceLabels,
    NetworkServiceQuery, NetworkServiceResponse,
};

#[test]
fn a_network_service_its_query_and_its_response() {
    let service = NetworkService {
        name: text("policy-based-routing"),
        payload: text("ETHERNET"),
        matches: vec![Match {
            source_selector: map([("app", "nsc")]),
            routes: vec![Destination {
                destination_selector: map([("tier", "front")]),
                weight: 3,
            }],
            fallthrough: true,
            metadata: Some(Metadata {
                labels: map([("owner", "mesh")]),
            }),
        }],
        path_ids: texts(["spiffe://example/admin"]),
    };
    let named = || {
        Some(NetworkService {
            name: service.name.clone(),
            ..NetworkService::default()
        })
    };
    let query = NetworkServiceQuery {
        network_service: named(),
        watch: true,
    };
    let response = NetworkServiceResponse {
        network_service: named(),
        deleted: true,
    };
    pinned(
        include_bytes!("../testdata/network_service_query.bin"),
        query,
    );
    pinned(
        include_bytes!("../testdata/network_service_response.bin"),
        response,
    );
    pinned(include_bytes!("../testdata/network_service.bin"), service);
}

#[test]
fn an_endpoint_its_query_and_its_response() {
    let tier = |name| NetworkServiceLabels {
        labels: map([("tier", name)]),
    };
    let endpoint = NetworkServiceEndpoint {
        name: text("nse-a"),
        network_service_names: texts(["policy-based-routing", "other"]),
        network_service_labels: [
            (text("other"), tier("back")),
            (text("policy-based-routing"), tier("front")),
        ]
        .into(),
        url: text("tcp://10.0.0.7:5001"),
        expiration_time: Some(Timestamp {
            seconds: EXPIRY,
            nanos: 0,
        }),
        initial_registration_time: Some(Timestamp {
            seconds: EXPIRY / 2,
            nanos: 500_000_000,
        }),
        path_ids: texts(["spiffe://example/nse", "spiffe://example/nsmgr"]),
    };
    let named = || {
        Some(NetworkServiceEndpoint {
            name: endpoint.name.clone(),
            ..NetworkServiceEndpoint::default()
        })
    };
    let query = NetworkServiceEndpointQuery {
        network_service_endpoint: named(),
        watch: true,
    };
    let response = NetworkServiceEndpointResponse {
        network_service_endpoint: named(),
        deleted: true,
    };
    pinned(
        include_bytes!("../testdata/network_service_endpoint_query.bin"),
        query,
    );
    pinned(
        include_bytes!("../testdata/network_service_endpoint_response.bin"),
        response,
    );
    pinned(
        include_bytes!("../testdata/network_service_endpoint.bin"),
        endpoint,
    );
}
