//! Programs that end in order.

use e2e::{Descriptor, Mesh, until};
use libtest_mimic::Trial;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_client_is_ready_from_its_last_connection_to_its_end,
        a_client_that_ends_leaves_the_pod_clean,
        a_forwarder_that_cleans_up_leaves_nothing,
        a_client_without_a_forwarder_ends_in_time_and_says_what_is_left,
    ]
}

fn a_client_is_ready_from_its_last_connection_to_its_end() {
    let mesh = Mesh::new(1, 2);
    let ready = mesh.file("ready");
    let _first = mesh.endpoint(0, &[]);
    let _forwarder = mesh.forwarder(&[]);
    let nsc = mesh.client(0, &[&format!("--ready-file={}", ready.display())]);
    nsc.until_it_stands(1);
    assert!(!ready.exists(), "the other one does not stand");

    let _second = mesh.endpoint(1, &[]);
    until("the client is ready", || ready.exists());

    assert_eq!(nsc.stop(), Some(0));
    assert!(!ready.exists());
    mesh.is_clean();
}

fn a_client_that_ends_leaves_the_pod_clean() {
    let mesh = Mesh::new(1, 1);
    let nse = mesh.endpoint(0, &[]);
    let (forwarder, nsc) = (mesh.forwarder(&[]), mesh.client(0, &[]));
    nsc.until_it_stands(1);
    let stands = mesh.in_pod(0);
    assert_eq!(stands.interfaces, ["nsm-0"]);
    let expected = [
        "10.9.0.9/32",
        "172.16.0.1/32",
        "2001:db8::9/128",
        "fd00::1/128",
    ];
    assert_eq!(stands.addresses_on("nsm-0"), expected);
    assert_eq!(stands.rules.len(), 2);
    mesh.until_served(0);

    assert_eq!(nsc.stop(), Some(0));

    mesh.is_clean();
    assert_eq!(forwarder.stop(), Some(0));
    assert_eq!(nse.stop(), Some(0));
}

fn a_forwarder_that_cleans_up_leaves_nothing() {
    let mesh = Mesh::new(2, 2);
    let endpoints = mesh.endpoints();
    let forwarder = mesh.forwarder(&["--close-on-exit"]);
    let clients = [0, 1].map(|pod| mesh.client(pod, &[]));
    for client in &clients {
        client.until_it_stands(2);
    }

    assert_eq!(forwarder.stop(), Some(0));

    mesh.is_clean();
    assert!(!mesh.socket("forwarder").exists());
    for process in clients.iter().chain(&endpoints) {
        let descriptors = process.descriptors();
        let netns = |it: &&Descriptor| it.target.to_string_lossy().starts_with("net:[");
        assert_eq!(descriptors.iter().find(netns), None, "{process:?}");
    }
}

fn a_client_without_a_forwarder_ends_in_time_and_says_what_is_left() {
    let mesh = Mesh::new(1, 1);
    let nsc = mesh.client(0, &["--request-timeout=1s"]);
    nsc.until_logged("forwarder.sock is not reached", 1);

    assert_eq!(nsc.stop(), Some(1));
}
