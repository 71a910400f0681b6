//! Counts the descriptors of this process, so it is the only test in it.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::sync::Arc;

use grpc_suite::{Folder, PLENTY, Serving, call, client, close, connection, request};
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::NETNS_URL;
use nsm_chain::{BeginLayer, Call, Error, MetadataLayer, Operation, Side};
use nsm_grpc::{Address, Connect, NextHop, RecvFdLayer, SendFdLayer, Transports};
use tokio::time::{Duration, Instant};
use tower::{ServiceBuilder, ServiceExt, service_fn};

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until as many are open as are expected: a connection that ends does so in its own time.
async fn settled(expected: usize) {
    let until = Instant::now() + PLENTY;
    while open_descriptors() != expected && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(open_descriptors(), expected);
}

fn with_namespace(folder: &Folder, id: &str) -> Connection {
    // A namespace of its own for each connection.
    let path = folder.file(id);
    drop(File::create(&path).unwrap());
    let url = format!("file://{}", path.display());
    Connection {
        mechanism: Some(Mechanism::kernel().with_parameter(NETNS_URL, url)),
        ..connection(id)
    }
}

/// An endpoint that sends a namespace with each answer.
async fn endpoint(folder: &Folder) -> Serving {
    let own = folder.file("own");
    drop(File::create(&own).unwrap());
    let url: Arc<str> = format!("file://{}", own.display()).into();
    let answers = service_fn(move |call: Call| {
        let mut connection = call.connection().clone();
        connection.mechanism = Some(Mechanism::kernel().with_parameter(NETNS_URL, &*url));
        async move { Ok::<_, Error>(connection) }
    });
    let chain = ServiceBuilder::new()
        .layer(BeginLayer::new(Side::Server))
        .layer(SendFdLayer::server())
        .service(answers);
    Serving::chain(&folder.socket("nse"), chain).await
}

/// A forwarder, as far as descriptors go: each side of it has a mechanism of its own.
async fn forwarder(folder: &Folder, next: &Address) -> Serving {
    let next = NextHop(next.clone());
    let behind = ServiceBuilder::new()
        .layer(MetadataLayer::new(Side::Client))
        .layer(RecvFdLayer::client())
        .layer(SendFdLayer::client())
        .service(Connect::by_next_hop(Transports::new(Duration::from_secs(
            1,
        ))));
    let turn = service_fn(move |call: Call| {
        let mechanism = call.connection().mechanism.clone();
        let mut below = match call.operation {
            Operation::Request(request) => Call::request(request),
            Operation::Close(connection) => Call::close(connection),
        };
        below.connection_mut().mechanism = None;
        below.deadline = call.deadline;
        below.extensions.insert(next.clone());
        let behind = behind.clone();
        async move {
            let mut connection = behind.oneshot(below).await?;
            connection.mechanism = mechanism;
            Ok::<_, Error>(connection)
        }
    });
    let chain = ServiceBuilder::new()
        .layer(BeginLayer::new(Side::Server))
        .layer(MetadataLayer::new(Side::Server))
        .layer(RecvFdLayer::server())
        .service(turn);
    Serving::chain(&folder.socket("forwarder"), chain).await
}

#[tokio::test]
async fn a_thousand_connections_over_one_socket_leave_no_descriptor_open() {
    let start = open_descriptors();
    let folder = Folder::new();
    let nse = endpoint(&folder).await;
    let forwarder = forwarder(&folder, &nse.address).await;
    let client = client(&forwarder.address);
    let client = ServiceBuilder::new()
        .layer(SendFdLayer::client())
        .service(client);
    let first = with_namespace(&folder, "first");
    call(&client, request(first.clone())).await.unwrap();
    call(&client, close(first)).await.unwrap();
    let warm = open_descriptors();

    for round in 0..10 {
        let mut stand = Vec::new();
        for number in 0..100 {
            let connection = with_namespace(&folder, &format!("{round}-{number}"));
            call(&client, request(connection.clone())).await.unwrap();
            if number % 10 == 0 {
                // A refresh sends it again.
                call(&client, request(connection.clone())).await.unwrap();
            }
            stand.push(connection);
        }
        assert!(open_descriptors() >= warm);
        for connection in stand {
            call(&client, close(connection)).await.unwrap();
        }
        settled(warm).await;
    }

    // And nothing is left of the connections themselves, whoever goes first.
    drop(client);
    // Its end has two: one of them is asked whether the other end has hung up.
    settled(warm - 3).await;
    forwarder.stop().await;
    nse.stop().await;
    settled(start).await;
}
