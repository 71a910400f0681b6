//! Takes away this process's descriptors, so it is the only test in it.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

use std::fs::File;

use grpc_suite::{Folder, Serving, call, client, connection, request};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::NETNS_URL;
use nsm_chain::test_util::echo;
use nsm_chain::{End, ErrorKind};
use nsm_grpc::{RecvFdLayer, SendFdLayer};
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
    let refused = call(&comes, request(connection("b"))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceExhausted);
    let report = refused.report().to_string();
    assert!(
        report.contains("raise the limit of the process"),
        "{report}"
    );
    call(&stands, request(connection("c"))).await.unwrap();
    // With what was in reserve there is room for descriptors that come over what stands.
    call(&sends, request(with_namespace())).await.unwrap();

    taken.clear();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    call(&comes, request(connection("d"))).await.unwrap();
    call(&sends, request(with_namespace())).await.unwrap();
}
