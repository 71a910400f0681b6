//! A forwarder that dies, or is too slow, between an endpoint's answer and its client.

use e2e::{Caller, GatedEndpoint, Mesh, Way, free_addresses, until};
use fastrand::Rng;
use libtest_mimic::Trial;
use nsm_chain::ErrorKind;
use std::thread::{self, sleep};
use std::time::Instant;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_client_whose_answer_was_lost_gets_the_same_addresses_and_the_endpoint_holds_one_pair,
        a_forwarder_that_dies_at_any_instant_of_a_request_costs_no_address,
        answers_that_come_too_late_hold_nothing_for_long,
        a_refresh_that_is_answered_too_late_takes_nothing_from_what_stands,
    ]
}

/// Room for four clients.
const POOL: &str = "--cidr-prefix=172.16.0.0/29,fd00:0::/125";
const ADDRESSES: [&str; 4] = [
    "172.16.0.1/32",
    "172.16.0.3/32",
    "172.16.0.5/32",
    "172.16.0.7/32",
];

fn a_client_whose_answer_was_lost_gets_the_same_addresses_and_the_endpoint_holds_one_pair() {
    let mesh = Mesh::new(1, 1);
    let nse = GatedEndpoint::start(&mesh, 0, &[POOL]);
    nse.gate.requests(Way::Held);
    let forwarder = mesh.forwarder(&["--max-token-lifetime=4s"]);
    let nsc = mesh.client(0, &["--request-timeout=2s"]);
    until("the endpoint has answered", || {
        nse.gate.seen().answers.len() == 1
    });

    forwarder.kill();
    nse.gate.requests(Way::Open);
    mesh.is_clean();
    let _forwarder = mesh.forwarder(&[]);
    nsc.until_it_stands(1);

    let answers = nse.gate.seen().answers;
    let addresses = answers.iter().map(|it| it.src_ip_addrs());
    assert_eq!(
        addresses.collect::<Vec<_>>(),
        [answers[0].src_ip_addrs(); 2]
    );
    let ids = [0, 1].map(|it| &answers[it].path.as_ref().unwrap().path_segments[1].id);
    assert_ne!(ids[0], ids[1], "the forwarder has forgotten its own id");
    mesh.is_as_told(&[(0, &nsc)]);
    assert_eq!(free_addresses(&mesh, 0), ADDRESSES[1..]);

    // What the first answer stood for ends with the first forwarder's token, before this one does
    // that is made now for as long, and takes nothing along.
    let brief = ["--max-token-lifetime=4s", "--request-timeout=2s"];
    let caller = Caller::new(&mesh.url("nse-0"), &brief);
    let marker = caller.ask_for("marker", &mesh.pods[0], "marker");
    caller.request(marker).unwrap();
    drop(caller);
    assert_eq!(free_addresses(&mesh, 0), ADDRESSES[2..]);
    until("tokens have ended", || {
        free_addresses(&mesh, 0) == ADDRESSES[1..]
    });
    mesh.until_served(0);
    mesh.is_as_told(&[(0, &nsc)]);

    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
    assert_eq!(free_addresses(&mesh, 0), ADDRESSES);
}

fn a_forwarder_that_dies_at_any_instant_of_a_request_costs_no_address() {
    const SEED: u64 = 1451;

    let mesh = Mesh::new(1, 1);
    let nse = mesh.endpoint(0, &[POOL]);
    let mut forwarder = mesh.forwarder(&[]);
    // From its start to its connection a client takes about so long.
    let start = Instant::now();
    let first = mesh.client(0, &[]);
    first.until_it_stands(1);
    let longest = start.elapsed();
    assert_eq!(first.stop(), Some(0));
    let mut random = Rng::with_seed(SEED);
    for _ in 0..20 {
        let nsc = mesh.client(0, &[]);
        sleep(longest.mul_f64(random.f64()));
        forwarder.kill();
        forwarder = mesh.forwarder(&[]);
        forwarder.until_logged("connection established", 1);
        nsc.until_it_stands(1);

        mesh.is_as_told(&[(0, &nsc)]);
        assert_eq!(nsc.told_addresses("nsm-0")[1], ADDRESSES[0]);
        assert_eq!(nsc.stop(), Some(0));
        mesh.is_clean();
        assert_eq!(free_addresses(&mesh, 0), ADDRESSES);
    }
    assert_eq!(nse.stop(), Some(0));
}

fn answers_that_come_too_late_hold_nothing_for_long() {
    let mesh = Mesh::new(1, 1);
    let pool = "--cidr-prefix=172.16.0.0/27,fd00:0::/123";
    let nse = GatedEndpoint::start(&mesh, 0, &[pool]);
    let _forwarder = mesh.forwarder(&["--max-token-lifetime=6s"]);
    let all = free_addresses(&mesh, 0);
    assert_eq!(all.len(), 16);
    nse.gate.requests(Way::Held);
    let caller = Caller::new(&mesh.url("forwarder"), &["--request-timeout=300ms"]);
    let ids: Vec<_> = (0..50).collect();
    for ids in ids.chunks(10) {
        thread::scope(|scope| {
            for id in ids {
                let (caller, pod) = (&caller, &mesh.pods[0]);
                scope.spawn(move || {
                    let request = caller.ask_for(&format!("late-{id}"), pod, "late");
                    caller.request(request).unwrap_err();
                });
            }
        });
        mesh.is_clean();
    }
    assert!(
        nse.gate.seen().answers.len() >= all.len(),
        "the pool was used up"
    );

    nse.gate.requests(Way::Open);
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    mesh.is_as_told(&[(0, &nsc)]);
    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
    until("tokens have ended", || free_addresses(&mesh, 0) == all);
}

fn a_refresh_that_is_answered_too_late_takes_nothing_from_what_stands() {
    let mesh = Mesh::new(1, 1);
    let nse = GatedEndpoint::start(&mesh, 0, &[POOL]);
    let _forwarder = mesh.forwarder(&[]);
    let caller = Caller::new(&mesh.url("forwarder"), &[]);
    let hasty = Caller::new(&mesh.url("forwarder"), &["--request-timeout=500ms"]);
    let mut request = caller.ask_for("nsc", &mesh.pods[0], "nsm-0");
    let connection = caller.request(request.clone()).unwrap();
    request.connection = Some(connection.clone());
    let before = (mesh.in_pod(0), mesh.in_network(0));

    nse.gate.requests(Way::Held);
    for _ in 0..3 {
        let late = hasty.request(request.clone()).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
        assert_eq!((mesh.in_pod(0), mesh.in_network(0)), before);
    }
    nse.gate.requests(Way::Open);
    mesh.until_served(0);
    let again = caller.request(request).unwrap();

    assert_eq!(again.src_ip_addrs(), connection.src_ip_addrs());
    assert_eq!((mesh.in_pod(0), mesh.in_network(0)), before);
    assert_eq!(nse.gate.seen().closes, 0);
    caller.close(again).unwrap();
    mesh.is_clean();
    assert_eq!(free_addresses(&mesh, 0), ADDRESSES);
}
