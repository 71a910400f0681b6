//! Descriptors of the programs: none passes on to another program, and without any left what stands
//! is served.

use e2e::{
    Caller, Mesh, Process, RawPeer, Sent, assert_status, first_request, until, while_served,
};
use libtest_mimic::Trial;
use nsm_grpc::Inode;
use nsm_netlink::Netns;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use tonic::Code;

/// What is told to whoever comes when there is no descriptor left.
const REFUSED: &str = "too many descriptors are open here for another connection";
/// A client with a connection to network 1 alone, which has no policies in common with network 0.
const NET_1: &str = "--network-services=net-1/nsm-1";
/// The same with network 0.
const NET_0: &str = "--network-services=net-0/nsm-0";

/// How long the tokens of [`STANDS`] live.
const LIFE: Duration = Duration::from_secs(3);
/// A client that is refreshed every second.
const STANDS: [&str; 3] = [NET_1, "--max-token-lifetime=3s", "--request-timeout=1s"];

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        no_descriptor_of_any_program_passes_on_to_what_it_might_execute,
        a_forwarder_without_descriptors_serves_what_stands_and_tells_others_why_not,
        an_endpoint_without_descriptors_serves_what_stands_and_tells_others_why_not,
        a_client_without_descriptors_keeps_its_connection_and_goes_on_when_it_has_some,
    ]
}

fn is_of(netns: &Netns) -> impl Fn(&e2e::Descriptor) -> bool {
    let ino = Inode::of(netns).unwrap().ino;
    let target = format!("net:[{ino}]");
    move |it| it.target == Path::new(&target)
}

fn no_descriptor_of_any_program_passes_on_to_what_it_might_execute() {
    let mesh = Mesh::new(2, 2);
    let (nse, other) = (mesh.endpoint(0, &[]), mesh.endpoint(1, &[]));
    let forwarder = mesh.forwarder(&["--policy-route=false"]);
    let nsc = mesh.client(0, &[NET_1, "--policy-route"]);
    nsc.until_it_stands(1);
    let caller = Caller::new(&mesh.url("forwarder"), &[]);
    let mut request = caller.ask_for("1", &mesh.pods[1], "nsm-0");
    request.connection = Some(caller.request(request.clone()).unwrap());
    // What the forwarder was sent is among them.
    for netns in &mesh.pods {
        let all = forwarder.descriptors();
        let targets: Vec<_> = all.iter().map(|it| &it.target).collect();
        assert!(all.iter().any(is_of(netns)), "{netns:?} in {targets:?}");
    }
    assert!(nsc.descriptors().iter().any(is_of(&mesh.pods[0])));

    // What whoever runs the suite has passed on to it is none of the programs'.
    let inherited = e2e::descriptors(std::process::id());
    // Also those that a request opens for a moment.
    let looked = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !looked.load(Relaxed) {
                caller.request(request.clone()).unwrap();
            }
        });
        let start = Instant::now();
        let mut looks = 0;
        let mut passes_on = Vec::new();
        while passes_on.is_empty() && (looks < 20 || start.elapsed() < Duration::from_millis(300)) {
            for process in [&nse, &other, &forwarder, &nsc] {
                let all = process.descriptors().into_iter();
                let own = all.filter(|it| it.number > 2 && !inherited.contains(it));
                passes_on.extend(own.filter(|it| !it.close_on_exec));
            }
            looks += 1;
        }
        looked.store(true, Relaxed);
        assert_eq!(passes_on, []);
    });
}

/// That a process does next to nothing for a while. One that turns in a loop works all the time.
#[track_caller]
fn is_idle(process: &Process) {
    const WHILE: Duration = Duration::from_millis(300);
    let before = process.cpu_time();
    thread::sleep(WHILE);
    let worked = process.cpu_time() - before;
    assert!(worked < WHILE / 3, "it worked {worked:?} of {WHILE:?}");
}

