//! What is refused, and what nobody waits for.

use std::fs::File;

use grpc_suite::{Folder, PLENTY, Serving, call, client, close, connection, request, within};
use nsm_chain::test_util::{FailOn, Recorder, echo};
use nsm_chain::{ErrorKind, Operation};
use nsm_grpc::{Inode, RecvFdLayer, SendFdLayer};
use tokio::time::{Duration, Instant};
use tower::{Layer, ServiceBuilder};

use crate::{kernel, netns, received, receiving, url, with_mechanism};

#[tokio::test]
async fn a_name_without_a_descriptor_is_refused_before_the_deadline_with_what_is_missing() {
    let folder = Folder::new();
    let (serving, seen) = receiving(&folder, "s").await;
    let asked = request(with_mechanism("a", "inode://4/4026531840"));

    let error = call(
        &client(&serving.address),
        within(Duration::from_secs(2), asked),
    )
    .await
    .unwrap_err();

    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    let report = error.report().to_string();
    assert!(
        report.contains("no descriptor inode://4/4026531840"),
        "{report}"
    );
    assert!(seen.calls().is_empty());
}

#[tokio::test]
async fn a_descriptor_of_another_file_than_the_named_one_does_not_do() {
    let folder = Folder::new();
    let (pod, _) = netns(&folder, "pod");
    let (serving, _) = receiving(&folder, "s").await;
    let client = SendFdLayer::client().layer(client(&serving.address));
    let mut asked = request(with_mechanism("a", "inode://4/4026531840"));
    if let Operation::Request(asked) = &mut asked.operation {
        asked.mechanism_preferences.push(kernel(&pod));
    }

    let error = call(&client, within(Duration::from_secs(2), asked)).await;

    assert_eq!(error.unwrap_err().kind(), ErrorKind::FailedPrecondition);
}

#[tokio::test]
async fn a_descriptor_of_another_peer_does_not_do() {
    let folder = Folder::new();
    let (pod, inode) = netns(&folder, "pod");
    let slow = ServiceBuilder::new()
        .layer(RecvFdLayer::server())
        .layer(FailOn::close(1))
        .service(echo());
    let serving = Serving::chain(&folder.socket("s"), slow).await;
    let owner = SendFdLayer::client().layer(client(&serving.address));
    call(&owner, request(with_mechanism("a", &pod)))
        .await
        .unwrap();

    let thief = client(&serving.address);
    let asked = request(with_mechanism("b", &inode.to_string()));
    let error = call(&thief, within(Duration::from_secs(2), asked)).await;

    assert_eq!(error.unwrap_err().kind(), ErrorKind::FailedPrecondition);
}

#[tokio::test]
async fn a_path_of_the_peer_or_none_gives_no_descriptor() {
    let folder = Folder::new();
    let (pod, _) = netns(&folder, "pod");
    let (serving, seen) = receiving(&folder, "s").await;
    let client = client(&serving.address);

    for named in [pod.as_str(), "", "inode://", "inode://1/2/3"] {
        call(&client, request(with_mechanism("a", named)))
            .await
            .unwrap();
        assert_eq!(received(&seen.last()), None, "{named}");
    }
    call(&client, request(connection("a"))).await.unwrap();
    assert_eq!(received(&seen.last()), None);
}

#[tokio::test]
async fn nobody_waits_for_a_descriptor_of_the_servers_own_namespace() {
    let folder = Folder::new();
    let own = File::open("/proc/self/ns/net").unwrap();
    let inode = Inode::of(&own).unwrap();
    let (serving, seen) = receiving(&folder, "s").await;
    let started = Instant::now();

    let asked = request(with_mechanism("a", &inode.to_string()));
    call(&client(&serving.address), asked).await.unwrap();
    assert_eq!(received(&seen.last()), None);
    assert!(started.elapsed() < PLENTY / 2);

    // One that is sent all the same is received, to be refused by whoever looks at it.
    let sends = SendFdLayer::client().layer(client(&serving.address));
    let asked = request(with_mechanism("b", "file:///proc/self/ns/net"));
    call(&sends, asked).await.unwrap();
    assert_eq!(received(&seen.last()), Some(inode));
}

#[tokio::test]
async fn over_tcp_no_descriptor_comes_and_nobody_waits_for_one() {
    let folder = Folder::new();
    let (pod, _) = netns(&folder, "pod");
    let seen = Recorder::new();
    let chain = RecvFdLayer::server().layer(seen.layer(echo()));
    let serving = Serving::chain(&"tcp://127.0.0.1:0".parse().unwrap(), chain).await;
    let client = SendFdLayer::client().layer(client(&serving.address));

    call(&client, request(with_mechanism("a", &pod)))
        .await
        .unwrap();

    assert_eq!(received(&seen.last()), None);
    assert!(url(seen.last().connection()).starts_with("inode://"));
}

#[tokio::test]
async fn a_close_whose_descriptor_does_not_come_goes_on_soon() {
    let folder = Folder::new();
    let (serving, seen) = receiving(&folder, "s").await;
    let started = Instant::now();

    let closed = close(with_mechanism("a", "inode://4/4026531840"));
    call(&client(&serving.address), closed).await.unwrap();

    assert!(started.elapsed() < PLENTY / 3);
    assert_eq!(received(&seen.last()), None);
}
