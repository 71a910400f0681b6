//! Clients that are gone without a close: what they had ends with their tokens.

use e2e::{GatedEndpoint, Mesh, free_addresses, until};
use libtest_mimic::Trial;
use std::time::{Duration, Instant};

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        what_a_client_had_that_was_killed_is_gone_when_its_token_ends,
        what_a_client_had_is_gone_also_when_the_endpoint_is_away_and_the_endpoint_is_told_later,
        a_life_that_is_shorter_than_the_time_of_a_request_is_lived_to_its_end,
    ]
}

const POOL: &str = "--cidr-prefix=172.16.0.0/29,fd00:0::/125";

fn what_a_client_had_that_was_killed_is_gone_when_its_token_ends() {
    let mesh = Mesh::new(1, 1);
    let _nse = mesh.endpoint(0, &[POOL]);
    let all = free_addresses(&mesh, 0);
    let forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &["--max-token-lifetime=4s", "--request-timeout=1s"]);
    nsc.until_it_stands(1);
    let idle = forwarder.descriptors().len();

    let killed = Instant::now();
    nsc.kill();
    mesh.until_clean();

    assert!(killed.elapsed() < Duration::from_secs(4), "after its end");
    until("the endpoint has let it go", || {
        free_addresses(&mesh, 0) == all
    });
    assert!(forwarder.descriptors().len() < idle);
}

fn what_a_client_had_is_gone_also_when_the_endpoint_is_away_and_the_endpoint_is_told_later() {
    let mesh = Mesh::new(1, 1);
    let nse = mesh.endpoint(0, &[]);
    let forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &["--max-token-lifetime=3s", "--request-timeout=1s"]);
    nsc.until_it_stands(1);

    nsc.kill();
    nse.kill();
    mesh.until_clean();
    forwarder.until_logged("close failed", 1);
    let nse = mesh.endpoint(0, &[]);

    forwarder.until_logged("connection closed", 1);
    assert!(nse.log().contains("connection closed"));
    mesh.is_clean();
}

fn a_life_that_is_shorter_than_the_time_of_a_request_is_lived_to_its_end() {
    let mesh = Mesh::new(1, 1);
    let nse = GatedEndpoint::start(&mesh, 0, &[]);
    let _forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &["--max-token-lifetime=6s", "--request-timeout=15s"]);
    nsc.until_it_stands(1);
    let before = (mesh.in_pod(0), mesh.in_network(0));

    // Each after a fifth of a life.
    until("a life has passed", || nse.gate.seen().answers.len() >= 6);

    assert_eq!(nse.gate.seen().closes, 0);
    assert_eq!((mesh.in_pod(0), mesh.in_network(0)), before);
    mesh.until_served(0);
    nsc.kill();
    mesh.until_clean();
    until("the endpoint is told", || nse.gate.seen().closes == 1);
}
