//! The gRPC names: a peer written in another language calls, and is called, by these.

use std::convert::Infallible;
use std::sync::mpsc::{self, Sender};

use http::{Request, Response};
use tonic::body::Body;
use tonic::client::GrpcService;

use crate::connection::{self, monitor_connection_client::MonitorConnectionClient};
use crate::networkservice::{self, network_service_client::NetworkServiceClient};
use crate::registry::{
    self, network_service_endpoint_registry_client::NetworkServiceEndpointRegistryClient,
    network_service_registry_client::NetworkServiceRegistryClient,
};

/// A connection to nowhere that tells the path of each call.
fn recorder(
    paths: Sender<String>,
) -> impl GrpcService<Body, ResponseBody = Body, Error = Infallible, Future: Send> + Clone {
    tower::service_fn(move |call: Request<Body>| {
        let told = paths.send(call.uri().path().to_owned());
        async move {
            told.ok();
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    })
}

#[tokio::test]
async fn clients_call_the_paths_of_the_mesh() {
    let (sender, paths) = mpsc::channel();
    let channel = recorder(sender);

    // No answer says anything: only the path counts.
    let mut client = NetworkServiceClient::new(channel.clone());
    client
        .request(networkservice::NetworkServiceRequest::default())
        .await
        .ok();
    client.close(connection::Connection::default()).await.ok();

    let mut client = MonitorConnectionClient::new(channel.clone());
    client
        .monitor_connections(connection::MonitorScopeSelector::default())
        .await
        .ok();

    let mut client = NetworkServiceRegistryClient::new(channel.clone());
    client
        .register(registry::NetworkService::default())
        .await
        .ok();
    client
        .find(registry::NetworkServiceQuery::default())
        .await
        .ok();
    client
        .unregister(registry::NetworkService::default())
        .await
        .ok();

    let mut client = NetworkServiceEndpointRegistryClient::new(channel);
    client
        .register(registry::NetworkServiceEndpoint::default())
        .await
        .ok();
    client
        .find(registry::NetworkServiceEndpointQuery::default())
        .await
        .ok();
    client
        .unregister(registry::NetworkServiceEndpoint::default())
        .await
        .ok();

    let paths: Vec<_> = paths.try_iter().collect();
    assert_eq!(
        paths,
        [
            "/networkservice.NetworkService/Request",
            "/networkservice.NetworkService/Close",
            "/connection.MonitorConnection/MonitorConnections",
            "/registry.NetworkServiceRegistry/Register",
            "/registry.NetworkServiceRegistry/Find",
            "/registry.NetworkServiceRegistry/Unregister",
            "/registry.NetworkServiceEndpointRegistry/Register",
            "/registry.NetworkServiceEndpointRegistry/Find",
            "/registry.NetworkServiceEndpointRegistry/Unregister",
        ]
    );
}

#[test]
fn servers_answer_to_the_names_of_the_mesh() {
    let names = [
        networkservice::network_service_server::SERVICE_NAME,
        connection::monitor_connection_server::SERVICE_NAME,
        registry::network_service_registry_server::SERVICE_NAME,
        registry::network_service_endpoint_registry_server::SERVICE_NAME,
    ];
    assert_eq!(
        names,
        [
            "networkservice.NetworkService",
            "connection.MonitorConnection",
            "registry.NetworkServiceRegistry",
            "registry.NetworkServiceEndpointRegistry",
        ]
    );
}
