//! Takes away this process's descriptors, so it is the only test in it.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

use std::fs::File;

use grpc_suite::{Folder, PLENTY, Serving, call, client, connection, request, within};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::NETNS_URL;
use nsm_chain::test_util::echo;
use nsm_chain::{End, ErrorKind};
use nsm_grpc::{RecvFdLayer, SendFdLayer};
use tokio::time::Duration;
use tower::Layer;

#[tokio::test]
async fn a_server_without_descriptors_serves_its_connections_and_takes_new_ones_later() {
    let folder = Folder::new();
    let serving = Serving::chain(&folder.socket("s"), End).await;
    let receiving = RecvFdLayer::server().layer(echo());
    let receiving = Serving::chain(&folder.socket("fd"), receiving).await;
    let stands = client(&serving.address);
    call(&stands, request(connection("a"))).await.unwrap();
    let sends = SendFdLayer::client().layer(client(&receiving.address));
    let url = format!("file://{}", folder.file("pod").display());
    drop(File::create(folder.file("pod")).unwrap());
    let with_namespace = || Connection {
        mechanism: Some(Mechanism::kernel().with_parameter(NETNS_URL, &url)),
        ..connection("a")
    };
    call(&sends, request(with_namespace())).await.unwrap();

    // As many as are open already, and no more.
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let probe = File::open("/dev/null").unwrap();
    let mut taken = Vec::new();
    setrlimit(Resource::RLIMIT_NOFILE, 256.min(soft), hard).unwrap();
    while let Ok(one) = probe.try_clone() {
        taken.push(one);
    }
    // Room for the client's own end, and none for the server's.
    taken.pop();

    let comes = client(&serving.address);
    let asked = within(Duration::from_millis(400), request(connection("b")));
    let away = call(&comes, asked).await.unwrap_err();
    assert_eq!(away.kind(), ErrorKind::Unavailable);
    call(&stands, request(connection("c"))).await.unwrap();

    taken.clear();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    let asked = within(PLENTY, request(connection("d")));
    call(&comes, asked).await.unwrap();
    call(&sends, request(with_namespace())).await.unwrap();
}
