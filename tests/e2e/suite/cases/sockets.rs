//! The files of the programs' sockets: replaced, refused, removed, and nothing else of anybody's.

use e2e::{
    Caller, GatedEndpoint, Mesh, Process, RawPeer, Sent, Way, assert_status, first_request, until,
    while_served,
};
use libtest_mimic::Trial;
use nix::sys::signal::Signal::{SIGCONT, SIGSTOP, SIGTERM};
use nsm_chain::ErrorKind;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use tonic::Code;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        the_socket_of_a_program_that_was_killed_is_replaced,
        the_socket_of_a_live_program_is_refused_in_words_and_left_alone,
        of_two_programs_that_start_at_once_one_serves_and_the_other_says_why_not,
        a_program_that_ends_late_leaves_the_socket_of_its_successor,
        a_program_whose_socket_another_one_has_replaced_leaves_it_alone,
        what_stands_is_served_without_its_socket_files_and_they_come_back,
        a_restart_alone_makes_a_mesh_whole_whose_socket_files_are_gone,
        a_call_fails_once_at_most_while_the_forwarder_comes_and_goes_all_the_time,
    ]
}

/// Waits until a program answers at a socket.
#[track_caller]
pub fn until_it_answers(socket: &Path) {
    let peer = RawPeer::connect(socket);
    let status = peer.call(&Sent::bytes("/nobody/Knows", &[]));
    assert_status("an unknown method", &status, Code::Unimplemented, "");
}