/// Takes a process its descriptors, while others come to it and a connection stands whose tokens end
/// sooner than that. Gives what is done meanwhile.
#[track_caller]
fn without_descriptors<T>(
    mesh: &Mesh,
    process: &Process,
    socket: &Path,
    meanwhile: impl FnOnce() -> T,
) -> T {
    let raw = first_request("raw-0", &mesh.pods[1]);
    let ask = |peer: &RawPeer| peer.call(&Sent::request(&raw).with(&mesh.pods[1]));
    let limit = process.take_descriptors();

    while_served(mesh, 0, 1, || {
        let start = Instant::now();
        let told = ask(&RawPeer::connect(socket));
        assert_status(
            "without descriptors",
            &told,
            Code::ResourceExhausted,
            REFUSED,
        );
        is_idle(process);
        // Those that say nothing are not left waiting, nor are those behind them.
        let silent = [(); 8].map(|()| std::os::unix::net::UnixStream::connect(socket).unwrap());
        let told = ask(&RawPeer::connect(socket));
        assert_status("behind others", &told, Code::ResourceExhausted, REFUSED);
        drop(silent);
        let done = meanwhile();
        while start.elapsed() < LIFE {
            is_idle(process);
        }

        process.give_descriptors(limit);
        let served = ask(&RawPeer::connect(socket));
        assert_status("with descriptors again", &served, Code::Ok, "");
        process.until_logged(
            "too many descriptors are open: new connections are refused",
            1,
        );
        process.until_logged("there are descriptors again", 1);
        done
    })
}

fn a_forwarder_without_descriptors_serves_what_stands_and_tells_others_why_not() {
    let mesh = Mesh::new(3, 2);
    let _endpoints = mesh.endpoints();
    let mut forwarder = mesh.forwarder(&[]);
    let good = mesh.client(0, &STANDS);
    good.until_it_stands(1);

    let socket = mesh.socket("forwarder");
    let other = without_descriptors(&mesh, &forwarder, &socket, || {
        let other = mesh.client(2, &[NET_0]);
        other.until_logged(REFUSED, 1);
        other
    });

    // Whoever has been told asks again with pauses, and comes by himself when there is room.
    let times = other.log().matches(REFUSED).count();
    assert!((2..=20).contains(&times), "told {times} times");
    other.until_it_stands(1);
    let stood = good.log().matches("the connection stands").count();
    assert_eq!(stood, 1, "it stood all the time");
    assert_eq!(good.stop(), Some(0));
    assert_eq!(other.stop(), Some(0));
    mesh.until_clean();
    forwarder.runs();
}

fn an_endpoint_without_descriptors_serves_what_stands_and_tells_others_why_not() {
    let mesh = Mesh::new(2, 2);
    // Both services at one endpoint, so that the raw peer's is asked for at the one that stands.
    let _forwarder = mesh.forwarder(&[]);
    let mut nse = mesh.endpoint(1, &["--service-names=net-1,net-0"]);
    let good = mesh.client(0, &STANDS);
    good.until_it_stands(1);

    without_descriptors(&mesh, &nse, &mesh.socket("nse-1"), || {});

    let stood = good.log().matches("the connection stands").count();
    assert_eq!(stood, 1, "it stood all the time");
    assert_eq!(good.stop(), Some(0));
    mesh.is_clean();
    nse.runs();
}

fn a_client_without_descriptors_keeps_its_connection_and_goes_on_when_it_has_some() {
    let mesh = Mesh::new(1, 2);
    let _endpoints = mesh.endpoints();
    let mut forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(
        0,
        &[NET_1, "--max-token-lifetime=4s", "--request-timeout=1s"],
    );
    nsc.until_it_stands(1);
    let before = mesh.in_pod(0);

    let stood = Instant::now();
    let limit = nsc.take_descriptors();
    while_served(&mesh, 0, 1, || {
        // It says why it cannot refresh, and tries again in time.
        nsc.until_logged("Too many open files", 1);
        is_idle(&nsc);
        nsc.give_descriptors(limit);
        let life_is_over = || stood.elapsed() > Duration::from_secs(5);
        until("the first token has ended", life_is_over);
    });
    assert_eq!(
        nsc.log().matches("the connection stands").count(),
        1,
        "it stood all the time"
    );

    // Without descriptors it reaches nobody anew, and waits.
    let limit = nsc.take_descriptors();
    forwarder.kill();
    forwarder = mesh.forwarder(&[]);
    RawPeer::connect(&mesh.socket("forwarder"));
    is_idle(&nsc);
    nsc.give_descriptors(limit);
    nsc.until_it_stands(2);
    assert_eq!(mesh.in_pod(0), before);
    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
    forwarder.runs();
}
