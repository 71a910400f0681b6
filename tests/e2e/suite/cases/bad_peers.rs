//! Peers that say what makes no sense, or nothing, or go in the middle: each is told precisely what
//! is wrong, nothing is left of it, and others are served.

use super::bad_calls::{Bad, Others, bad_everywhere, changed};
use e2e::{
    Mesh, Process, RawPeer, Sent, assert_status, first_request, free_addresses, until, while_served,
};
use libtest_mimic::Trial;
use nsm_netlink::Netns;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tonic::Code;

/// A pool of eight pairs of addresses.
const SMALL_POOL: &str = "--cidr-prefix=172.16.0.0/28,fd00:0::/124";
/// A client with a connection to network 1 alone, which has no policies in common with network 0.
const NET_1: &str = "--network-services=net-1/nsm-1";
/// What resident memory may grow by in hundreds of bad calls, in KiB.
const ROOM: u64 = 1024;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_forwarder_tells_each_bad_peer_what_is_wrong_and_keeps_nothing_of_it,
        an_endpoint_tells_each_bad_peer_what_is_wrong_and_keeps_nothing_of_it,
        a_forwarder_takes_what_is_named_and_closes_what_came_beside_it,
        peers_that_speak_no_http2_or_nothing_keep_nobody_from_being_served,
        clients_that_go_in_the_middle_of_a_request_leave_nothing,
        five_hundred_bad_calls_leave_memory_as_it_was,
    ]
}

/// What a case compares at its end.
#[derive(Debug)]
struct Before {
    descriptors: Vec<usize>,
    addresses: Vec<String>,
}

impl Before {
    fn of(mesh: &Mesh, programs: &[&Process]) -> Self {
        let addresses = free_addresses(mesh, 0);
        let descriptors = programs.iter().map(|it| it.descriptors().len());
        Self {
            descriptors: descriptors.collect(),
            addresses,
        }
    }

    /// That it is so again, and nothing stands in a pod.
    #[track_caller]
    fn is_again(&self, mesh: &Mesh, pod: usize, programs: &[&Process]) {
        assert!(mesh.in_pod(pod).is_empty(), "{:?}", mesh.in_pod(pod));
        // What was undone for want of time is undone behind the answer.
        until("all addresses are free that were", || {
            free_addresses(mesh, 0) == self.addresses
        });
        until("no more descriptors than before", || {
            let mut both = programs.iter().zip(&self.descriptors);
            both.all(|(now, before)| now.descriptors().len() <= *before)
        });
    }
}

/// Has a good request served and closed, so that everything has been used once.
#[track_caller]
fn served_and_closed(socket: &std::path::Path, pod: &Netns) {
    let peer = RawPeer::connect(socket);
    let request = first_request("raw-good", pod);
    let connection = peer.connection(&Sent::request(&request).with(pod));
    let closed = peer.call(&Sent::close(&connection).with(pod));
    assert_status("a close", &closed, Code::Ok, "");
}

