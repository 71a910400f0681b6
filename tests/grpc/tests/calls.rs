//! A call over the wire: what travels, and what comes back.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

use std::future::pending;
use std::io::Cursor;
use std::sync::{Arc, Mutex};

use grpc_suite::{Folder, PLENTY, Serving, call, client, close, connection, request, within};
use http::{HeaderValue, Method, Request};
use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::test_util::{FailOn, Fault, Recorder, echo};
use nsm_chain::{BoxNetworkService, Call, Error, ErrorKind};
use nsm_grpc::status::Refused;
use nsm_grpc::{Address, Connect, NextHop, Patience, Server, Transports};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Duration, Instant};
use tower::{Layer, ServiceBuilder, service_fn};

fn tcp() -> Address {
    "tcp://127.0.0.1:0".parse().unwrap()
}

/// A server that answers with what it is asked, and what it has seen.
async fn recorded(address: &Address) -> (Serving, Recorder) {
    let seen = Recorder::new();
    let serving = Serving::chain(address, seen.layer(echo())).await;
    (serving, seen)
}

#[tokio::test]
async fn requests_and_closes_travel_over_unix_sockets_and_tcp() {
    let folder = Folder::new();
    for address in [folder.socket("s"), tcp()] {
        let (serving, seen) = recorded(&address).await;
        let client = client(&serving.address);

        let asked = call(&client, request(connection("a"))).await.unwrap();
        let closed = call(&client, close(connection("b"))).await.unwrap();

        assert_eq!(asked.id, "a");
        assert_eq!(closed.id, "b");
        assert_eq!(seen.operations(), ["request", "close"]);
        assert_eq!(seen.last().connection().id, "b");
        serving.stop().await;
    }
}

#[tokio::test]
async fn metadata_travels_without_the_headers_of_the_hop() {
    let folder = Folder::new();
    let (serving, seen) = recorded(&folder.socket("s")).await;
    let mut asked = request(connection("a"));
    for name in ["nsm-client-token", "traceparent", "key-bin"] {
        asked.metadata.append(name, HeaderValue::from_static("one"));
        asked.metadata.append(name, HeaderValue::from_static("two"));
    }
    for name in ["te", "user-agent", "grpc-timeout", "connection", "host"] {
        asked.metadata.insert(name, HeaderValue::from_static("1H"));
    }

    call(&client(&serving.address), asked).await.unwrap();

    let seen = seen.last();
    let mut names: Vec<_> = seen.metadata.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["key-bin", "nsm-client-token", "traceparent"]);
    let values: Vec<_> = seen.metadata.get_all("traceparent").iter().collect();
    assert_eq!(values, ["one", "two"]);
    assert!(seen.deadline.unwrap() < Instant::now() + PLENTY);
}

#[tokio::test]
async fn a_deadline_travels_and_the_way_so_far_is_taken_off() {
    let folder = Folder::new();
    let left = Arc::new(Mutex::new(Vec::new()));
    let looks = {
        let left = Arc::clone(&left);
        service_fn(move |call: Call| {
            let deadline = call.deadline.map(|deadline| deadline - Instant::now());
            left.lock().unwrap().push(deadline);
            async move { Ok::<_, Error>(call.connection().clone()) }
        })
    };
    let last = Serving::chain(&folder.socket("last"), looks).await;
    let middle = ServiceBuilder::new()
        .layer(FailOn::request(1).with(Fault::Delay(Duration::from_millis(500))))
        .service(client(&last.address));
    let middle = Serving::chain(&folder.socket("middle"), middle).await;

    let asked = within(Duration::from_secs(5), request(connection("a")));
    call(&client(&middle.address), asked).await.unwrap();
    let without = Call::request(NetworkServiceRequest::default());
    call(&client(&last.address), without).await.unwrap();

    let left = left.lock().unwrap();
    let with = left[0].unwrap();
    assert!(with <= Duration::from_millis(4500), "{with:?}");
    assert!(with >= Duration::from_secs(1), "{with:?}");
    assert_eq!(left[1], None);
}

#[tokio::test]
async fn a_next_hop_that_does_not_answer_is_left_at_the_deadline_and_hears_of_it() {
    let folder = Folder::new();
    let (gone, mut left) = tokio::sync::mpsc::channel::<()>(1);
    let hangs = service_fn(move |_: Call| {
        let gone = gone.clone();
        async move {
            let _gone = gone;
            pending::<Result<Connection, Error>>().await
        }
    });
    let serving = Serving::chain(&folder.socket("s"), hangs).await;
    let client = client(&serving.address);
    let started = Instant::now();

    let asked = within(Duration::from_millis(300), request(connection("a")));
    let error = call(&client, asked).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert!(started.elapsed() < Duration::from_secs(2));
    serving.kill().await;
    assert_eq!(left.recv().await, None, "the chain's future is dropped");
}

