//! What comes with answers.

use std::sync::{Arc, Mutex};

use grpc_suite::{Folder, Serving, call, connection, request, within};
use nsm_chain::metadata::Store;
use nsm_chain::test_util::Recorder;
use nsm_chain::{BoxNetworkService, Call, End, Error, ErrorKind, MetadataLayer, Side};
use nsm_grpc::{Connect, Inode, NextHop, ReceivedFd, RecvFdLayer, SendFdLayer, Transports};
use tokio::time::Duration;
use tower::{Layer, ServiceBuilder, service_fn};

use crate::{kernel, netns, url, with_mechanism};

/// An endpoint that answers with a namespace of its own.
pub async fn endpoint(folder: &Folder, name: &str, own: Arc<Mutex<String>>) -> Serving {
    let answers = service_fn(move |call: Call| {
        let own = own.lock().unwrap().clone();
        async move {
            let mut connection = call.connection().clone();
            connection.mechanism = Some(kernel(&own));
            Ok::<_, Error>(connection)
        }
    });
    let chain = SendFdLayer::server().layer(answers);
    Serving::chain(&folder.socket(name), chain).await
}

/// The client's side of a forwarder; the recorder is below the metadata and sees the store.
pub fn forwarding(address: &nsm_grpc::Address, seen: &Recorder) -> BoxNetworkService {
    let next = NextHop(address.clone());
    let chain = ServiceBuilder::new()
        .layer(MetadataLayer::new(Side::Client))
        .layer(RecvFdLayer::client())
        .layer(SendFdLayer::client())
        .layer(seen.clone())
        .map_request(move |mut call: Call| {
            call.extensions.insert(next.clone());
            call
        })
        .service(Connect::by_next_hop(Transports::new(Duration::from_secs(
            1,
        ))));
    BoxNetworkService::new(chain)
}

/// The descriptor in the store of the connection that was seen last.
pub fn stored(seen: &Recorder) -> Option<Inode> {
    let store = Store::of(&seen.last(), Side::Client).cloned().unwrap();
    let received = store.get::<ReceivedFd>()?;
    Some(Inode::of(&received.0).unwrap())
}

#[tokio::test]
async fn the_namespace_of_an_answer_is_in_the_store_and_follows_the_answer() {
    let folder = Folder::new();
    let (pod, pods) = netns(&folder, "pod");
    let (first, firsts) = netns(&folder, "first");
    let (second, seconds) = netns(&folder, "second");
    let own = Arc::new(Mutex::new(first));
    let serving = endpoint(&folder, "nse", Arc::clone(&own)).await;
    let seen = Recorder::new();
    let chain = forwarding(&serving.address, &seen);

    let answer = call(&chain, request(with_mechanism("a", &pod)))
        .await
        .unwrap();
    assert_eq!(url(&answer), firsts.to_string());
    assert_eq!(stored(&seen), Some(firsts));

    // Refreshes send it again, and one is held.
    for _ in 0..3 {
        let refreshed = call(&chain, request(answer.clone())).await.unwrap();
        assert_eq!(url(&refreshed), firsts.to_string());
        assert_eq!(stored(&seen), Some(firsts));
    }

    *own.lock().unwrap() = second;
    call(&chain, request(answer.clone())).await.unwrap();
    assert_eq!(stored(&seen), Some(seconds));

    // An answer with our own namespace is no namespace of the endpoint's.
    *own.lock().unwrap() = pods.to_string();
    let answer = call(&chain, request(with_mechanism("a", &pod)))
        .await
        .unwrap();
    assert_eq!(url(&answer), pod);
    assert_eq!(stored(&seen), None);
}

#[tokio::test]
async fn an_answer_that_names_a_descriptor_that_does_not_come_is_an_error() {
    let folder = Folder::new();
    let own = Arc::new(Mutex::new("inode://4/4026531840".to_owned()));
    let serving = endpoint(&folder, "nse", own).await;
    let chain = forwarding(&serving.address, &Recorder::new());

    let asked = within(Duration::from_secs(2), request(connection("a")));
    let error = call(&chain, asked).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
}

#[tokio::test]
async fn the_client_side_needs_the_connections_store() {
    let chain = RecvFdLayer::client().layer(End);

    let error = call(&chain, request(connection("a"))).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Internal);
}
