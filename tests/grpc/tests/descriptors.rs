//! Descriptors that travel with calls and answers.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

use grpc_suite::peer::Channel;
use grpc_suite::{Folder, PLENTY, Serving, call, client, close, connection, request, within};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::NETNS_URL;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_api::networkservice::network_service_client::NetworkServiceClient;
use nsm_chain::metadata::Store;
use nsm_chain::test_util::{FailOn, Recorder, echo};
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, End, Error, ErrorKind, MetadataLayer, Operation, Side,
};
use nsm_grpc::{Connect, Inode, NextHop, Peer, ReceivedFd, RecvFdLayer, SendFdLayer};
use tokio::time::{Duration, Instant, timeout};
use tower::{Layer, ServiceBuilder, service_fn};

/// A file that stands for a network namespace: to the edge both are descriptors.
fn netns(folder: &Folder, name: &str) -> (String, Inode) {
    let file = File::create(folder.file(name)).unwrap();
    let url = format!("file://{}", folder.file(name).display());
    (url, Inode::of(&file).unwrap())
}

fn kernel(url: &str) -> Mechanism {
    Mechanism::kernel().with_parameter(NETNS_URL, url)
}

fn with_mechanism(id: &str, url: &str) -> Connection {
    Connection {
        mechanism: Some(kernel(url)),
        ..connection(id)
    }
}

fn url(connection: &Connection) -> &str {
    &connection.mechanism.as_ref().unwrap().parameters[NETNS_URL]
}

fn received(call: &Call) -> Option<Inode> {
    let received = call.extensions.get::<ReceivedFd>()?;
    Some(Inode::of(&received.0).unwrap())
}

/// The server's side of a forwarder or an endpoint, as far as descriptors go.
async fn receiving(folder: &Folder, name: &str) -> (Serving, Recorder) {
    let seen = Recorder::new();
    let chain = ServiceBuilder::new()
        .layer(RecvFdLayer::server())
        .service(seen.layer(echo()));
    (Serving::chain(&folder.socket(name), chain).await, seen)
}

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

/// A whole frame of HTTP/2 that says next to nothing: one byte more of window, for the connection.
const WINDOW_UPDATE: [u8; 13] = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1];

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

/// An endpoint that answers with a namespace of its own.
async fn endpoint(folder: &Folder, name: &str, own: Arc<Mutex<String>>) -> Serving {
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
fn forwarding(address: &nsm_grpc::Address, seen: &Recorder) -> BoxNetworkService {
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
        .service(Connect::by_next_hop(Duration::from_secs(1)));
    BoxNetworkService::new(chain)
}

fn stored(seen: &Recorder) -> Option<Inode> {
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
