//! Close: all goes, whatever else fails, and what has gone already is well.

use crate::world::{World, policy};
use injection_suite::Place;

crate::cases![
    a_close_leaves_nothing_in_either_namespace,
    a_close_that_fails_below_removes_what_is_here_and_reports_the_error,
    a_close_acts_where_the_connection_is_and_not_where_it_points,
    a_close_needs_no_namespace,
    a_close_of_what_has_gone_already_is_well,
    a_close_that_a_new_forwarder_gets_finds_what_the_old_one_made,
    a_close_takes_no_other_connections_interface,
    a_namespace_is_held_no_longer_than_its_connections,
    hundreds_of_refreshes_and_reconnects_leave_no_descriptor,
];

async fn a_close_leaves_nothing_in_either_namespace() {
    let world = World::new();
    world.pod.plug_eth0();
    let before = world.snapshot();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world.change_ip("nsc-0", |ip| ip.policies = vec![policy("172.16.1.2/32")]);
    client.request(&world.forwarder).await.unwrap();

    client.close(&world.forwarder).await.unwrap();

    assert_eq!(world.snapshot(), before);
}

async fn a_close_that_fails_below_removes_what_is_here_and_reports_the_error() {
    let world = World::new();
    let before = world.snapshot();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world.change_ip("nsc-0", |ip| ip.policies = vec![policy("172.16.1.2/32")]);
    client.request(&world.forwarder).await.unwrap();
    world.far_end.be_down(true);

    let error = client.close(&world.forwarder).await.unwrap_err();

    assert!(error.report().to_string().contains("it is down"));
    assert_eq!(world.snapshot(), before);
    assert_eq!(world.forwarder.namespaces_held(), 0);
    assert_eq!(world.forwarder.connections(), 0);
}

async fn a_close_acts_where_the_connection_is_and_not_where_it_points() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let other = Place::new();
    client.move_to(&other);

    client.close(&world.forwarder).await.unwrap();

    assert!(world.pod.names().is_empty() && world.endpoint.names().is_empty());
}

async fn a_close_needs_no_namespace() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    client.netns = None;

    client.close(&world.forwarder).await.unwrap();

    assert!(world.pod.names().is_empty());
}

async fn a_close_of_what_has_gone_already_is_well() {
    let mut world = World::new();
    let client = world.connected("nsc-0", "nsm-1", 1).await;
    let index = world.pod.interface("nsm-1").index;
    world.pod.kernel().delete_link(index).unwrap();

    client.close(&world.forwarder).await.unwrap();
    client.close(&world.forwarder).await.unwrap();
    world.restart();
    client.close(&world.forwarder).await.unwrap();

    // And where nobody says which namespace, there is nothing to do.
    let mut lost = client.clone();
    lost.netns = None;
    lost.close(&world.forwarder).await.unwrap();
}

async fn a_close_that_a_new_forwarder_gets_finds_what_the_old_one_made() {
    let mut world = World::new();
    world.pod.plug_eth0();
    let before = world.snapshot();
    let client = world.connected("nsc-0", "nsm-1", 1).await;
    world.restart();

    client.close(&world.forwarder).await.unwrap();

    assert_eq!(world.snapshot(), before);
    assert_eq!(world.forwarder.namespaces_held(), 0);
}

async fn a_close_takes_no_other_connections_interface() {
    let mut world = World::new();
    let a = world.connected("nsc-0", "nsm-0", 1).await;
    let b = world.connected("nsc-1", "nsm-1", 2).await;

    a.close(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.names(), ["nsm-1"]);
    world.restart();
    a.close(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.names(), ["nsm-1"]);
    assert!(
        world
            .pod
            .talks_to("172.16.2.2", &world.endpoint, "172.16.2.1")
    );

    b.close(&world.forwarder).await.unwrap();
    assert!(world.pod.names().is_empty());
}

async fn a_namespace_is_held_no_longer_than_its_connections() {
    let world = World::new();
    let mut clients = [
        world.client("nsc-0", "nsm-0", 1),
        world.client("nsc-1", "nsm-1", 2),
    ];
    let without = world.pod.others_holding();
    for client in &mut clients {
        client.request(&world.forwarder).await.unwrap();
        // The clients of a process are gone after the call.
        client.netns = None;
    }
    assert_eq!(world.forwarder.namespaces_held(), 1);

    for client in &clients {
        client.close(&world.forwarder).await.unwrap();
    }

    assert_eq!(world.forwarder.namespaces_held(), 0);
    assert!(
        world.pod.others_holding() < without,
        "{}",
        world.pod.others_holding()
    );
}

async fn hundreds_of_refreshes_and_reconnects_leave_no_descriptor() {
    let world = World::new();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    // What the process opens once is open from here on.
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    client.close(&world.forwarder).await.unwrap();
    let before = descriptors();

    for _ in 0..20 {
        for _ in 0..10 {
            client.request(&world.forwarder).await.unwrap();
        }
        client.close(&world.forwarder).await.unwrap();
    }

    assert_eq!(descriptors(), before);
    assert_eq!(world.forwarder.connections(), 0);
}
