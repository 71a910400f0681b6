//! The headers of a call: those of Go, and those of ours.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;

use grpc_suite::{Folder, call, client, connection, request};
use nsm_chain::token::{EXPIRES, TOKEN, Unsigned};
use nsm_chain::{Call, Side, TokenLayer};
use prost_types::Timestamp;
use tokio::net::UnixListener as Listener;
use tokio::time::Duration;
use tower::Layer;

use crate::golden;

/// Those that a client may leave out: who its library is, what that can decompress, and how the Go
/// programs are to log the call, where nothing is as much as 0.
const OPTIONAL: [&str; 3] = ["user-agent", "grpc-accept-encoding", "grpctracing"];

#[test]
fn every_call_of_go_says_who_calls_and_until_when_to_believe_it() {
    for call in golden().calls {
        let header = |name: &str| call.headers.get(name).map(String::as_str);
        let who = call.hop.split('-').next().unwrap();
        let token = format!("token.{who}.signature");
        assert_eq!(header(TOKEN.as_str()), Some(token.as_str()));
        let expires: Timestamp = header(EXPIRES.as_str()).unwrap().parse().unwrap();
        assert_eq!((expires.seconds, expires.nanos), (2_000_000_000, 250));
    }
}

/// The headers that a client of ours sends, with those that begin with a colon.
async fn ours(is_close: bool) -> BTreeMap<String, String> {
    let folder = Folder::new();
    let listener = UnixListener::bind(folder.file("s")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = Listener::from_std(listener).unwrap();
    let token = Unsigned::new("ours", Duration::from_secs(600));
    let chain = TokenLayer::new(Side::Client, token).layer(client(&folder.socket("s")));
    let asked = match is_close {
        // The recorded one has all the time that it wants.
        true => Call::close(connection("nsc-0")),
        false => request(connection("nsc-0")),
    };
    let asking = tokio::spawn(async move { call(&chain, asked).await });

    let (stream, _) = listener.accept().await.unwrap();
    let mut server = h2::server::handshake(stream).await.unwrap();
    let (head, _) = server.accept().await.unwrap().unwrap();
    asking.abort();
    let uri = head.uri();
    let pseudo = [
        (":method", head.method().as_str()),
        (":scheme", uri.scheme_str().unwrap()),
        (":authority", uri.authority().unwrap().as_str()),
        (":path", uri.path()),
    ];
    let headers = head.headers().iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    let all = pseudo.into_iter().chain(headers);
    all.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[tokio::test]
async fn ours_sends_the_headers_that_go_sends() {
    let golden = golden();
    for (name, is_close) in [("first request", false), ("close", true)] {
        let mut calls = golden.calls.iter();
        let go = &calls.find(|call| call.name == name).unwrap().headers;
        let ours = ours(is_close).await;

        let names = |headers: &BTreeMap<String, String>| -> Vec<String> {
            let names = headers.keys().filter(|it| !OPTIONAL.contains(&it.as_str()));
            names.cloned().collect()
        };
        assert_eq!(names(&ours), names(go), "{name}");
        for name in [
            ":method",
            ":scheme",
            ":authority",
            ":path",
            "content-type",
            "te",
        ] {
            assert_eq!(ours[name], go[name], "{name}");
        }
        // Both are what Go reads: a time with a zone, and up to eight digits with a unit.
        ours[EXPIRES.as_str()].parse::<Timestamp>().unwrap();
        for timeout in [&ours, go]
            .map(|it| it.get("grpc-timeout"))
            .into_iter()
            .flatten()
        {
            let (digits, unit) = timeout.split_at(timeout.len() - 1);
            assert!(
                digits.len() <= 8 && digits.parse::<u32>().is_ok(),
                "{timeout}"
            );
            assert!("HMSmun".contains(unit), "{timeout}");
        }
    }
}
