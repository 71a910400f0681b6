//! Programs that are killed and start again, in every order.

use crate::trials;
use e2e::Mesh;
use libtest_mimic::Trial;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_client_that_was_killed_finds_its_connection_and_its_close_leaves_nothing,
        an_endpoint_that_was_killed_gives_the_same_addresses_again,
        all_three_that_were_killed_find_what_stands,
    ]
}

fn a_client_that_was_killed_finds_its_connection_and_its_close_leaves_nothing() {
    let mesh = Mesh::new(1, 1);
    let _nse = mesh.endpoint(0, &[]);
    let (_forwarder, nsc) = (mesh.forwarder(&[]), mesh.client(0, &[]));
    nsc.until_it_stands(1);
    let before = mesh.in_pod(0);

    nsc.kill();
    let nsc = mesh.client(0, &[]);
    nsc.until_it_stands(1);
    assert_eq!(mesh.in_pod(0), before);

    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}

fn an_endpoint_that_was_killed_gives_the_same_addresses_again() {
    let mesh = Mesh::new(1, 1);
    let nse = mesh.endpoint(0, &[]);
    let (forwarder, nsc) = (mesh.forwarder(&[]), mesh.client(0, &[]));
    nsc.until_it_stands(1);
    let before = mesh.in_pod(0);

    nse.kill();
    let _nse = mesh.endpoint(0, &[]);
    // Another forwarder, so that the client asks at once.
    forwarder.kill();
    let _forwarder = mesh.forwarder(&[]);
    nsc.until_it_stands(2);
    assert_eq!(mesh.in_pod(0), before);

    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}

fn all_three_that_were_killed_find_what_stands() {
    let mesh = Mesh::new(1, 1);
    let nse = mesh.endpoint(0, &[]);
    let (forwarder, nsc) = (mesh.forwarder(&[]), mesh.client(0, &[]));
    nsc.until_it_stands(1);
    let before = mesh.in_pod(0);

    nsc.kill();
    nse.kill();
    forwarder.kill();
    // The client first: it waits for those whom it needs.
    let nsc = mesh.client(0, &[]);
    let _forwarder = mesh.forwarder(&[]);
    let _nse = mesh.endpoint(0, &[]);
    nsc.until_it_stands(1);
    assert_eq!(mesh.in_pod(0), before);

    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}