/// Each of these is refused by the forwarder or the endpoint, over a connection of its own and again
/// over one that goes on, while another client is served.
fn each_is_refused(mesh: &Mesh, by: &str, bad: &[Bad<'_>]) {
    let (nse, forwarder) = (mesh.endpoint(0, &[SMALL_POOL]), mesh.forwarder(&[]));
    let good = mesh.client(0, &[]);
    good.until_it_stands(1);
    let (pod, socket) = (&mesh.pods[1], mesh.socket(by));
    served_and_closed(&socket, pod);
    let before = Before::of(mesh, &[&nse, &forwarder, &good]);

    while_served(mesh, 0, 0, || {
        for bad in bad {
            let peer = RawPeer::connect(&socket);
            bad.is_refused(&peer);
            bad.is_refused(&peer);
        }
    });

    before.is_again(mesh, 1, &[&nse, &forwarder, &good]);
    served_and_closed(&socket, pod);
    assert_eq!(good.stop(), Some(0));
    mesh.is_clean();
}

fn a_forwarder_tells_each_bad_peer_what_is_wrong_and_keeps_nothing_of_it() {
    let mesh = Mesh::new(2, 1);
    let (pod, others) = (&mesh.pods[1], Others::new(&mesh));

    let mut bad = bad_everywhere(pod);
    bad.extend(others.bad(pod));

    each_is_refused(&mesh, "forwarder", &bad);
}

fn an_endpoint_tells_each_bad_peer_what_is_wrong_and_keeps_nothing_of_it() {
    let mesh = Mesh::new(2, 1);
    let pod = &mesh.pods[1];
    let payload = changed(pod, |request| {
        "IP".clone_into(&mut request.connection.as_mut().unwrap().payload);
    });

    let mut bad = bad_everywhere(pod);
    bad.push(Bad::new(
        "payload",
        payload.with(pod),
        Code::InvalidArgument,
        "payload \"IP\" is not carried here",
    ));

    each_is_refused(&mesh, "nse-0", &bad);
}

fn a_forwarder_takes_what_is_named_and_closes_what_came_beside_it() {
    let mesh = Mesh::new(2, 1);
    let (nse, forwarder) = (mesh.endpoint(0, &[SMALL_POOL]), mesh.forwarder(&[]));
    let (pod, socket) = (&mesh.pods[0], mesh.socket("forwarder"));
    served_and_closed(&socket, pod);
    let before = Before::of(&mesh, &[&nse, &forwarder]);
    let pods = &mesh.pods;
    let (named, unnamed) = (format!("net:[{}]", ino(pod)), ino(&pods[1]));
    let holds = |ino: &str| {
        let targets = forwarder.descriptors().into_iter();
        targets
            .filter(|it| it.target.to_string_lossy().contains(ino))
            .count()
    };

    let peer = RawPeer::connect(&socket);
    let request = first_request("raw-0", pod);
    let sent = Sent::request(&request).with(&pods[1]).with(pod);
    assert_status("two of which one is named", &peer.call(&sent), Code::Ok, "");
    assert_eq!(mesh.in_pod(0).interfaces, ["raw"]);
    assert!(holds(&named) > 0);
    assert!(mesh.in_pod(1).is_empty());

    // What nobody has named goes with the connection that it came over.
    drop(peer);
    until("the other one is closed", || holds(&unnamed) == 0);
    assert!(holds(&named) > 0);

    // And the connection with the token of a client that does not come back.
    mesh.until_clean();
    before.is_again(&mesh, 1, &[&nse, &forwarder]);
}

fn ino(netns: &Netns) -> String {
    nsm_grpc::Inode::of(netns).unwrap().ino.to_string()
}

fn peers_that_speak_no_http2_or_nothing_keep_nobody_from_being_served() {
    let mesh = Mesh::new(2, 2);
    let (nse, forwarder) = (mesh.endpoint(0, &[SMALL_POOL]), mesh.forwarder(&[]));
    let _other = mesh.endpoint(1, &[]);
    let good = mesh.client(0, &[NET_1]);
    good.until_it_stands(1);
    let sockets = ["forwarder", "nse-0"].map(|it| mesh.socket(it));
    for socket in &sockets {
        served_and_closed(socket, &mesh.pods[1]);
    }
    let before = Before::of(&mesh, &[&nse, &forwarder, &good]);

    while_served(&mesh, 0, 1, || {
        for socket in &sockets {
            let connect = || UnixStream::connect(socket).unwrap();
            let mut silent = Vec::new();
            for words in ["", "PRI * HTT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
                let mut peer = connect();
                peer.write_all(words.as_bytes()).unwrap();
                silent.push(peer);
            }
            for garbage in [
                &b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"[..],
                &[0; 64],
                &[0xff; 4096],
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand then something else",
            ] {
                let mut peer = connect();
                peer.write_all(garbage).unwrap();
                // Closed or reset, and not left waiting.
                peer.set_read_timeout(Some(Duration::from_secs(10)))
                    .unwrap();
                let ended = peer.read_to_end(&mut Vec::new());
                let kind = ended.err().map(|it| it.kind());
                assert_ne!(kind, Some(std::io::ErrorKind::WouldBlock), "{garbage:?}");
            }
            // Others are served beside those that say nothing.
            served_and_closed(socket, &mesh.pods[1]);
            drop(silent);
        }
    });

    before.is_again(&mesh, 1, &[&nse, &forwarder, &good]);
}

fn clients_that_go_in_the_middle_of_a_request_leave_nothing() {
    let mesh = Mesh::new(2, 2);
    let (nse, forwarder) = (mesh.endpoint(0, &[SMALL_POOL]), mesh.forwarder(&[]));
    let _other = mesh.endpoint(1, &[]);
    let good = mesh.client(0, &[NET_1]);
    good.until_it_stands(1);
    let (pod, socket) = (&mesh.pods[1], mesh.socket("forwarder"));
    served_and_closed(&socket, pod);
    let before = Before::of(&mesh, &[&nse, &forwarder, &good]);

    while_served(&mesh, 0, 1, || {
        for round in 0..200 {
            // As many as the pool has room for, so that each comes back in the middle of its own work.
            let request = first_request(&format!("raw-{}", round % 4), pod);
            let mut sent = Sent::request(&request);
            // Some are cut between the descriptor and the message.
            let with_body = fastrand::u8(..) < 224;
            if fastrand::u8(..) < 224 {
                sent = sent.with(pod);
            }
            let after = Duration::from_micros(fastrand::u64(0..20_000));
            RawPeer::connect(&socket).call_and_go(&sent, with_body, after);
        }
    });

    // Each that was begun with is closed with its token.
    until("nothing stands in the pod", || mesh.in_pod(1).is_empty());
    before.is_again(&mesh, 1, &[&nse, &forwarder, &good]);
    served_and_closed(&socket, pod);
    assert_eq!(good.stop(), Some(0));
    mesh.is_clean();
}

fn five_hundred_bad_calls_leave_memory_as_it_was() {
    let mesh = Mesh::new(2, 1);
    let (nse, forwarder) = (mesh.endpoint(0, &[SMALL_POOL]), mesh.forwarder(&[]));
    let good = mesh.client(0, &[]);
    good.until_it_stands(1);
    let pod = &mesh.pods[1];
    let others = Others::new(&mesh);
    let quick = |bad: &Bad<'_>| bad.what != "never sent";
    let at_both: Vec<_> = bad_everywhere(pod).into_iter().filter(quick).collect();
    let of_a_forwarder = others.bad(pod);
    let ask = |rounds| {
        for (socket, more) in [("forwarder", &of_a_forwarder[..]), ("nse-0", &[])] {
            let socket = mesh.socket(socket);
            for bad in at_both.iter().chain(more).cycle().take(rounds) {
                bad.is_refused(&RawPeer::connect(&socket));
            }
        }
    };
    ask(100);
    let before = Before::of(&mesh, &[&nse, &forwarder, &good]);
    let resident = [&nse, &forwarder].map(Process::resident_kib);

    ask(250);

    before.is_again(&mesh, 1, &[&nse, &forwarder, &good]);
    for (process, before) in [&nse, &forwarder].into_iter().zip(resident) {
        let now = process.resident_kib();
        assert!(now <= before + ROOM, "{before} KiB before, {now} KiB now");
    }
}
