//! Closes that fail behind the forwarder, and closes of what it does not remember.

use e2e::{Caller, GatedEndpoint, Mesh, Process, Way, free_addresses, until};
use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use nsm_chain::ErrorKind;
use nsm_netlink::Namespace;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_close_that_a_dead_endpoint_does_not_hear_takes_what_is_here_and_is_reported,
        a_close_that_a_frozen_endpoint_does_not_answer_takes_what_is_here_and_is_reported,
        a_close_that_an_endpoint_refuses_takes_the_rules_too_and_is_reported,
        fifty_closes_that_an_endpoint_refuses_take_what_is_here_and_are_reported,
        a_close_that_a_new_forwarder_does_not_remember_takes_both_ends,
        a_close_at_a_new_forwarder_takes_that_connection_and_no_other,
    ]
}

/// How long a forwarder stands for a connection, so that an endpoint lets it go in seconds.
const LIFE: &str = "--max-token-lifetime=5s";
/// How long a rule stays that a close names whose connection the forwarder does not know: it may be
/// another one's that is on its way.
const GRACE: &str = "--policy-route-grace=1s";
const POOL: &str = "--cidr-prefix=172.16.0.0/29,fd00:0::/125";

/// How an endpoint refuses a close, and what its client says of it.
const KINDS: [(ErrorKind, &str); 3] = [
    (
        ErrorKind::Unavailable,
        "gate: unavailable: the case wants it so",
    ),
    (
        ErrorKind::Internal,
        "gate: internal error: the case wants it so",
    ),
    (
        ErrorKind::PermissionDenied,
        "gate: permission denied: the case wants it so",
    ),
];

fn a_close_that_a_dead_endpoint_does_not_hear_takes_what_is_here_and_is_reported() {
    let mesh = Mesh::new(1, 1);
    let nse = mesh.endpoint(0, &[POOL]);
    let all = free_addresses(&mesh, 0);
    let forwarder = mesh.forwarder(&[LIFE]);
    let nsc = mesh.client(0, &["--request-timeout=3s"]);
    nsc.until_it_stands(1);
    assert!(mesh.holds_a_pod(&forwarder));

    nse.kill();
    is_reported(&nsc, "nse-0.sock is not reached");
    assert_eq!(nsc.ended(), Some(1));

    mesh.is_clean();
    until("the forwarder has forgotten it", || {
        !mesh.holds_a_pod(&forwarder)
    });
    let _nse = mesh.endpoint(0, &[POOL]);
    until("the endpoint listens", || mesh.socket("nse-0").exists());
    assert_eq!(free_addresses(&mesh, 0), all);
}

fn a_close_that_a_frozen_endpoint_does_not_answer_takes_what_is_here_and_is_reported() {
    let mesh = Mesh::new(1, 1);
    let nse = mesh.endpoint(0, &[POOL]);
    let all = free_addresses(&mesh, 0);
    let forwarder = mesh.forwarder(&[LIFE]);
    let nsc = mesh.client(0, &["--request-timeout=1s"]);
    nsc.until_it_stands(1);

    nse.signal(Signal::SIGSTOP);
    is_reported(&nsc, "deadline exceeded");
    assert_eq!(nsc.ended(), Some(1));

    mesh.is_clean();
    nse.signal(Signal::SIGCONT);
    until("the endpoint has let it go", || {
        free_addresses(&mesh, 0) == all
    });
    until("the forwarder has forgotten it", || {
        !mesh.holds_a_pod(&forwarder)
    });
}

fn a_close_that_an_endpoint_refuses_takes_the_rules_too_and_is_reported() {
    let mesh = Mesh::new(1, 1);
    let nse = GatedEndpoint::start(&mesh, 0, &[POOL]);
    let all = free_addresses(&mesh, 0);
    let _forwarder = mesh.forwarder(&[LIFE]);
    for (kind, words) in KINDS {
        let nsc = mesh.client(0, &["--request-timeout=2s"]);
        nsc.until_it_stands(1);
        assert_eq!(mesh.in_pod(0).rules.len(), 2);

        nse.gate.closes(Way::Refused(kind));
        is_reported(&nsc, words);
        assert_eq!(nsc.ended(), Some(1));

        mesh.is_clean();
        nse.gate.closes(Way::Open);
    }
    until("the endpoint has let them go", || {
        free_addresses(&mesh, 0) == all
    });
}

