//! Endpoints, forwarders and clients that are gone, for a while or for good, and what becomes of a
//! connection that nobody asks for again by hand.

use e2e::{GatedEndpoint, Mesh, Process, Way, until, while_served, who_answers};
use libtest_mimic::Trial;
use nix::sys::signal::Signal::SIGSTOP;
use nsm_chain::ErrorKind;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Within this another endpoint serves.
const SOON: Duration = Duration::from_secs(5);
/// The client asks again by itself in minutes only.
const LONG: &str = "--max-token-lifetime=10m";
/// Nothing is felt: what is noticed is what is heard.
const DEAF: &str = "--liveness-check-enabled=false";

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        an_endpoint_that_is_killed_is_replaced_within_seconds_and_its_policies_follow,
        an_endpoint_whose_interfaces_go_with_it_is_replaced_as_well,
        the_next_endpoint_leaves_nothing_of_the_former_one,
        an_endpoint_that_is_back_under_its_name_has_its_clients_again_and_no_rule_is_touched,
        a_forwarder_that_is_killed_is_back_without_anything_being_felt,
        a_forwarder_and_an_endpoint_that_are_gone_together_cost_the_endpoint_only,
        a_forwarder_and_a_client_that_are_killed_at_once_find_the_connection,
        after_a_refresh_that_failed_the_end_of_an_endpoint_is_noticed_as_before,
        an_interface_that_somebody_deletes_is_made_again_though_everybody_is_there,
        a_client_that_heals_ends_in_time,
        a_client_that_was_killed_takes_over_what_stands,
    ]
}

/// A pod with one connection to service `net-0`, which both networks offer.
fn two_endpoints(mesh: &Mesh, more: &[&str]) -> ([Process; 2], Process, Process) {
    let nse = [
        mesh.endpoint(0, &[LONG]),
        mesh.endpoint(1, &["--service-names=net-0", LONG]),
    ];
    let forwarder = mesh.forwarder(&[&both(mesh), LONG]);
    let nsc = client(mesh, more);
    nsc.until_it_stands(1);
    (nse, forwarder, nsc)
}

/// The forwarder's map, in which service `net-0` has both endpoints.
fn both(mesh: &Mesh) -> String {
    let [first, second] = [0, 1].map(|it| mesh.url(&format!("nse-{it}")));
    format!("--endpoints=net-0={first},net-0={second}")
}

fn client(mesh: &Mesh, more: &[&str]) -> Process {
    let mut flags = vec!["--network-services=net-0/nsm-0"];
    if !more.iter().any(|it| it.starts_with("--max-token-lifetime")) {
        flags.push(LONG);
    }
    mesh.client(0, &[&flags, more].concat())
}

/// Which network serves the pod.
fn served_by(mesh: &Mesh) -> Option<usize> {
    [0, 1].into_iter().find(|network| {
        let right = Some(*network as u8);
        who_answers(&mesh.pods[0], *network) == [right; 2]
    })
}

fn an_endpoint_that_is_killed_is_replaced_within_seconds_and_its_policies_follow() {
    for more in [&[DEAF][..], &[]] {
        let mesh = Mesh::new(1, 2);
        let (nse, _forwarder, nsc) = two_endpoints(&mesh, more);
        let first = served_by(&mesh).unwrap();
        let mut nse = nse.map(Some);

        nse[first].take().unwrap().kill();
        let took = until("another endpoint serves", || {
            served_by(&mesh) == Some(1 - first)
        });

        assert!(took < SOON, "{took:?}");
        eprintln!("on another endpoint after {took:?}");
        assert_eq!(
            who_answers(&mesh.pods[0], first),
            [None; 2],
            "those policies are gone"
        );
        assert_eq!(nsc.stop(), Some(0));
        mesh.is_clean();
    }
}

fn an_endpoint_whose_interfaces_go_with_it_is_replaced_as_well() {
    let mesh = Mesh::new(1, 2);
    let (nse, _forwarder, nsc) = two_endpoints(&mesh, &[]);
    let first = served_by(&mesh).unwrap();
    let mut nse = nse.map(Some);

    mesh.delete_interfaces(0);
    nse[first].take().unwrap().kill();
    let took = until("another endpoint serves", || {
        served_by(&mesh) == Some(1 - first)
    });

    assert!(took < SOON, "{took:?}");
    drop(nsc);
}

