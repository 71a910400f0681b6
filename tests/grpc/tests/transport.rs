//! A transport whose other side comes and goes.

// What fails here fails a test.
#![allow(clippy::unwrap_used)]

use std::future::pending;
use std::io::Cursor;
use std::sync::Arc;

use grpc_suite::peer::Channel;
use grpc_suite::{
    Folder, PLENTY, Serving, call, client, close, connection, request, transport, within,
};
use nsm_api::connection::Connection;
use nsm_chain::test_util::{Recorder, echo};
use nsm_chain::{BoxNetworkService, Call, End, Error, ErrorKind};
use nsm_grpc::{Connect, Connected, NextHop, Server, Transports};
use tokio::net::UnixListener;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep, timeout};
use tower::{Layer, ServiceBuilder, service_fn};

#[tokio::test]
async fn a_call_waits_for_a_server_that_is_not_there_yet() {
    let folder = Folder::new();
    let client = client(&folder.socket("s"));
    let asked = tokio::spawn(async move { call(&client, request(connection("a"))).await });
    sleep(Duration::from_millis(200)).await;

    let _serving = Serving::chain(&folder.socket("s"), End).await;

    assert_eq!(asked.await.unwrap().unwrap().id, "a");
}

#[tokio::test]
async fn a_call_to_nobody_is_unavailable_before_its_deadline_and_says_why() {
    let folder = Folder::new();
    let time = Duration::from_millis(500);
    let started = Instant::now();

    let client = client(&folder.socket("s"));
    let error = call(&client, within(time, request(connection("a")))).await;

    let waited = started.elapsed();
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(waited < time && waited > time / 2, "{waited:?}");
    let report = error.report().to_string();
    let address = folder.socket("s").to_string();
    assert!(
        report.contains(&format!("{address} is not reached: cannot connect")),
        "{report}"
    );
    assert!(report.contains("No such file"), "{report}");
}

#[tokio::test]
async fn a_call_that_does_not_wait_fails_with_the_first_attempt() {
    let folder = Folder::new();
    let client = client(&folder.socket("s")).without_waiting();
    let started = Instant::now();

    let error = call(&client, request(connection("a"))).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_server_whose_queue_takes_connections_and_nobody_serves_is_not_reached() {
    let folder = Folder::new();
    let _frozen = UnixListener::bind(folder.file("s")).unwrap();
    let transport = nsm_grpc::Transport::new(folder.socket("s"), Duration::from_millis(50));
    let connected = transport.connected();

    let asked = within(Duration::from_millis(400), request(connection("a")));
    let error = call(&Connect::to(transport), asked).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let report = error.report().to_string();
    assert!(report.contains("has not answered within 50ms"), "{report}");
    assert_eq!(connected.borrow().generation, 0);
}

#[tokio::test]
async fn the_generation_grows_with_each_connection_without_anybody_calling() {
    let folder = Folder::new();
    let transport = transport(&folder.socket("s"));
    let mut connected = transport.connected();
    assert_eq!(*connected.borrow(), Connected::default());

    for generation in 1..=5 {
        let serving = Serving::chain(&folder.socket("s"), End).await;
        let listening = Instant::now();
        let stands = connected.wait_for(|connected| connected.stands);
        let now = *timeout(PLENTY, stands).await.unwrap().unwrap();

        assert_eq!(now.generation, generation);
        assert!(listening.elapsed() < Duration::from_secs(1));
        match generation % 2 {
            0 => serving.kill().await,
            _ => serving.stop().await,
        }
        let ended = connected.wait_for(|connected| !connected.stands);
        let now = *timeout(PLENTY, ended).await.unwrap().unwrap();
        assert_eq!(now.generation, generation);
    }

    drop(transport);
    assert!(connected.changed().await.is_err());
}

#[tokio::test]
async fn a_call_that_breaks_half_way_is_unavailable_and_is_not_sent_again() {
    let folder = Folder::new();
    let begun = Arc::new(Notify::new());
    let seen = Recorder::new();
    let hangs = {
        let begun = Arc::clone(&begun);
        service_fn(move |_: Call| {
            begun.notify_one();
            pending::<Result<Connection, Error>>()
        })
    };
    let serving = Serving::chain(&folder.socket("s"), seen.layer(hangs)).await;
    let client = client(&serving.address);
    let calling = client.clone();
    let asked = tokio::spawn(async move { call(&calling, request(connection("a"))).await });
    begun.notified().await;

    serving.kill().await;
    let successor = Serving::chain(&folder.socket("s"), seen.layer(echo())).await;

    let error = asked.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error
            .report()
            .to_string()
            .contains("has broken before the answer")
    );
    assert_eq!(seen.calls().len(), 1);
    call(&client, request(connection("b"))).await.unwrap();
    successor.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_ends_the_calls_that_it_has_and_the_next_go_to_its_successor() {
    let folder = Folder::new();
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
        service_fn(move |call: Call| {
            let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
            async move {
                begun.notify_one();
                go_on.notified().await;
                Ok::<_, Error>(call.connection().clone())
            }
        })
    };
    let old = Serving::chain(&folder.socket("s"), slow).await;
    let client = client(&old.address);
    let calling = client.clone();
    let slow = tokio::spawn(async move { call(&calling, request(connection("slow"))).await });
    begun.notified().await;

    let stopping = old.begin_to_stop();
    // The file goes at once, so that the successor can start while the old one drains.
    while folder.file("s").exists() {
        tokio::task::yield_now().await;
    }
    let seen = Recorder::new();
    let new = Serving::chain(&folder.socket("s"), seen.layer(echo())).await;
    for id in ["a", "b", "c"] {
        call(&client, request(connection(id))).await.unwrap();
    }
    call(&client, close(connection("a"))).await.unwrap();

    assert!(!stopping.is_finished());
    go_on.notify_one();
    assert_eq!(slow.await.unwrap().unwrap().id, "slow");
    timeout(PLENTY, stopping).await.unwrap().unwrap();
    assert_eq!(seen.calls().len(), 4);
    assert!(folder.file("s").exists(), "it is the successor's");
    new.stop().await;
}

