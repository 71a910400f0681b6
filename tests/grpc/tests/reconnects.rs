//! Counts the descriptors of this process, so it is the only test in it.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

use std::fs::File;

use grpc_suite::{Folder, PLENTY, Serving, call, connection, request, transport};
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::NETNS_URL;
use nsm_chain::test_util::echo;
use nsm_grpc::{Connect, RecvFdLayer, SendFdLayer};
use tokio::time::{Duration, Instant};
use tower::Layer;

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn a_server_that_comes_and_goes_leaves_no_descriptor_behind_on_either_side() {
    let folder = Folder::new();
    drop(File::create(folder.file("pod")).unwrap());
    let url = format!("file://{}", folder.file("pod").display());
    let pod = || Connection {
        mechanism: Some(Mechanism::kernel().with_parameter(NETNS_URL, &url)),
        ..connection("a")
    };
    let transport = transport(&folder.socket("s"));
    let connected = transport.connected();
    let client = SendFdLayer::client().layer(Connect::to(transport));

    let mut counts = Vec::new();
    for round in 0..30 {
        let chain = RecvFdLayer::server().layer(echo());
        let serving = Serving::chain(&folder.socket("s"), chain).await;
        call(&client, request(pod())).await.unwrap();
        counts.push(open_descriptors());
        match round % 2 {
            0 => serving.kill().await,
            _ => serving.stop().await,
        }
    }

    // A connection that ends does so in its own time, so a moment may see two of them.
    let until = Instant::now() + PLENTY;
    while open_descriptors() >= counts[0] && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(open_descriptors() < counts[0], "{counts:?}");
    assert!(
        counts.iter().all(|count| *count <= counts[0] + 4),
        "{counts:?}"
    );
    assert!(connected.borrow().generation >= 30);
}