fn the_next_endpoint_leaves_nothing_of_the_former_one() {
    for policy in ["strict", "polite"] {
        let ipam = format!("--ipam-policy={policy}");
        let mesh = Mesh::new(1, 2);
        let nse = [
            mesh.endpoint(0, &[LONG, &ipam]),
            mesh.endpoint(1, &["--service-names=net-0", LONG, &ipam]),
        ];
        let _forwarder = mesh.forwarder(&[&both(&mesh), LONG]);
        let _nsc = {
            let nsc = client(&mesh, &[DEAF]);
            nsc.until_it_stands(1);
            nsc
        };
        let first = served_by(&mesh).unwrap();
        let mut nse = nse.map(Some);

        nse[first].take().unwrap().kill();
        until("another endpoint serves", || {
            served_by(&mesh) == Some(1 - first)
        });

        let pod = mesh.in_pod(0);
        let texts = pod.addresses.iter().chain(&pod.routes);
        let former = [
            format!("172.16.{first}."),
            format!("fd00:{first}:"),
            format!("10.9.{first}."),
        ];
        let left: Vec<_> = texts
            .filter(|text| former.iter().any(|it| text.contains(it)))
            .collect();
        assert!(left.is_empty(), "{policy}: {left:?}");
        assert_eq!(pod.rules.len(), 2, "one in each family");
        assert_eq!(pod.interfaces, ["nsm-0"]);
        until("the former network has nothing", || {
            mesh.in_network(first).is_empty()
        });
    }
}

fn an_endpoint_that_is_back_under_its_name_has_its_clients_again_and_no_rule_is_touched() {
    let mesh = Mesh::new(1, 1);
    let nse = mesh.endpoint(0, &[LONG]);
    let _forwarder = mesh.forwarder(&[LONG]);
    let nsc = client(&mesh, &[]);
    nsc.until_it_stands(1);
    mesh.until_served(0);
    let before = mesh.in_pod(0);

    let _nse = while_served(&mesh, 0, 0, || {
        nse.kill();
        let nse = mesh.endpoint(0, &[LONG]);
        nsc.until_it_stands(2);
        nse
    });

    assert_eq!(mesh.in_pod(0), before);
    assert!(!nsc.log().contains("another endpoint"));
}

fn a_forwarder_that_is_killed_is_back_without_anything_being_felt() {
    let mesh = Mesh::new(1, 1);
    let _nse = mesh.endpoint(0, &[LONG]);
    let mut forwarder = mesh.forwarder(&[LONG]);
    let nsc = client(&mesh, &[DEAF]);
    nsc.until_it_stands(1);
    let before = mesh.in_pod(0);
    for times in 2..5 {
        forwarder.kill();
        mesh.delete_interfaces(0);
        forwarder = mesh.forwarder(&[LONG]);
        nsc.until_it_stands(times);

        let took = mesh.until_served(0);
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(mesh.in_pod(0), before);
    }
}

fn a_forwarder_and_an_endpoint_that_are_gone_together_cost_the_endpoint_only() {
    let mesh = Mesh::new(1, 2);
    let (nse, forwarder, nsc) = two_endpoints(&mesh, &[DEAF]);
    let first = served_by(&mesh).unwrap();
    let mut nse = nse.map(Some);

    forwarder.kill();
    nse[first].take().unwrap().kill();
    let _forwarder = mesh.forwarder(&[&both(&mesh), LONG]);
    let took = until("another endpoint serves", || {
        served_by(&mesh) == Some(1 - first)
    });

    assert!(took < SOON, "{took:?}");
    assert_eq!(nsc.stop(), Some(0));
    // The rules of the former endpoint, which the new forwarder has not seen alive, have a grace.
    assert!(mesh.in_pod(0).interfaces.is_empty());
    assert!(mesh.in_pod(0).routes.is_empty());
}