#[tokio::test]
async fn a_server_does_not_wait_for_ever_for_its_calls_nor_for_peers_that_say_nothing() {
    let folder = Folder::new();
    let begun = Arc::new(Notify::new());
    let hangs = {
        let begun = Arc::clone(&begun);
        service_fn(move |_: Call| {
            begun.notify_one();
            pending::<Result<Connection, Error>>()
        })
    };
    let server = Server::new(BoxNetworkService::new(hangs)).drain_limit(Duration::from_millis(300));
    let serving = Serving::server(&folder.socket("s"), server).await;
    let _silent = tokio::net::UnixStream::connect(folder.file("s"))
        .await
        .unwrap();
    let client = client(&serving.address);
    let asked = tokio::spawn(async move { call(&client, request(connection("a"))).await });
    begun.notified().await;
    let started = Instant::now();

    serving.stop().await;

    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!(
        asked.await.unwrap().unwrap_err().kind(),
        ErrorKind::Unavailable
    );
}

#[tokio::test]
async fn a_silent_peer_alone_does_not_hold_a_server_up_at_all() {
    let folder = Folder::new();
    let server = Server::new(BoxNetworkService::new(End)).drain_limit(PLENTY * 10);
    let serving = Serving::server(&folder.socket("s"), server).await;
    let _silent = tokio::net::UnixStream::connect(folder.file("s"))
        .await
        .unwrap();
    call(&client(&serving.address), request(connection("a")))
        .await
        .unwrap();

    serving.stop().await;
}

