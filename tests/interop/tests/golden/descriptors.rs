//! Descriptors on their way: what Go sends is taken by ours, and what ours sends rides as Go's does.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{self, JoinHandle};

use grpc_suite::{Folder, PLENTY, Serving, call, client, close, connection, request};
use interop::golden::{Connection, Descriptor, Golden, Message, frames};
use nsm_api::connection::{Mechanism, PathSegment};
use nsm_api::mechanism::NETNS_URL;
use nsm_chain::metadata::Store;
use nsm_chain::test_util::{Recorder, echo};
use nsm_chain::token::Unsigned;
use nsm_chain::{Call, MetadataLayer, Operation, Side, TokenLayer, UpdatePathLayer};
use nsm_grpc::{Inode, Peer, ReceivedFd, RecvFdLayer, SendFdLayer};
use tokio::time::{Duration, sleep, timeout};
use tower::ServiceBuilder;

use crate::golden;
use crate::socket::{DATA, Incoming, STAND_IN, end_of_call, put_stand_in, send, stand_in, writes};

fn whole(golden: &Golden, hop: &str, name: &str) -> Connection {
    let mut all = golden.connections.iter();
    all.find(|it| it.hop == hop && it.name == name)
        .unwrap()
        .clone()
}

/// Where descriptors ride: alone on a byte, on the first bytes of a frame, and before the end of the
/// first message on the stream that names them.
#[track_caller]
fn ride_well(what: &str, bytes: &[u8], descriptors: &[Descriptor]) {
    let frames = frames(bytes);
    let message = frames.iter().find(|it| it.kind == DATA);
    for descriptor in descriptors {
        let (frame, from_start) = descriptor.within(&frames).unwrap();
        let beside = |it: &&Descriptor| frame.place.contains(&it.offset);
        let before = descriptors.iter().filter(beside);
        let before = before.filter(|it| it.offset < descriptor.offset).count();
        assert_eq!((descriptor.beside, from_start), (1, before), "{what}");
        assert!(
            message.is_none_or(|it| descriptor.offset < it.place.end),
            "{what}: {descriptor:?} in {frames:?}"
        );
    }
}

#[test]
fn each_descriptor_of_go_rides_on_a_byte_of_its_own_before_the_message_that_names_it() {
    let golden = golden();
    let mut counts = Vec::new();
    for connection in &golden.connections {
        let counted = [&connection.client, &connection.server].map(|side| {
            let bytes = golden.bytes(&side.file).unwrap();
            let descriptors = Descriptor::of(side.writes());
            ride_well(&format!("{:?}", side.file), &bytes, &descriptors);
            descriptors.len()
        });
        counts.push((connection.name.as_str(), counted));
    }
    // One for each mechanism that names the namespace, and one with the answer, also to a close.
    let expected = [
        ("first request", [1, 1]),
        ("refresh", [2, 1]),
        ("close", [1, 1]),
        ("first request", [1, 1]),
    ];
    assert_eq!(counts, expected);
}

