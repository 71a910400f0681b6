//! Pods that are deleted while their connections stand.

use e2e::{Caller, Mesh, Process, until};
use libtest_mimic::Trial;
use nix::unistd::dup2;
use nsm_netlink::{Namespace, Netns};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_pod_is_held_by_no_more_descriptors_however_often_its_connection_is_refreshed,
        a_pod_that_goes_without_a_close_is_held_no_longer_than_its_token_lives,
        a_pod_that_goes_under_another_forwarder_is_found_gone_and_gets_no_half_pair,
        two_hundred_clients_that_go_without_a_close_leave_no_descriptor,
    ]
}

/// How many descriptors of a process refer to a namespace.
fn holds(process: &Process, netns: &str) -> usize {
    let descriptors = process.descriptors();
    let of = descriptors
        .iter()
        .filter(|it| it.target.as_os_str() == netns);
    of.count()
}

fn a_pod_is_held_by_no_more_descriptors_however_often_its_connection_is_refreshed() {
    let mesh = Mesh::new(1, 1);
    let (nse, forwarder) = (mesh.endpoint(0, &[]), mesh.forwarder(&[]));
    let caller = Caller::new(&mesh.url("forwarder"), &[]);
    let mut request = caller.ask_for("1", &mesh.pods[0], "nsm-0");
    let pod = mesh.pods[0].id().to_string();

    for _ in 0..100 {
        request.connection = Some(caller.request(request.clone()).unwrap());
    }

    // The one that came, by which a later request may name it, and one to enter it by.
    let holds_two = || holds(&forwarder, &pod) == 2;
    until("the forwarder holds the pod twice", holds_two);
    assert_eq!(holds(&nse, &pod), 0, "it is nothing to the endpoint");
}

fn a_pod_that_goes_without_a_close_is_held_no_longer_than_its_token_lives() {
    let mut mesh = Mesh::new(1, 1);
    let (nse, forwarder) = (mesh.endpoint(0, &[]), mesh.forwarder(&[]));
    let nsc = mesh.client(0, &["--max-token-lifetime=2s"]);
    nsc.until_it_stands(1);
    let pod = mesh.pods[0].id().to_string();
    assert!(holds(&forwarder, &pod) > 0);

    nsc.kill();
    mesh.pods.clear();

    until("nobody holds the pod", || {
        [&forwarder, &nse].iter().all(|it| holds(it, &pod) == 0)
    });
    mesh.until_clean();
    forwarder.until_logged("nobody has asked for the connection again", 1);
}

fn a_pod_that_goes_under_another_forwarder_is_found_gone_and_gets_no_half_pair() {
    let mut mesh = Mesh::new(1, 1);
    let _nse = mesh.endpoint(0, &[]);
    let forwarder = mesh.forwarder(&[]);
    let caller = Caller::new(&mesh.url("forwarder"), &["--request-timeout=2s"]);
    let own = format!("/proc/self/fd/{}", mesh.pods[0].as_fd().as_raw_fd());
    let mut sent = OwnedFd::from(File::open(own).unwrap());
    let mut request = caller.ask_for("1", &sent, "nsm-0");
    request.connection = Some(caller.request(request.clone()).unwrap());

    // Those who hold the pod are the forwarder, the descriptor that is sent, and the mesh.
    forwarder.kill();
    let null = File::open("/dev/null").unwrap();
    dup2(&null, &mut sent).unwrap();
    mesh.pods.clear();
    until("the other half of the pair is gone", || {
        mesh.in_network(0).interfaces.is_empty()
    });
    let forwarder = mesh.forwarder(&[]);

    // The client does not know yet, and sends what is left in the place of the namespace.
    let error = caller.request(request.clone()).unwrap_err();

    let report = error.report().to_string();
    assert!(report.contains("the file is no namespace"), "{report}");
    let close = request.connection.take().unwrap();
    let closed = caller.close(close);
    assert!(closed.is_ok(), "{closed:?}");
    mesh.is_clean();
    let pins = |it: &Process| {
        let own = Netns::current().unwrap().id().to_string();
        let descriptors = it.descriptors();
        let netns = |it: &std::path::Path| it.to_string_lossy().starts_with("net:[");
        let others = descriptors.iter().filter(|it| netns(&it.target));
        others
            .filter(|it| it.target.as_os_str() != own.as_str())
            .count()
    };
    until("no namespace is held", || pins(&forwarder) == 0);
}

fn two_hundred_clients_that_go_without_a_close_leave_no_descriptor() {
    let mesh = Mesh::new(1, 1);
    let nse = mesh.endpoint(0, &["--pbr-config-path=/none"]);
    let forwarder = mesh.forwarder(&[]);
    let go_without_a_close = |ids: std::ops::Range<usize>| {
        for id in ids {
            let caller = Caller::new(&mesh.url("forwarder"), &["--max-token-lifetime=1s"]);
            let request = caller.ask_for(&format!("{id}"), &mesh.pods[0], &format!("nsm-{id}"));
            caller.request(request).unwrap();
        }
        mesh.until_clean();
    };
    go_without_a_close(0..20);
    let before = [&nse, &forwarder].map(|it| it.descriptors().len());

    go_without_a_close(20..220);

    for (process, before) in [&nse, &forwarder].into_iter().zip(before) {
        let as_before = || process.descriptors().len() <= before;
        until("no descriptor is left", as_before);
    }
}