#[tokio::test]
async fn a_call_that_the_peer_has_certainly_not_begun_with_is_sent_again() {
    let folder = Folder::new();
    let listener = UnixListener::bind(folder.file("s")).unwrap();
    // A server that is not made of this crate: it refuses the first call of its first connection.
    let server = tokio::spawn(async move {
        let mut calls = 0;
        for refuses in [true, false] {
            let (stream, _) = listener.accept().await.unwrap();
            let mut http = h2::server::Builder::new()
                .handshake::<_, Cursor<Vec<u8>>>(stream)
                .await
                .unwrap();
            while let Some(Ok((_, mut respond))) = http.accept().await {
                calls += 1;
                if refuses {
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                    continue;
                }
                let answer = http::Response::builder().header("content-type", "application/grpc");
                let mut sending = respond
                    .send_response(answer.body(()).unwrap(), false)
                    .unwrap();
                sending.send_data(Cursor::new(vec![0; 5]), false).unwrap();
                let mut trailers = http::HeaderMap::new();
                trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
                sending.send_trailers(trailers).unwrap();
            }
        }
        calls
    });

    let client = client(&folder.socket("s"));
    call(&client, request(connection("a"))).await.unwrap();

    drop(client);
    assert_eq!(timeout(PLENTY, server).await.unwrap().unwrap(), 2);
}

/// The task that serves a connection may be late, or have no time at all between two calls.
#[test]
fn a_peer_that_has_hung_up_is_noticed_by_the_call_itself() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let folder = Folder::new();
    let (ours, theirs) = (runtime(), runtime());
    let mut serving = theirs.block_on(Serving::chain(&folder.socket("s"), End));
    // It runs only while this thread waits for a call.
    let (asks, asked) = std::sync::mpsc::channel::<()>();
    let (answers, answered) = std::sync::mpsc::channel();
    let address = folder.socket("s");
    let caller = std::thread::spawn(move || {
        let client = ours.block_on(async { client(&address) });
        while asked.recv().is_ok() {
            let done = ours.block_on(call(&client, request(connection("a"))));
            answers.send(done.map(|it| it.id)).unwrap();
        }
    });
    for _ in 0..20 {
        asks.send(()).unwrap();
        let answer = theirs.block_on(async {
            loop {
                match answered.try_recv() {
                    Ok(answer) => return answer,
                    Err(_) => sleep(Duration::from_millis(1)).await,
                }
            }
        });
        assert_eq!(answer.unwrap(), "a");
        serving = theirs.block_on(async {
            serving.kill().await;
            Serving::chain(&folder.socket("s"), End).await
        });
    }
    drop(asks);
    caller.join().unwrap();
}

/// A server that is not made of this crate. It answers one call over each connection, with that
/// status at once, and closes the connection.
async fn refuses_all(listener: UnixListener, status: &'static str) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let mut http = h2::server::handshake(stream).await.unwrap();
        let Some(Ok((_, mut respond))) = http.accept().await else {
            continue;
        };
        let answer = http::Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", status);
        respond
            .send_response(answer.body(()).unwrap(), true)
            .unwrap();
        // The answer goes out while another call is waited for.
        drop(timeout(Duration::from_millis(5), http.accept()).await);
    }
}

#[tokio::test]
async fn a_server_that_takes_no_calls_is_not_stormed_by_who_calls_with_each_connection() {
    let folder = Folder::new();
    let listener = UnixListener::bind(folder.file("s")).unwrap();
    let server = tokio::spawn(refuses_all(listener, "8"));
    let transport = transport(&folder.socket("s"));
    let mut connected = transport.connected();
    let client = Connect::to(transport);
    let mut refused = 0;

    let calls = async {
        loop {
            connected.wait_for(|it| it.stands).await.unwrap();
            let error = call(&client, request(connection("a"))).await.unwrap_err();
            refused += usize::from(error.kind() == ErrorKind::ResourceExhausted);
        }
    };
    timeout(Duration::from_secs(2), calls).await.unwrap_err();

    // Pauses of 10 ms and more up to 300 ms leave room for a dozen in that time.
    assert!((2..=30).contains(&refused), "{refused} calls");
    server.abort();
}