/// Whether somebody listens at a socket.
fn listens(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// That a program ends by itself with status 1, and says why.
#[track_caller]
pub fn refuses(process: Process, words: &str) {
    process.until_logged(words, 1);
    assert_eq!(process.ended(), Some(1));
}

fn the_socket_of_a_program_that_was_killed_is_replaced() {
    let mesh = Mesh::new(1, 1);
    let [nse, forwarder] = ["nse-0", "forwarder"].map(|it| mesh.socket(it));
    let programs = [mesh.endpoint(0, &[]), mesh.forwarder(&[])];
    until_it_answers(&nse);
    until_it_answers(&forwarder);
    programs.into_iter().for_each(Process::kill);
    assert!(
        nse.exists() && forwarder.exists(),
        "nobody has removed them"
    );
    assert!(!listens(&nse) && !listens(&forwarder));

    let programs = [mesh.endpoint(0, &[]), mesh.forwarder(&[])];

    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    mesh.until_served(0);
    assert_eq!(nsc.stop(), Some(0));
    for program in programs {
        assert_eq!(program.stop(), Some(0));
    }
    assert!(
        !nse.exists() && !forwarder.exists(),
        "each has removed its own"
    );
}

fn the_socket_of_a_live_program_is_refused_in_words_and_left_alone() {
    let mesh = Mesh::new(1, 1);
    let sockets = ["nse-0", "forwarder"].map(|it| mesh.socket(it));
    let mut programs = [mesh.endpoint(0, &[]), mesh.forwarder(&[])];
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    let inodes = || {
        sockets
            .clone()
            .map(|it| fs::symlink_metadata(it).unwrap().ino())
    };
    let before = inodes();

    for second in [
        |mesh: &Mesh| mesh.endpoint(0, &[]),
        |mesh: &Mesh| mesh.forwarder(&[]),
    ] {
        refuses(
            second(&mesh),
            "another process listens there: stop it first",
        );
        // A live one that takes no connections at the moment is a live one.
        programs.iter().for_each(|it| it.signal(SIGSTOP));
        refuses(
            second(&mesh),
            "another process listens there: stop it first",
        );
        programs.iter().for_each(|it| it.signal(SIGCONT));
    }

    assert_eq!(inodes(), before);
    programs.iter_mut().for_each(Process::runs);
    mesh.until_served(0);
}

fn of_two_programs_that_start_at_once_one_serves_and_the_other_says_why_not() {
    let mesh = Mesh::new(1, 1);
    let socket = mesh.socket("forwarder");
    for round in 0..10 {
        // In every other round there is a stale one to be replaced.
        if round % 2 == 0 {
            drop(UnixListener::bind(&socket).unwrap());
        }
        let mut both = vec![mesh.forwarder(&[]), mesh.forwarder(&[])];
        let mut ended = None;
        until("one of them has ended", || {
            ended = both.iter_mut().position(|it| !it.is_running());
            ended.is_some()
        });
        let loser = both.remove(ended.unwrap());
        let mut winner = both.remove(0);

        refuses(loser, "another process listens there");
        until_it_answers(&socket);
        winner.runs();

        assert_eq!(winner.stop(), Some(0));
        assert!(!socket.exists());
    }
}

fn a_program_that_ends_late_leaves_the_socket_of_its_successor() {
    let mesh = Mesh::new(2, 1);
    let nse = GatedEndpoint::start(&mesh, 0, &[]);
    let socket = mesh.socket("forwarder");
    let old = mesh.forwarder(&[]);
    until_it_answers(&socket);
    nse.gate.requests(Way::Held);
    thread::scope(|scope| {
        let held = scope.spawn(|| {
            let request = first_request("raw-0", &mesh.pods[1]);
            RawPeer::connect(&socket).call(&Sent::request(&request).with(&mesh.pods[1]))
        });
        until("the call is at the endpoint", || {
            !nse.gate.seen().answers.is_empty()
        });

        old.signal(SIGTERM);
        until("the old one takes nobody any more", || !socket.exists());
        let _new = mesh.forwarder(&[]);
        until_it_answers(&socket);
        let inode = fs::symlink_metadata(&socket).unwrap().ino();
        nse.gate.requests(Way::Open);

        assert_eq!(old.ended(), Some(0));
        assert_status("the last call", &held.join().unwrap(), Code::Ok, "");
        assert_eq!(fs::symlink_metadata(&socket).unwrap().ino(), inode);
        let nsc = mesh.client(0, &[]);
        nsc.until_it_stands(1);
    });
}

fn a_program_whose_socket_another_one_has_replaced_leaves_it_alone() {
    let mesh = Mesh::new(1, 1);
    let socket = mesh.socket("forwarder");
    let old = mesh.forwarder(&[]);
    until_it_answers(&socket);
    // So that it does not make its file anew at once.
    old.signal(SIGSTOP);
    fs::remove_file(&socket).unwrap();
    let _new = mesh.forwarder(&[]);
    until_it_answers(&socket);
    let inode = fs::symlink_metadata(&socket).unwrap().ino();
    old.signal(SIGCONT);
    old.until_logged("another file has taken the place of the socket", 1);

    assert_eq!(old.stop(), Some(0));

    assert_eq!(fs::symlink_metadata(&socket).unwrap().ino(), inode);
    until_it_answers(&socket);
}

fn what_stands_is_served_without_its_socket_files_and_they_come_back() {
    let mesh = Mesh::new(2, 2);
    let _endpoints = mesh.endpoints();
    let _forwarder = mesh.forwarder(&[]);
    // It is refreshed while the files are away.
    let own = ["--network-services=net-0/nsm-0", "--max-token-lifetime=3s"];
    let nsc = mesh.client(0, &own);
    nsc.until_it_stands(1);
    let sockets = ["nse-0", "forwarder"].map(|it| mesh.socket(it));

    while_served(&mesh, 0, 0, || {
        for _ in 0..2 {
            for socket in &sockets {
                fs::remove_file(socket).unwrap();
            }
            until("both files are back", || {
                sockets.iter().all(|it| listens(it))
            });
        }
    });

    let other = mesh.client(1, &["--network-services=net-1/nsm-1"]);
    other.until_it_stands(1);
    assert_eq!(
        nsc.log().matches("the connection stands").count(),
        1,
        "it stood all the time"
    );
    assert_eq!(other.stop(), Some(0));
    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}

fn a_restart_alone_makes_a_mesh_whole_whose_socket_files_are_gone() {
    let mesh = Mesh::new(1, 1);
    let mut nse = mesh.endpoint(0, &[]);
    let mut forwarder = mesh.forwarder(&[]);
    let mut nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    let before = mesh.in_pod(0);

    // The file goes together with the one that would make it anew.
    forwarder.kill();
    fs::remove_file(mesh.socket("forwarder")).unwrap();
    forwarder = mesh.forwarder(&[]);
    nsc.until_it_stands(2);
    assert_eq!(mesh.in_pod(0), before);

    nse.kill();
    fs::remove_file(mesh.socket("nse-0")).unwrap();
    nse = mesh.endpoint(0, &[]);
    until_it_answers(&mesh.socket("nse-0"));
    forwarder.kill();
    forwarder = mesh.forwarder(&[]);
    nsc.until_it_stands(3);
    assert_eq!(mesh.in_pod(0), before);
    mesh.until_served(0);

    nsc.runs();
    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
    nse.runs();
    forwarder.runs();
}

fn a_call_fails_once_at_most_while_the_forwarder_comes_and_goes_all_the_time() {
    const EVERY: Duration = Duration::from_millis(500);
    let mesh = Mesh::new(1, 1);
    let _nse = mesh.endpoint(0, &[]);
    let mut forwarder = mesh.forwarder(&[]);
    let caller = Caller::new(&mesh.url("forwarder"), &[]);
    let mut request = caller.ask_for("1", &mesh.pods[0], "nsm-0");
    let over = AtomicBool::new(false);

    let (calls, failed) = thread::scope(|scope| {
        let calls = scope.spawn(|| {
            let (mut calls, mut failed) = (0, 0);
            while !over.load(Relaxed) {
                calls += 1;
                let mut answer = caller.request(request.clone());
                if let Err(error) = answer {
                    // Its forwarder was killed in the middle of it.
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", error.report());
                    failed += 1;
                    answer = caller.request(request.clone());
                }
                // The second attempt never fails.
                request.connection = Some(answer.unwrap());
                // Others need the processor, too.
                thread::sleep(Duration::from_millis(5));
            }
            (calls, failed)
        });
        for round in 0..8 {
            let start = Instant::now();
            // Killed and stopped by turns.
            if round % 2 == 0 {
                forwarder.kill();
            } else {
                assert_eq!(forwarder.stop(), Some(0));
            }
            forwarder = mesh.forwarder(&[]);
            // The rate is what the case is about.
            thread::sleep(EVERY.saturating_sub(start.elapsed()));
        }
        over.store(true, Relaxed);
        calls.join().unwrap()
    });

    assert!(calls > 8, "{calls} calls");
    assert!(failed <= 4, "{failed} of {calls} calls, for 4 kills");
    assert_eq!(mesh.in_pod(0).interfaces, ["nsm-0"]);
}