fn a_forwarder_and_a_client_that_are_killed_at_once_find_the_connection() {
    let mesh = Mesh::new(1, 2);
    let (_nse, forwarder, nsc) = two_endpoints(&mesh, &[DEAF]);
    let first = served_by(&mesh).unwrap();
    let before = mesh.in_pod(0);

    forwarder.kill();
    nsc.kill();
    let _forwarder = mesh.forwarder(&[&both(&mesh), LONG]);
    let nsc = client(&mesh, &[DEAF]);
    nsc.until_it_stands(1);
    until("the pod is served", || served_by(&mesh).is_some());

    // A new forwarder and a new client know of no endpoint: any may serve, by one interface. The rules
    // of the former one have a grace then.
    let now = mesh.in_pod(0);
    assert_eq!(now.interfaces, ["nsm-0"]);
    if served_by(&mesh) == Some(first) {
        assert_eq!(now, before);
    }
}

fn after_a_refresh_that_failed_the_end_of_an_endpoint_is_noticed_as_before() {
    let mesh = Mesh::new(1, 2);
    let gated = GatedEndpoint::start(&mesh, 0, &[LONG]);
    let _forwarder = mesh.forwarder(&[&both(&mesh), LONG]);
    // It is refreshed every other second, and a refresh fails.
    let nsc = client(&mesh, &[DEAF, "--max-token-lifetime=10s"]);
    nsc.until_it_stands(1);
    let _nse = mesh.endpoint(1, &["--service-names=net-0", LONG]);
    for kind in [ErrorKind::Unavailable, ErrorKind::DeadlineExceeded] {
        gated.gate.requests(Way::Refused(kind));
        let failed = nsc.log().matches("refresh failed").count();
        nsc.until_logged("refresh failed", failed + 1);
        gated.gate.requests(Way::Open);
        until("it is served", || served_by(&mesh) == Some(0));
    }

    drop(gated);
    let took = until("another endpoint serves", || served_by(&mesh) == Some(1));

    assert!(took < SOON, "{took:?}");
}

fn an_interface_that_somebody_deletes_is_made_again_though_everybody_is_there() {
    let mesh = Mesh::new(1, 1);
    let _nse = mesh.endpoint(0, &[LONG]);
    let _forwarder = mesh.forwarder(&[LONG]);
    let nsc = client(&mesh, &["--liveness-check-timeout=200ms"]);
    nsc.until_it_stands(1);
    mesh.until_served(0);
    let before = mesh.in_pod(0);
    for _ in 0..2 {
        // It is felt to be alive.
        while_served(&mesh, 0, 0, || sleep(Duration::from_secs(1)));
        mesh.delete_interfaces(0);
        let took = until("it is served again", || served_by(&mesh) == Some(0));

        assert!(took < SOON, "{took:?}");
        assert_eq!(mesh.in_pod(0), before);
    }
    assert!(
        !nsc.log().contains("another endpoint"),
        "asking again has helped"
    );
}

fn a_client_that_heals_ends_in_time() {
    let mesh = Mesh::new(1, 1);
    let nse = mesh.endpoint(0, &[LONG]);
    let _forwarder = mesh.forwarder(&[LONG, "--request-timeout=2s"]);
    let nsc = client(&mesh, &["--request-timeout=2s"]);
    nsc.until_it_stands(1);

    // It stands, and does not answer: the client cannot know whether it will.
    nse.signal(SIGSTOP);
    until("it heals", || nsc.log().contains("asking for it again"));
    let start = Instant::now();
    nsc.stop();

    assert!(
        start.elapsed() < Duration::from_secs(9),
        "{:?}",
        start.elapsed()
    );
    assert!(mesh.in_pod(0).is_empty());
}

fn a_client_that_was_killed_takes_over_what_stands() {
    let mesh = Mesh::new(1, 2);
    let (_nse, _forwarder, mut nsc) = two_endpoints(&mesh, &[DEAF]);
    let before = mesh.in_pod(0);
    let first = served_by(&mesh).unwrap();
    for _ in 0..3 {
        nsc = while_served(&mesh, 0, first, || {
            nsc.kill();
            let nsc = client(&mesh, &[DEAF]);
            nsc.until_it_stands(1);
            nsc
        });

        assert!(nsc.log().contains("taking over"));
        assert_eq!(mesh.in_pod(0), before);
    }
}