#[tokio::test]
async fn calls_find_their_way_while_the_server_comes_and_goes_all_the_time() {
    let folder = Folder::new();
    let client = client(&folder.socket("s"));
    let calling = tokio::spawn(async move {
        let mut unavailable = 0;
        for number in 0..300 {
            let id = number.to_string();
            match call(&client, request(connection(&id))).await {
                Ok(answer) => assert_eq!(answer.id, id),
                Err(error) if error.kind() == ErrorKind::Unavailable => unavailable += 1,
                Err(error) => panic!("{}", error.report()),
            }
            sleep(Duration::from_millis(3)).await;
        }
        unavailable
    });

    let mut servers = 0;
    while !calling.is_finished() {
        let serving = Serving::chain(&folder.socket("s"), End).await;
        servers += 1;
        sleep(Duration::from_millis(350)).await;
        match servers % 2 {
            0 => serving.kill().await,
            _ => serving.stop().await,
        }
    }

    // A call that was under way in a server that is killed is lost, and no other.
    assert!(servers >= 3);
    assert!(calling.await.unwrap() <= servers / 2);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_nobody_uses_is_closed_and_made_again_when_it_is_needed() {
    let folder = Folder::new();
    let seen = Recorder::new();
    let serving = Serving::chain(&folder.socket("s"), seen.layer(echo())).await;
    let client = Connect::by_next_hop(Transports::new(Duration::from_secs(1)));
    let call_it = || {
        let mut asked = request(connection("a"));
        asked.extensions.insert(NextHop(serving.address.clone()));
        call(&client, asked)
    };
    call_it().await.unwrap();
    let peer = |seen: &Recorder| {
        let call = seen.last();
        call.extensions.get::<nsm_grpc::Peer>().cloned().unwrap()
    };
    let first = peer(&seen);
    let nothing = nsm_grpc::Inode { dev: 0, ino: 0 };

    // The server's side of the connection has ended when nobody can send over it any more.
    let waits = first.descriptor(nothing, Instant::now() + Duration::from_secs(3600));
    let ended = waits.await.unwrap_err().to_string();

    assert!(ended.contains("has ended"), "{ended}");
    call_it().await.unwrap();
}

#[tokio::test]
async fn health_is_told_for_the_server_and_for_each_service() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    let folder = Folder::new();
    let server = Server::new(BoxNetworkService::new(End)).service_names(["one", "two"]);
    let serving = Serving::server(&folder.socket("s"), server).await;
    let channel = Channel::connect(&folder.file("s")).await;
    let check = |service: &str| {
        let mut client = HealthClient::new(channel.clone());
        let service = service.to_owned();
        async move { client.check(HealthCheckRequest { service }).await }
    };

    for service in ["", "networkservice.NetworkService", "one", "two"] {
        let answer = check(service).await.unwrap().into_inner();
        assert_eq!(answer.status, 1, "{service}");
    }
    let unknown = check("three").await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::NotFound);

    // Who watches hears of the end, and does not hold it up.
    let mut client = HealthClient::new(channel.clone());
    let service = "one".to_owned();
    let watched = client.watch(HealthCheckRequest { service }).await.unwrap();
    let mut watched = watched.into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status, 1);
    let started = Instant::now();
    serving.stop().await;
    assert_eq!(watched.message().await.unwrap().unwrap().status, 2);
    assert!(watched.message().await.unwrap().is_none());
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_transport_can_be_shared_by_chains() {
    let folder = Folder::new();
    let serving = Serving::chain(&folder.socket("s"), End).await;
    let transport = transport(&serving.address);
    let connected = transport.connected();
    let chains = [(); 3].map(|()| {
        ServiceBuilder::new()
            .layer(nsm_chain::TraceLayer)
            .service(Connect::to(transport.clone()))
    });

    for chain in &chains {
        call(chain, request(connection("a"))).await.unwrap();
    }

    assert_eq!(connected.borrow().generation, 1);
}

#[tokio::test]
async fn a_next_hop_is_asked_for_whom_it_speaks() {
    let folder = Folder::new();
    let server = Server::new(BoxNetworkService::new(End)).service_names(["net", "nse-1"]);
    let serving = Serving::server(&folder.socket("s"), server).await;
    let transports = Transports::new(Duration::from_secs(1));
    let within = Duration::from_secs(5);
    let hop = NextHop(serving.address.clone());

    assert!(transports.serves(&hop, "nse-1", within).await.unwrap());
    assert!(!transports.serves(&hop, "nse-2", within).await.unwrap());

    serving.kill().await;
    let start = Instant::now();
    for nowhere in [hop, NextHop(folder.socket("nobody"))] {
        let error = transports.serves(&nowhere, "nse-1", within).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert!(start.elapsed() < within, "nobody is waited for");
}