fn fifty_closes_that_an_endpoint_refuses_take_what_is_here_and_are_reported() {
    const EACH: usize = 17;

    let mesh = Mesh::new(1, 1);
    let pool = "--cidr-prefix=172.16.0.0/25,fd00:0::/121";
    // A policy is for one connection.
    let nse = GatedEndpoint::start(&mesh, 0, &[pool, "--pbr-config-path=/none"]);
    let all = free_addresses(&mesh, 0);
    let forwarder = mesh.forwarder(&["--max-token-lifetime=10s"]);
    let services = (0..EACH).map(|it| format!("net-0/nsm-{it}"));
    let services = services.collect::<Vec<_>>().join(",");
    let services = format!("--network-services={services}");
    for (kind, words) in KINDS {
        let name = format!("--name={kind:?}");
        let nsc = mesh.client(0, &[&services, &name, "--request-timeout=5s"]);
        nsc.until_it_stands(EACH);
        assert_eq!(mesh.in_network(0).interfaces.len(), EACH);

        nse.gate.closes(Way::Refused(kind));
        nsc.signal(Signal::SIGTERM);
        nsc.until_logged(words, EACH);
        nsc.until_logged("17 connections could not be closed", 1);
        assert_eq!(nsc.ended(), Some(1));

        mesh.is_clean();
        until("the forwarder has forgotten them", || {
            !mesh.holds_a_pod(&forwarder)
        });
        nse.gate.closes(Way::Open);
    }
    assert!(free_addresses(&mesh, 0).len() < all.len());
    until("the endpoint has let them go", || {
        free_addresses(&mesh, 0) == all
    });
}

fn a_close_that_a_new_forwarder_does_not_remember_takes_both_ends() {
    let mesh = Mesh::new(1, 2);
    let endpoints = mesh.endpoints();
    let forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(2);

    forwarder.kill();
    nsc.signal(Signal::SIGTERM);
    nsc.until_logged("stopping", 1);
    let forwarder = mesh.forwarder(&[GRACE]);

    assert_eq!(nsc.ended(), Some(0));
    assert_eq!(mesh.in_pod(0).interfaces, [""; 0]);
    mesh.until_clean();
    for endpoint in endpoints {
        endpoint.until_logged("connection closed", 1);
    }
    assert!(!forwarder.log().contains("connection established"));
}

fn a_close_at_a_new_forwarder_takes_that_connection_and_no_other() {
    let mesh = Mesh::new(2, 1);
    let _nse = mesh.endpoint(0, &[POOL]);
    let forwarder = mesh.forwarder(&[]);
    let caller = Caller::new(&mesh.url("forwarder"), &[]);
    let mut requests = [0, 1].map(|pod| caller.ask_for(["a", "b"][pod], &mesh.pods[pod], "nsm-0"));
    for request in &mut requests {
        request.connection = Some(caller.request(request.clone()).unwrap());
    }
    let [first, second] = requests;
    let before = mesh.in_pod(1);
    let index = || {
        let mut kernel = mesh.pods[1].open().unwrap();
        kernel.index_of("nsm-0").unwrap()
    };
    let stands = index();

    forwarder.kill();
    let _forwarder = mesh.forwarder(&[GRACE]);
    caller.close(first.connection.unwrap()).unwrap();

    assert_eq!(mesh.in_pod(0).interfaces, [""; 0]);
    until("its rules are gone", || mesh.in_pod(0).is_empty());
    assert_eq!(mesh.in_network(0).interfaces.len(), 1);
    assert_eq!(mesh.in_pod(1), before);
    let second = caller.request(second).unwrap();
    assert_eq!((mesh.in_pod(1), index()), (before, stands));
    caller.close(second).unwrap();
    mesh.is_clean();
    assert_eq!(free_addresses(&mesh, 0).len(), 4);
}

/// Asks a client to end, and waits until it has said why it cannot end well.
#[track_caller]
fn is_reported(nsc: &Process, words: &str) {
    nsc.signal(Signal::SIGTERM);
    nsc.until_logged(words, 1);
    nsc.until_logged("1 connections could not be closed", 1);
}
