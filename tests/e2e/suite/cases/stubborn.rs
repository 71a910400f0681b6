//! Programs that end in their time, whoever is connected and does not let go.

use e2e::{Mesh, Process};
use libtest_mimic::Trial;
use nix::sys::signal::Signal::{SIGSTOP, SIGTERM};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long calls and peers are waited for at the end (`Server::drain_limit`), and a little more.
const DRAIN: Duration = Duration::from_secs(7);

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_forwarder_ends_in_time_with_peers_that_do_not_let_go,
        an_endpoint_ends_in_time_with_peers_that_do_not_let_go,
        a_client_whose_forwarder_is_frozen_ends_in_time_and_says_what_is_left,
        a_client_whose_forwarder_says_nothing_ends_in_time,
        a_second_signal_ends_each_program_at_once,
    ]
}

/// Peers that say nothing, or half of what they have to.
fn half_open(socket: &Path) -> Vec<UnixStream> {
    let words = ["", "PRI * HTT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0"];
    let peers = words.map(|words| {
        let mut peer = UnixStream::connect(socket).unwrap();
        peer.write_all(words.as_bytes()).unwrap();
        peer
    });
    peers.into()
}

/// Tells a program to end, and that it does so well and in time.
#[track_caller]
fn ends_within(process: Process, status: i32, limit: Duration) {
    let start = Instant::now();
    assert_eq!(process.stop(), Some(status));
    let took = start.elapsed();
    assert!(took < limit, "it took {took:?}");
}

fn a_forwarder_ends_in_time_with_peers_that_do_not_let_go() {
    let mesh = Mesh::new(1, 1);
    let (_nse, forwarder) = (mesh.endpoint(0, &[]), mesh.forwarder(&[]));
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    let socket = mesh.socket("forwarder");
    let _half_open = half_open(&socket);

    nsc.signal(SIGSTOP);

    ends_within(forwarder, 0, DRAIN);
    assert!(!socket.exists());
}

fn an_endpoint_ends_in_time_with_peers_that_do_not_let_go() {
    let mesh = Mesh::new(1, 1);
    let (nse, forwarder) = (mesh.endpoint(0, &[]), mesh.forwarder(&[]));
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    let socket = mesh.socket("nse-0");
    let _half_open = half_open(&socket);

    forwarder.signal(SIGSTOP);

    ends_within(nse, 0, DRAIN);
    assert!(!socket.exists());
}

fn a_client_whose_forwarder_is_frozen_ends_in_time_and_says_what_is_left() {
    let mesh = Mesh::new(1, 1);
    let (_nse, forwarder) = (mesh.endpoint(0, &[]), mesh.forwarder(&[]));
    let nsc = mesh.client(0, &["--request-timeout=1s"]);
    nsc.until_it_stands(1);

    forwarder.signal(SIGSTOP);

    let start = Instant::now();
    nsc.signal(SIGTERM);
    nsc.until_logged("1 connections could not be closed", 1);
    assert_eq!(nsc.ended(), Some(1));
    assert!(start.elapsed() < Duration::from_secs(3));
}

fn a_client_whose_forwarder_says_nothing_ends_in_time() {
    let mesh = Mesh::new(1, 1);
    let listener = std::os::unix::net::UnixListener::bind(mesh.socket("forwarder")).unwrap();
    let nsc = mesh.client(0, &["--request-timeout=1s", "--dial-timeout=200ms"]);
    // It has been taken, and is not answered.
    let _taken = listener.accept().unwrap();
    nsc.until_logged("has not answered within 200ms", 1);

    ends_within(nsc, 1, Duration::from_secs(3));
}

fn a_second_signal_ends_each_program_at_once() {
    let mesh = Mesh::new(1, 1);
    let (nse, forwarder) = (mesh.endpoint(0, &[]), mesh.forwarder(&[]));
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    let sockets = ["nse-0", "forwarder"].map(|it| mesh.socket(it));
    let _half_open = sockets.map(|it| half_open(&it));
    // So that each has somebody to wait for: the client for the forwarder, and it for the client.
    let frozen = mesh.client(0, &["--name=frozen"]);
    frozen.until_it_stands(1);
    frozen.signal(SIGSTOP);
    for process in [&nse, &forwarder] {
        process.signal(SIGTERM);
        process.until_logged("stopping; once more ends it at once", 1);
    }
    nsc.signal(SIGTERM);
    nsc.until_logged("stopping; once more ends it at once", 1);

    // The client first: it ends by itself when the forwarder, which it waits for, is gone.
    for process in [nsc, forwarder, nse] {
        let start = Instant::now();
        process.signal(SIGTERM);
        assert_eq!(process.ended(), Some(130));
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
