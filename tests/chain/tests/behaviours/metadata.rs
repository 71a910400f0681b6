//! Behaviours of `metadata`: what elements remember of a connection, and for how long.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

use std::sync::{Arc, Mutex};

use chain_suite::{connection, request, send};
use nsm_chain::metadata::Store;
use nsm_chain::test_util::{FailOn, Fault, Recorder, echo};
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, Error, ErrorKind, MetadataLayer, NetworkService, Side,
};
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

/// How often a connection has been requested; what the element under the layer remembers.
#[derive(Clone, Debug, PartialEq)]
struct Requests(usize);

/// Counts requests in the store, and tells what each call found in it.
fn counting(
    side: Side,
    found: Arc<Mutex<Vec<Option<Requests>>>>,
    inner: impl NetworkService,
) -> impl NetworkService {
    service_fn(move |call: Call| {
        let store = Store::of(&call, side).unwrap();
        let requests: Option<Requests> = store.get();
        if call.operation.name() == "request" {
            store.insert(Requests(requests.clone().map_or(1, |n| n.0 + 1)));
        }
        found.lock().unwrap().push(requests);
        inner.clone().oneshot(call)
    })
}

/// A chain of `metadata` over something, and what the element between finds in the store.
struct Remembering {
    layer: MetadataLayer,
    found: Arc<Mutex<Vec<Option<Requests>>>>,
    chain: BoxNetworkService,
}

impl Remembering {
    fn over(inner: impl NetworkService) -> Self {
        let layer = MetadataLayer::new(Side::Server);
        let found = Arc::default();
        let element = counting(Side::Server, Arc::clone(&found), inner);
        let chain = BoxNetworkService::new(layer.layer(element));
        Self {
            layer,
            found,
            chain,
        }
    }

    async fn request(&self, id: &str) -> Result<(), Error> {
        send(&self.chain, request(connection(id))).await.map(drop)
    }

    async fn close(&self, id: &str) -> Result<(), Error> {
        send(&self.chain, Call::close(connection(id)))
            .await
            .map(drop)
    }

    fn found(&self) -> Vec<Option<Requests>> {
        self.found.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_connection_is_remembered_from_its_first_request_until_its_close() {
    let chain = Remembering::over(echo());

    chain.request("c").await.unwrap();
    chain.request("c").await.unwrap();
    assert_eq!(chain.layer.connections(), 1);
    chain.close("c").await.unwrap();
    assert_eq!(chain.layer.connections(), 0);
    chain.request("c").await.unwrap();

    let expected = [None, Some(Requests(1)), Some(Requests(2)), None];
    assert_eq!(chain.found(), expected);
}

#[tokio::test]
async fn each_connection_has_a_store_of_its_own() {
    let chain = Remembering::over(echo());

    chain.request("c").await.unwrap();
    chain.request("d").await.unwrap();

    assert_eq!(chain.found(), [None, None]);
    assert_eq!(chain.layer.connections(), 2);
}

#[tokio::test]
async fn nothing_is_remembered_of_a_first_request_that_fails() {
    let chain = Remembering::over(FailOn::request(1).layer(echo()));

    chain.request("c").await.unwrap_err();
    assert_eq!(chain.layer.connections(), 0);
    chain.request("c").await.unwrap();

    assert_eq!(chain.found(), [None, None]);
}

#[tokio::test]
async fn nothing_is_remembered_of_a_first_request_that_panics() {
    let chain = Remembering::over(FailOn::request(1).with(Fault::Panic).layer(echo()));

    let call = send(&chain.chain, request(connection("c")));
    let mut call = Box::pin(call);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        call.as_mut().poll(&mut cx).is_ready()
    }));
    drop(call);

    assert!(panicked.is_err());
    assert_eq!(chain.layer.connections(), 0);
}

#[tokio::test]
async fn a_refresh_that_fails_leaves_what_is_remembered() {
    let chain = Remembering::over(FailOn::request(2).layer(echo()));

    chain.request("c").await.unwrap();
    chain.request("c").await.unwrap_err();
    chain.request("c").await.unwrap();

    assert_eq!(chain.found()[2], Some(Requests(2)));
}

#[tokio::test]
async fn a_close_that_fails_forgets_all_the_same() {
    let chain = Remembering::over(FailOn::close(1).layer(echo()));

    chain.request("c").await.unwrap();
    chain.close("c").await.unwrap_err();

    assert_eq!(chain.layer.connections(), 0);
}

#[tokio::test]
async fn a_close_of_an_unknown_connection_finds_an_empty_store() {
    let chain = Remembering::over(echo());

    chain.close("c").await.unwrap();

    assert_eq!(chain.found(), [None]);
    assert_eq!(chain.layer.connections(), 0);
}

#[tokio::test]
async fn the_close_that_undoes_a_failed_request_finds_what_the_request_remembered() {
    let layer = MetadataLayer::new(Side::Server);
    let found = Arc::default();
    let failing = FailOn::request(1).layer(echo());
    let chain = ServiceBuilder::new()
        .layer(BeginLayer::new(Side::Server))
        .layer(layer.clone())
        .service(counting(Side::Server, Arc::clone(&found), failing));

    send(&chain, request(connection("c"))).await.unwrap_err();

    assert_eq!(*found.lock().unwrap(), [None, Some(Requests(1))]);
    assert_eq!(layer.connections(), 0);
}

#[tokio::test]
async fn server_and_client_side_remember_apart() {
    let below = Recorder::new();
    let chain = ServiceBuilder::new()
        .layer(MetadataLayer::new(Side::Server))
        .layer(MetadataLayer::new(Side::Client))
        .layer(below.clone())
        .service(echo());

    send(&chain, request(connection("c"))).await.unwrap();

    let call = below.last();
    let server = Store::of(&call, Side::Server).unwrap();
    let client = Store::of(&call, Side::Client).unwrap();
    server.insert(Requests(1));
    assert_eq!(server.get(), Some(Requests(1)));
    assert_eq!(client.get::<Requests>(), None);
}

#[tokio::test]
async fn a_second_layer_of_the_same_side_does_nothing() {
    let inner = MetadataLayer::new(Side::Server);
    let chain = ServiceBuilder::new()
        .layer(MetadataLayer::new(Side::Server))
        .layer(inner.clone())
        .service(echo());

    send(&chain, request(connection("c"))).await.unwrap();

    assert_eq!(inner.connections(), 0);
}

#[tokio::test]
async fn a_store_has_one_value_per_type() {
    let store = Store::default();

    assert_eq!(store.insert(Requests(1)), None);
    assert_eq!(store.insert(Requests(2)), Some(Requests(1)));
    assert_eq!(store.insert("a text"), None);
    assert_eq!(store.remove(), Some(Requests(2)));

    assert_eq!(store.get::<Requests>(), None);
    assert_eq!(store.get(), Some("a text"));
}

#[tokio::test]
async fn a_connection_without_id_is_refused() {
    let chain = Remembering::over(echo());

    let error = chain.request("").await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(chain.found().is_empty());
}