/// Plays what a Go client has written to a server of ours, and gives what arrived in its chain, and
/// how many descriptors were left then.
async fn replay(hop: &str, name: &str) -> (Call, usize) {
    let golden = golden();
    let written = whole(&golden, hop, name).client;
    let folder = Folder::new();
    let seen = Recorder::new();
    let server = hop.split('-').nth(1).unwrap();
    let chain = ServiceBuilder::new()
        .layer(UpdatePathLayer::new(server))
        .layer(TokenLayer::new(
            Side::Server,
            Unsigned::new("ours", Duration::from_secs(60)),
        ))
        .layer(RecvFdLayer::server())
        .layer(seen.clone())
        .service(echo());
    let serving = Serving::chain(&folder.socket("s"), chain).await;
    let stream = UnixStream::connect(folder.file("s")).unwrap();

    let mut writes = writes(&golden, &written);
    let whole: Vec<u8> = writes.iter().flat_map(|it| it.0.clone()).collect();
    let (mut end, mut call) = (0, 0);
    while end < end_of_call(&whole).unwrap() {
        end += writes[call].0.len();
        call += 1;
    }
    let good_bye = writes.split_off(call);
    send(&stream, &writes);
    timeout(PLENTY, async {
        while seen.calls().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
    let left = seen.last().extensions.get::<Peer>().unwrap().unclaimed();
    send(&stream, &good_bye);
    serving.stop().await;
    assert_eq!(seen.calls().len(), 1);
    (seen.last(), left)
}

/// The message of the call over a connection, about the stand-in.
fn message(hop: &str, name: &str) -> Message {
    let golden = golden();
    let mut calls = golden.calls.iter();
    let call = calls.find(|it| it.hop == hop && it.name == name).unwrap();
    let mut bytes = golden.bytes(&call.messages[0].file).unwrap();
    put_stand_in(&mut bytes);
    Message::decode(call.messages[0].r#type, &bytes).unwrap()
}

#[tokio::test]
async fn what_a_go_client_has_written_is_a_call_with_its_descriptor() {
    let calls = [
        ("nsc-forwarder", "first request", 0),
        // The second descriptor of the same namespace is left for a call that asks for it.
        ("nsc-forwarder", "refresh", 1),
        ("nsc-forwarder", "close", 0),
        ("forwarder-nse", "first request", 0),
    ];
    for (hop, name, left) in calls {
        let (call, unclaimed) = replay(hop, name).await;

        let what = format!("{hop}: {name}");
        let received = call.extensions.get::<ReceivedFd>().unwrap();
        assert_eq!(Inode::of(&received.0).unwrap(), stand_in().1, "{what}");
        assert_eq!(unclaimed, left, "{what}");

        // Who calls is known by the headers, and the rest is what was sent.
        let arrived = call.connection().clone();
        let path = arrived.path.as_ref().unwrap();
        let from: &PathSegment = &path.path_segments[path.index as usize - 1];
        let caller = hop.split('-').next().unwrap();
        assert_eq!(from.name, caller, "{what}");
        assert_eq!(from.token, format!("token.{caller}.signature"), "{what}");
        let expires = from.expires.as_ref().unwrap();
        assert_eq!((expires.seconds, expires.nanos), (2_000_000_000, 250));
        assert!(call.deadline.is_some() || name == "close", "{what}");
        match (call.operation, message(hop, name)) {
            (Operation::Request(arrived), Message::Request(sent)) => {
                assert_eq!(arrived.mechanism_preferences, sent.mechanism_preferences);
                let (arrived, sent) = (arrived.connection.unwrap(), sent.connection.unwrap());
                assert_eq!(arrived.context, sent.context, "{what}");
                assert_eq!(arrived.labels, sent.labels, "{what}");
                assert_eq!(arrived.mechanism, sent.mechanism, "{what}");
            }
            (Operation::Close(arrived), Message::Connection(sent)) => {
                assert_eq!(arrived.context, sent.context, "{what}");
                assert_eq!(arrived.mechanism, sent.mechanism, "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// A server that speaks HTTP/2, and has nothing to say of it.
const EMPTY_SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

#[tokio::test]
async fn what_ours_sends_rides_as_what_go_sends() {
    let folder = Folder::new();
    let listener = UnixListener::bind(folder.file("s")).unwrap();
    let listening = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(&EMPTY_SETTINGS).unwrap();
        let mut incoming = Incoming::default();
        incoming.take_call(&stream);
        incoming
    });
    let chain = ServiceBuilder::new()
        .layer(SendFdLayer::client())
        .service(client(&folder.socket("s")));
    let mut asked = request(connection("nsc-0"));
    if let Operation::Request(request) = &mut asked.operation {
        let kernel = Mechanism::kernel();
        let url = format!("file://{STAND_IN}");
        request.mechanism_preferences = vec![kernel.with_parameter(NETNS_URL, url)];
    }
    let asking = tokio::spawn(async move { call(&chain, asked).await });

    let incoming = tokio::task::spawn_blocking(|| listening.join().unwrap());
    let incoming = incoming.await.unwrap();
    // It has hung up without an answer.
    asking.await.unwrap().unwrap_err();

    assert_eq!(incoming.received, [stand_in().1]);
    let descriptors = Descriptor::of(incoming.writes);
    ride_well("ours", &incoming.bytes, &descriptors);
    let name = stand_in().1.to_string();
    let named = incoming.bytes.windows(name.len());
    let named = named.map(|it| it == name.as_bytes()).position(|it| it);
    assert!(descriptors[0].offset < named.unwrap());
}

/// Plays what a Go server has written to a client of ours, and gives the connection.
fn answer(folder: &Folder, name: &str) -> JoinHandle<UnixStream> {
    let golden = golden();
    let written = whole(&golden, "nsc-forwarder", name).server;
    let mut writes = writes(&golden, &written);
    let listener = UnixListener::bind(folder.file("s")).unwrap();
    thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        let settings = writes.remove(0);
        send(&stream, &[settings]);
        let mut incoming = Incoming::default();
        incoming.take_call(&stream);
        send(&stream, &writes);
        stream
    })
}

#[tokio::test]
async fn what_a_go_server_has_written_is_an_answer_with_its_descriptor() {
    for name in ["first request", "refresh"] {
        let folder = Folder::new();
        let answering = answer(&folder, name);
        let seen = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(MetadataLayer::new(Side::Client))
            .layer(RecvFdLayer::client())
            .layer(seen.clone())
            .service(client(&folder.socket("s")));

        let answer = call(&chain, request(connection("nsc-0"))).await.unwrap();

        let golden = golden();
        let mut calls = golden.calls.iter();
        let recorded = calls.find(|it| it.name == name).unwrap();
        let recorded = golden.message(&recorded.messages[1]).unwrap().lasting();
        assert_eq!(Message::Connection(answer).lasting(), recorded);
        let store = Store::of(&seen.last(), Side::Client).cloned().unwrap();
        let received = store.get::<ReceivedFd>().unwrap();
        assert_eq!(Inode::of(&received.0).unwrap(), stand_in().1);
        answering.join().unwrap();
    }
}

#[tokio::test]
async fn an_answer_to_a_close_may_bring_a_descriptor_that_nobody_wants() {
    let folder = Folder::new();
    let answering = answer(&folder, "close");
    let chain = client(&folder.socket("s"));

    call(&chain, close(connection("nsc-0"))).await.unwrap();

    answering.join().unwrap();
}