#[tokio::test]
async fn an_error_comes_back_with_its_kind_and_its_report_over_two_hops() {
    let folder = Folder::new();
    for kind in [
        ErrorKind::InvalidArgument,
        ErrorKind::FailedPrecondition,
        ErrorKind::NotFound,
        ErrorKind::PermissionDenied,
        ErrorKind::ResourceExhausted,
        ErrorKind::DeadlineExceeded,
        ErrorKind::Unavailable,
        ErrorKind::Cancelled,
        ErrorKind::Unimplemented,
        ErrorKind::Internal,
    ] {
        let fails = FailOn::request(1).with(Fault::Error(kind));
        let last = Serving::chain(&folder.socket("last"), fails.layer(echo())).await;
        let middle = Serving::chain(&folder.socket("middle"), client(&last.address)).await;

        let error = call(&client(&middle.address), request(connection("a"))).await;

        let error = error.unwrap_err();
        assert_eq!(error.kind(), kind);
        let report = format!("connect: {kind}: connect: {kind}: fail_on: {kind}: injected");
        assert_eq!(error.report().to_string(), report);
        middle.stop().await;
        last.stop().await;
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_either_way_and_the_connection_stands() {
    let folder = Folder::new();
    let grows = service_fn(|call: Call| async move {
        let mut connection = call.connection().clone();
        if connection.id == "grow" {
            connection.network_service = "x".repeat(2000);
        }
        Ok::<_, Error>(connection)
    });
    let server = Server::new(BoxNetworkService::new(grows)).message_limit(1000);
    let serving = Serving::server(&folder.socket("s"), server).await;
    let client = client(&serving.address);
    let mut large = connection("a");
    large.network_service = "x".repeat(2000);

    let asked = call(&client, request(large.clone())).await.unwrap_err();
    let answered = call(&client, request(connection("grow")))
        .await
        .unwrap_err();
    let sent = call(&client.clone().message_limit(1000), request(large)).await;

    for error in [asked, answered, sent.unwrap_err()] {
        let report = error.report().to_string();
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{report}");
        assert!(report.contains("the limit is: 1000 bytes"), "{report}");
    }
    call(&client, request(connection("b"))).await.unwrap();
}

#[tokio::test]
async fn a_call_without_a_next_hop_is_an_error_and_one_with_it_arrives() {
    let folder = Folder::new();
    let client = Connect::by_next_hop(Transports::new(Duration::from_secs(1)));
    let (one, at_one) = recorded(&folder.socket("1")).await;
    let (two, at_two) = recorded(&folder.socket("2")).await;

    for (id, address) in [
        ("a", &one.address),
        ("b", &two.address),
        ("c", &one.address),
    ] {
        let mut asked = request(connection(id));
        asked.extensions.insert(NextHop(address.clone()));
        call(&client, asked).await.unwrap();
    }
    let nowhere = call(&client, request(connection("d"))).await.unwrap_err();

    assert_eq!(at_one.calls().len(), 2);
    assert_eq!(at_two.last().connection().id, "b");
    assert_eq!(nowhere.kind(), ErrorKind::Internal);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_says_so_does_not_wait_for_its_next_hop_while_others_do() {
    let folder = Folder::new();
    let client = Connect::by_next_hop(Transports::new(Duration::from_secs(1)));
    let nobody = folder.socket("nobody");
    let asked = |patience: Option<Patience>| {
        let mut asked = request(connection("a"));
        asked.deadline = Some(Instant::now() + Duration::from_secs(10));
        asked.extensions.insert(NextHop(nobody.clone()));
        if let Some(patience) = patience {
            asked.extensions.insert(patience);
        }
        asked
    };
    let start = Instant::now();

    let at_once = call(&client, asked(Some(Patience::FailFast))).await;
    let until_then = start.elapsed();
    let in_the_end = call(&client, asked(None)).await;

    assert_eq!(at_once.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(until_then < Duration::from_secs(1), "{until_then:?}");
    assert_eq!(in_the_end.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(start.elapsed() > Duration::from_secs(9));
}

/// Posts bytes as a peer would that is not made of this crate, and gives status and message.
async fn post(address: &Address, path: &str, header: Option<(&str, &str)>, body: &[u8]) -> Posted {
    let Address::Unix(socket) = address else {
        panic!("a unix socket is expected");
    };
    let stream = UnixStream::connect(socket).await.unwrap();
    let (client, connection) = h2::client::Builder::new()
        .handshake::<_, Cursor<Vec<u8>>>(stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut asked = Request::builder()
        .method(Method::POST)
        .uri(format!("http://localhost{path}"))
        .header("te", "trailers");
    if let Some((name, value)) = header {
        asked = asked.header(name, value);
    }
    if header.is_none_or(|(name, _)| name != "content-type") {
        asked = asked.header("content-type", "application/grpc");
    }
    let mut client = client.ready().await.unwrap();
    let (answer, mut sending) = client.send_request(asked.body(()).unwrap(), false).unwrap();
    sending.send_data(Cursor::new(body.to_vec()), true).unwrap();
    let answer = answer.await.unwrap();
    let http = answer.status().as_u16();
    let mut headers = answer.headers().clone();
    let mut body = answer.into_body();
    while body.data().await.is_some() {}
    if let Some(trailers) = body.trailers().await.unwrap() {
        headers.extend(trailers);
    }
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    Posted {
        http,
        status: text("grpc-status"),
        message: text("grpc-message"),
    }
}

#[derive(Debug)]
struct Posted {
    http: u16,
    status: String,
    message: String,
}

const REQUEST: &str = "/networkservice.NetworkService/Request";

#[tokio::test]
async fn garbage_gives_a_precise_status_and_reaches_no_chain() {
    let folder = Folder::new();
    let (serving, seen) = recorded(&folder.socket("s")).await;
    let post = |path, header, body| post(&serving.address, path, header, body);
    let empty = &[0, 0, 0, 0, 0][..];

    let no_protobuf = post(REQUEST, None, &[0, 0, 0, 0, 2, 0xff, 0xff]).await;
    assert_eq!(no_protobuf.status, "13");
    assert!(no_protobuf.message.contains("decode"), "{no_protobuf:?}");

    let no_message = post(REQUEST, None, &[]).await;
    assert_eq!(no_message.status, "13", "{no_message:?}");

    let too_large = post(REQUEST, None, &[0, 0xff, 0xff, 0xff, 0xff]).await;
    assert_eq!(too_large.status, "8");
    assert!(too_large.message.contains("too%20large"), "{too_large:?}");

    let compressed = post(REQUEST, Some(("grpc-encoding", "gzip")), empty).await;
    assert_eq!(compressed.status, "12", "{compressed:?}");

    let timeout = post(REQUEST, Some(("grpc-timeout", "soon")), empty).await;
    assert_eq!(timeout.status, "3");
    assert!(timeout.message.contains("grpc-timeout"), "{timeout:?}");

    let method = post("/networkservice.NetworkService/Ask", None, empty).await;
    assert_eq!(method.status, "12", "{method:?}");

    let service = post("/registry.NetworkServiceRegistry/Find", None, empty).await;
    assert_eq!(service.status, "12");
    assert!(service.message.contains("not%20served"), "{service:?}");

    let no_grpc = post(REQUEST, Some(("content-type", "text/plain")), empty).await;
    assert_eq!(no_grpc.http, 415);

    assert!(seen.calls().is_empty());
    let well = post(REQUEST, None, empty).await;
    assert_eq!(well.status, "0");
    assert_eq!(seen.calls().len(), 1);
}

#[tokio::test]
async fn a_peer_that_does_not_speak_grpc_is_cut_off_and_the_others_are_served() {
    let folder = Folder::new();
    let (serving, _) = recorded(&folder.socket("s")).await;
    let others = client(&serving.address);
    call(&others, request(connection("a"))).await.unwrap();

    for words in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 64],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nabcdefghijklm",
    ] {
        let mut peer = UnixStream::connect(folder.file("s")).await.unwrap();
        peer.write_all(words).await.unwrap();
        let mut rest = Vec::new();
        // Closed or reset: both are an end.
        let ended = tokio::time::timeout(PLENTY, peer.read_to_end(&mut rest)).await;
        assert!(ended.is_ok());
    }

    call(&others, request(connection("b"))).await.unwrap();
}

#[tokio::test]
async fn the_status_of_the_next_hop_can_be_told_from_an_error_on_the_way() {
    let folder = Folder::new();
    let fails = FailOn::request(1).with(Fault::Error(ErrorKind::NotFound));
    let serving = Serving::chain(&folder.socket("s"), fails.layer(echo())).await;
    let client = client(&serving.address);

    let refused = call(&client, request(connection("a"))).await.unwrap_err();
    serving.stop().await;
    let asked = within(Duration::from_millis(200), request(connection("a")));
    let away = call(&client, asked).await.unwrap_err();

    let cause = |error: &Error| {
        let cause = std::error::Error::source(error).unwrap();
        cause.downcast_ref::<Refused>().map(Refused::code)
    };
    assert_eq!(cause(&refused), Some(tonic::Code::NotFound));
    assert_eq!(cause(&away), None);
    assert_eq!(away.kind(), ErrorKind::Unavailable);
}
