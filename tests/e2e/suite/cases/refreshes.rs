//! Refreshes that fail, come late, and do not come any more.

use e2e::{GatedEndpoint, Mesh, Way, until, while_served};
use libtest_mimic::Trial;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        an_endpoint_that_answers_too_late_three_times_in_a_row_loses_no_packet_and_no_connection,
        ten_lives_of_a_token_pass_and_nobody_closes,
        a_client_that_does_not_ask_again_is_closed_once_when_its_token_ends,
    ]
}

fn an_endpoint_that_answers_too_late_three_times_in_a_row_loses_no_packet_and_no_connection() {
    let mesh = Mesh::new(1, 1);
    let nse = GatedEndpoint::start(&mesh, 0, &[]);
    let _forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &["--max-token-lifetime=15s", "--request-timeout=500ms"]);
    nsc.until_it_stands(1);
    mesh.until_served(0);
    let before = mesh.in_pod(0);

    while_served(&mesh, 0, 0, || {
        nse.gate.requests(Way::Held);
        nsc.until_logged("refresh failed", 3);
        nse.gate.requests(Way::Open);
        let answers = nse.gate.seen().answers.len();
        until("the next refresh succeeds", || {
            nse.gate.seen().answers.len() > answers + 1
        });
    });

    assert_eq!(nse.gate.seen().closes, 0);
    assert_eq!(mesh.in_pod(0), before);
    assert!(!nsc.log().contains("asking for"), "{}", nsc.log());
}

fn ten_lives_of_a_token_pass_and_nobody_closes() {
    let life = Duration::from_secs(3);
    let mesh = Mesh::new(1, 1);
    let nse = GatedEndpoint::start(&mesh, 0, &[]);
    let _forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &["--max-token-lifetime=3s", "--request-timeout=2s"]);
    nsc.until_it_stands(1);
    mesh.until_served(0);
    let before = mesh.in_pod(0);

    while_served(&mesh, 0, 0, || sleep(10 * life));

    assert_eq!(nse.gate.seen().closes, 0);
    assert!(nse.gate.seen().answers.len() > 20);
    assert_eq!(mesh.in_pod(0), before);
}

fn a_client_that_does_not_ask_again_is_closed_once_when_its_token_ends() {
    let mesh = Mesh::new(1, 1);
    let nse = GatedEndpoint::start(&mesh, 0, &[]);
    let forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &["--max-token-lifetime=3s", "--request-timeout=1s"]);
    nsc.until_it_stands(1);
    until("it has been refreshed", || {
        nse.gate.seen().answers.len() > 2
    });

    let gone = Instant::now();
    nsc.kill();
    mesh.until_clean();
    let stood = gone.elapsed();

    assert!(stood > Duration::from_millis(500), "{stood:?}");
    assert!(stood < Duration::from_secs(3), "{stood:?}");
    until("the endpoint is told", || nse.gate.seen().closes == 1);
    assert_eq!(forwarder.log().matches("nobody has asked").count(), 1);
}
