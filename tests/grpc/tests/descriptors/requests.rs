//! What comes with requests and closes.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use grpc_suite::peer::Channel;
use grpc_suite::{Folder, PLENTY, Serving, call, client, close, connection, request, within};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_api::networkservice::network_service_client::NetworkServiceClient;
use nsm_chain::test_util::{FailOn, Recorder, echo};
use nsm_chain::{BeginLayer, Call, Side};
use nsm_grpc::{Inode, Peer, ReceivedFd, RecvFdLayer, SendFdLayer};
use tokio::time::{Instant, timeout};
use tower::{Layer, ServiceBuilder};

use crate::{kernel, netns, received, receiving, url, with_mechanism};

/// A whole frame of HTTP/2 that says next to nothing: one byte more of window, for the connection.
const WINDOW_UPDATE: [u8; 13] = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1];

#[tokio::test]
async fn the_namespace_of_a_mechanism_comes_with_requests_and_closes() {
    let folder = Folder::new();
    let (pod, inode) = netns(&folder, "pod");
    let (serving, seen) = receiving(&folder, "s").await;
    let client = SendFdLayer::client().layer(client(&serving.address));

    let asked = call(&client, request(with_mechanism("a", &pod)))
        .await
        .unwrap();
    assert_eq!(received(&seen.last()), Some(inode));
    assert_eq!(url(seen.last().connection()), inode.to_string());
    assert_eq!(url(&asked), pod, "the caller sees its own name of it");

    let closed = call(&client, close(asked)).await.unwrap();
    assert_eq!(received(&seen.last()), Some(inode));
    assert_eq!(url(&closed), pod);

    let peer = seen.last().extensions.get::<Peer>().cloned().unwrap();
    assert_eq!(peer.unclaimed(), 0);
}

#[tokio::test]
async fn the_namespace_of_the_first_kernel_preference_comes_with_a_first_request() {
    let folder = Folder::new();
    let (first, inode) = netns(&folder, "first");
    let (second, _) = netns(&folder, "second");
    let (serving, seen) = receiving(&folder, "s").await;
    let client = SendFdLayer::client().layer(client(&serving.address));
    let asked = within(
        PLENTY,
        Call::request(NetworkServiceRequest {
            connection: Some(connection("a")),
            mechanism_preferences: vec![kernel(&first), kernel(&second), kernel(&first)],
        }),
    );

    call(&client, asked).await.unwrap();

    assert_eq!(received(&seen.last()), Some(inode));
    let peer = seen.last().extensions.get::<Peer>().cloned().unwrap();
    assert_eq!(peer.unclaimed(), 0, "the one that is not chosen is closed");
}

#[tokio::test]
async fn a_descriptor_may_come_behind_the_message_that_names_it() {
    let folder = Folder::new();
    let (_, inode) = netns(&folder, "pod");
    let (above, below) = (Recorder::new(), Recorder::new());
    let chain = ServiceBuilder::new()
        .layer(above.clone())
        .layer(RecvFdLayer::server())
        .layer(below.clone())
        .service(echo());
    let _serving = Serving::chain(&folder.socket("s"), chain).await;
    // A peer that is not made of the edge, and sends by hand.
    let by_hand = std::os::unix::net::UnixStream::connect(folder.file("s")).unwrap();
    by_hand.set_nonblocking(true).unwrap();
    let stream = tokio::net::UnixStream::from_std(by_hand.try_clone().unwrap()).unwrap();
    let channel = Channel::over(stream).await;
    let mut peer = NetworkServiceClient::with_origin(channel, "http://localhost".parse().unwrap());

    let asked = NetworkServiceRequest {
        connection: Some(with_mechanism("a", &inode.to_string())),
        ..NetworkServiceRequest::default()
    };
    let asked = tokio::spawn(async move { peer.request(asked).await });
    while above.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(below.calls().is_empty());
    let pod = File::open(folder.file("pod")).unwrap();
    let fds = [pod.as_raw_fd()];
    let sent = sendmsg::<()>(
        by_hand.as_raw_fd(),
        &[IoSlice::new(&WINDOW_UPDATE)],
        &[ControlMessage::ScmRights(&fds)],
        MsgFlags::empty(),
        None,
    );
    assert_eq!(sent, Ok(WINDOW_UPDATE.len()));

    timeout(PLENTY, asked).await.unwrap().unwrap().unwrap();
    assert_eq!(received(&below.last()), Some(inode));
}

#[tokio::test]
async fn the_close_that_undoes_a_request_has_the_descriptor_of_the_request() {
    let folder = Folder::new();
    let (pod, inode) = netns(&folder, "pod");
    let seen = Recorder::new();
    let chain = ServiceBuilder::new()
        .layer(BeginLayer::new(Side::Server))
        .layer(RecvFdLayer::server())
        .layer(seen.clone())
        .layer(FailOn::request(1))
        .service(echo());
    let serving = Serving::chain(&folder.socket("s"), chain).await;
    let client = SendFdLayer::client().layer(client(&serving.address));
    let asked = within(
        PLENTY,
        Call::request(NetworkServiceRequest {
            connection: Some(connection("a")),
            mechanism_preferences: vec![kernel(&pod)],
        }),
    );

    call(&client, asked).await.unwrap_err();

    let calls = seen.calls();
    assert_eq!(seen.operations()[0], "request");
    assert_eq!(received(&calls[0]), Some(inode));
    let peer = calls[0].extensions.get::<Peer>().cloned().unwrap();
    let again = peer.descriptor(inode, Instant::now()).await.unwrap();
    assert_eq!(Inode::of(&*again).unwrap(), inode);
}

#[tokio::test]
async fn calls_of_one_client_at_the_same_time_each_get_the_descriptor_of_its_namespace() {
    let folder = Folder::new();
    let (pod, inode) = netns(&folder, "pod");
    let (serving, seen) = receiving(&folder, "s").await;
    let client = SendFdLayer::client().layer(client(&serving.address));

    let calls: Vec<_> = (0..100)
        .map(|number| {
            let (client, asked) = (
                client.clone(),
                request(with_mechanism(&number.to_string(), &pod)),
            );
            tokio::spawn(async move { call(&client, asked).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }

    assert!(
        seen.calls()
            .iter()
            .all(|call| received(call) == Some(inode))
    );
    let peer = seen.last().extensions.get::<Peer>().cloned().unwrap();
    assert_eq!(peer.unclaimed(), 0);
}

#[tokio::test]
async fn what_is_received_names_the_file_and_nothing_but_it() {
    let folder = Folder::new();
    let (pod, inode) = netns(&folder, "pod");
    let (serving, seen) = receiving(&folder, "s").await;
    let client = SendFdLayer::client().layer(client(&serving.address));

    call(&client, request(with_mechanism("a", &pod)))
        .await
        .unwrap();

    // It was opened with O_PATH: it can be opened again, and not read.
    let fd: Arc<OwnedFd> = seen
        .last()
        .extensions
        .get::<ReceivedFd>()
        .unwrap()
        .0
        .clone();
    let mut byte = [0];
    assert_eq!(
        nix::unistd::read(&*fd, &mut byte),
        Err(nix::errno::Errno::EBADF)
    );
    let again = File::open(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
    assert_eq!(Inode::of(&again).unwrap(), inode);
}
