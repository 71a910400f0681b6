//! Namespaces that end while a connection is in them.

use crate::world::World;
use injection_suite::Place;
use nsm_chain::ErrorKind;
use std::time::{Duration, Instant};

crate::cases![
    a_refresh_of_a_dead_connection_fails_cleanly_and_makes_no_half_pair,
    a_close_after_the_endpoints_namespace_has_ended_is_well,
    a_request_without_the_clients_namespace_makes_nothing,
];

/// The kernel takes namespaces apart in its own time.
async fn until_gone(pod: &Place, name: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while pod.names().contains(&name.to_owned()) {
        assert!(
            Instant::now() < deadline,
            "{name} outlives the endpoint's namespace"
        );
        tokio::task::yield_now().await;
    }
}

async fn a_refresh_of_a_dead_connection_fails_cleanly_and_makes_no_half_pair() {
    let mut world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    // The endpoint's pod ends, and with it its namespace: nobody here holds it.
    world.far_end.change("nsc-0", |answer| answer.place = None);
    world.endpoint = Place::new();
    until_gone(&world.pod, "nsm-1").await;
    let quiet = world.quiet();

    let error = client.request(&world.forwarder).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    let report = error.report().to_string();
    assert!(report.contains("without its network namespace"), "{report}");
    quiet.was_kept(&world);

    // It comes back when the endpoint does.
    let place = world.endpoint.clone();
    world
        .far_end
        .change("nsc-0", |answer| answer.place = Some(place));
    client.request(&world.forwarder).await.unwrap();
    assert!(
        world
            .pod
            .talks_to("172.16.1.2", &world.endpoint, "172.16.1.1")
    );
}

async fn a_close_after_the_endpoints_namespace_has_ended_is_well() {
    let mut world = World::new();
    let client = world.connected("nsc-0", "nsm-1", 1).await;
    world.far_end.change("nsc-0", |answer| answer.place = None);
    world.endpoint = Place::new();
    until_gone(&world.pod, "nsm-1").await;

    client.close(&world.forwarder).await.unwrap();

    assert_eq!(world.forwarder.namespaces_held(), 0);
}

async fn a_request_without_the_clients_namespace_makes_nothing() {
    let world = World::new();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    client.netns = None;
    let quiet = world.quiet();

    let error = client.request(&world.forwarder).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    let report = error.report().to_string();
    assert!(
        report.contains("without the client's network namespace"),
        "{report}"
    );
    quiet.was_kept(&world);
}
