//! What becomes of descriptors that are held.

use std::sync::{Arc, Mutex};

use grpc_suite::{Folder, PLENTY, call, client, request};
use nsm_chain::test_util::Recorder;
use nsm_grpc::SendFdLayer;
use tokio::time::timeout;
use tower::Layer;

use crate::answers::{endpoint, forwarding, stored};
use crate::{netns, received, receiving, with_mechanism};

#[tokio::test]
async fn after_a_reconnect_the_descriptor_goes_over_the_new_connection() {
    let folder = Folder::new();
    let (pod, inode) = netns(&folder, "pod");
    let (mut serving, _) = receiving(&folder, "s").await;
    let client = SendFdLayer::client().layer(client(&serving.address));
    let asked = || request(with_mechanism("a", &pod));
    call(&client, asked()).await.unwrap();

    for _ in 0..5 {
        serving.kill().await;
        let (client, asked) = (client.clone(), asked());
        let calling = tokio::spawn(async move { call(&client, asked).await });
        let seen;
        (serving, seen) = receiving(&folder, "s").await;

        timeout(PLENTY, calling).await.unwrap().unwrap().unwrap();

        assert_eq!(received(&seen.last()), Some(inode));
    }
    serving.stop().await;
}

#[tokio::test]
async fn no_descriptor_passes_on_to_a_child() {
    let folder = Folder::new();
    let (pod, inode) = netns(&folder, "pod");
    let (own, own_inode) = netns(&folder, "own");
    let serving = endpoint(&folder, "nse", Arc::new(Mutex::new(own))).await;
    let seen = Recorder::new();
    let chain = forwarding(&serving.address, &seen);
    call(&chain, request(with_mechanism("a", &pod)))
        .await
        .unwrap();
    let (forwarder, at_forwarder) = receiving(&folder, "s").await;
    let client = SendFdLayer::client().layer(client(&forwarder.address));
    call(&client, request(with_mechanism("a", &pod)))
        .await
        .unwrap();
    // Held by this process at this moment, beside sockets on both sides.
    assert_eq!(stored(&seen), Some(own_inode));
    assert_eq!(received(&at_forwarder.last()), Some(inode));

    let child = std::process::Command::new("sh")
        .args([
            "-c",
            "for fd in /proc/self/fd/*; do readlink $fd; done; true",
        ])
        .output()
        .unwrap();

    let listed = String::from_utf8(child.stdout).unwrap();
    let ours: Vec<_> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .filter(|target| {
            let target = target.to_string_lossy();
            target.starts_with("socket:") || target.starts_with(&*folder.path().to_string_lossy())
        })
        .collect();
    assert!(ours.len() >= 6, "{ours:?}");
    for target in ours {
        let target = target.to_string_lossy();
        let inherited = listed.lines().any(|line| line == target);
        assert!(!inherited, "the child has {target}:\n{listed}");
    }
}
