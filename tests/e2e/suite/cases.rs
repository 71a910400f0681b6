//! The behaviours.

use e2e::Mesh;
use libtest_mimic::{Failed, Trial};

/// All cases.
pub fn all() -> Vec<Trial> {
    let cases: [(&str, fn()); 6] = [
        (
            "a_client_that_ends_leaves_the_pod_clean",
            a_client_that_ends_leaves_the_pod_clean,
        ),
        (
            "a_client_that_was_killed_finds_its_connection_and_its_close_leaves_nothing",
            a_client_that_was_killed_finds_its_connection_and_its_close_leaves_nothing,
        ),
        (
            "an_endpoint_that_was_killed_gives_the_same_addresses_again",
            an_endpoint_that_was_killed_gives_the_same_addresses_again,
        ),
        (
            "all_three_that_were_killed_find_what_stands",
            all_three_that_were_killed_find_what_stands,
        ),
        (
            "a_forwarder_that_cleans_up_leaves_nothing",
            a_forwarder_that_cleans_up_leaves_nothing,
        ),
        (
            "a_client_without_a_forwarder_ends_in_time_and_says_what_is_left",
            a_client_without_a_forwarder_ends_in_time_and_says_what_is_left,
        ),
    ];
    let trial = |(name, case): (&str, fn())| {
        Trial::test(name, move || -> Result<(), Failed> {
            case();
            Ok(())
        })
    };
    cases.into_iter().map(trial).collect()
}

fn a_client_that_ends_leaves_the_pod_clean() {
    let mesh = Mesh::new();
    let (nse, forwarder, nsc) = (mesh.endpoint(), mesh.forwarder(&[]), mesh.client(&[]));
    mesh.until_it_stands(&nsc, 1);
    let (names, addresses, rules) = mesh.standing();
    assert_eq!(names, ["nsm-0"]);
    let expected = [
        "10.9.9.9/32",
        "172.16.1.1/32",
        "2001:db8::9/128",
        "fd00:1::1/128",
    ];
    assert_eq!(addresses, expected);
    assert_eq!(rules.len(), 2);

    assert_eq!(nsc.stop(), Some(0));

    mesh.is_clean();
    assert_eq!(forwarder.stop(), Some(0));
    assert_eq!(nse.stop(), Some(0));
}

fn a_client_that_was_killed_finds_its_connection_and_its_close_leaves_nothing() {
    let mesh = Mesh::new();
    let (_nse, _forwarder, nsc) = (mesh.endpoint(), mesh.forwarder(&[]), mesh.client(&[]));
    mesh.until_it_stands(&nsc, 1);
    let before = mesh.standing();

    nsc.kill();
    let nsc = mesh.client(&[]);
    mesh.until_it_stands(&nsc, 1);
    assert_eq!(mesh.standing(), before);

    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}

fn an_endpoint_that_was_killed_gives_the_same_addresses_again() {
    let mesh = Mesh::new();
    let (nse, forwarder, nsc) = (mesh.endpoint(), mesh.forwarder(&[]), mesh.client(&[]));
    mesh.until_it_stands(&nsc, 1);
    let before = mesh.standing();

    nse.kill();
    let _nse = mesh.endpoint();
    // Another forwarder, so that the client asks at once.
    forwarder.kill();
    let _forwarder = mesh.forwarder(&[]);
    mesh.until_it_stands(&nsc, 2);
    assert_eq!(mesh.standing(), before);

    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}

fn all_three_that_were_killed_find_what_stands() {
    let mesh = Mesh::new();
    let (nse, forwarder, nsc) = (mesh.endpoint(), mesh.forwarder(&[]), mesh.client(&[]));
    mesh.until_it_stands(&nsc, 1);
    let before = mesh.standing();

    nsc.kill();
    nse.kill();
    forwarder.kill();
    // The client first: it waits for those whom it needs.
    let nsc = mesh.client(&[]);
    let _forwarder = mesh.forwarder(&[]);
    let _nse = mesh.endpoint();
    mesh.until_it_stands(&nsc, 1);
    assert_eq!(mesh.standing(), before);

    assert_eq!(nsc.stop(), Some(0));
    mesh.is_clean();
}

fn a_forwarder_that_cleans_up_leaves_nothing() {
    let mesh = Mesh::new();
    let _nse = mesh.endpoint();
    let forwarder = mesh.forwarder(&["--close-on-exit"]);
    let nsc = mesh.client(&[]);
    mesh.until_it_stands(&nsc, 1);

    assert_eq!(forwarder.stop(), Some(0));

    mesh.is_clean();
}

fn a_client_without_a_forwarder_ends_in_time_and_says_what_is_left() {
    let mesh = Mesh::new();
    let nsc = mesh.client(&["--request-timeout=1s"]);
    nsc.until_logged("forwarder.sock is not reached", 1);

    assert_eq!(nsc.stop(), Some(1));
}
