//! What somebody did to a pair is repaired by the next refresh.

use crate::world::World;
use nsm_netlink::{InterfaceChange, VethEnd};

crate::cases![
    an_interface_that_was_deleted_is_made_again_with_all_that_stood_on_it,
    an_end_that_was_deleted_at_the_endpoint_is_made_again,
    an_interface_that_was_left_unmarked_by_a_killed_process_is_taken_over,
    a_mark_that_was_taken_is_put_again,
    an_endpoint_in_another_namespace_gets_a_pair_of_its_own,
    a_client_in_another_namespace_gets_a_pair_of_its_own,
    a_close_of_a_first_request_that_failed_half_way_leaves_nothing,
];

async fn an_interface_that_was_deleted_is_made_again_with_all_that_stood_on_it() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let index = world.pod.interface("nsm-1").index;
    world.pod.kernel().delete_link(index).unwrap();
    assert!(world.endpoint.names().is_empty(), "both ends go together");

    client.request(&world.forwarder).await.unwrap();

    assert_ne!(world.pod.interface("nsm-1").index, index);
    assert_eq!(world.pod.routes("nsm-1").len(), 4);
    assert_eq!(world.pod.neighbours("nsm-1").len(), 2);
    assert!(
        world
            .pod
            .talks_to("2001:db8:1::2", &world.endpoint, "2001:db8:1::1")
    );
}

async fn an_end_that_was_deleted_at_the_endpoint_is_made_again() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let there = world.endpoint.snapshot().interfaces[0].index;
    world.endpoint.kernel().delete_link(there).unwrap();

    client.request(&world.forwarder).await.unwrap();

    assert!(
        world
            .pod
            .talks_to("172.16.1.2", &world.endpoint, "172.16.1.1")
    );
    assert_eq!(world.pod.names(), ["nsm-1"]);
}

async fn an_interface_that_was_left_unmarked_by_a_killed_process_is_taken_over() {
    let mut world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let [here, there] = world.snapshot().map(|it| it.interfaces[0].clone());
    client.close(&world.forwarder).await.unwrap();
    // All that one message makes, and no more.
    let near = VethEnd {
        name: &here.name,
        mac: here.mac,
        mtu: None,
        group: 0,
    };
    let far = VethEnd {
        name: &there.name,
        mac: there.mac,
        mtu: None,
        group: 0,
    };
    let made = world
        .pod
        .kernel()
        .add_veth(&near, &far, world.endpoint.netns());
    made.unwrap();
    let index = world.pod.interface("nsm-1").index;
    world.restart();

    client.request(&world.forwarder).await.unwrap();

    assert_eq!(world.pod.interface("nsm-1").index, index);
    let [here, there] = world.snapshot().map(|it| it.interfaces[0].clone());
    assert!(here.up && there.up);
    assert_eq!(here.alias, there.alias);
    assert!(here.alias.unwrap().ends_with(":nsc-0"));
    assert!(
        world
            .pod
            .talks_to("172.16.1.2", &world.endpoint, "172.16.1.1")
    );
}

async fn a_mark_that_was_taken_is_put_again() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let before = world.snapshot();
    let cleared = InterfaceChange {
        alias: Some(""),
        ..InterfaceChange::default()
    };
    for place in [&world.pod, &world.endpoint] {
        let index = place.snapshot().interfaces[0].index;
        place.kernel().change_interface(index, &cleared).unwrap();
        client.request(&world.forwarder).await.unwrap();
    }

    assert_eq!(world.snapshot(), before);
}

async fn an_endpoint_in_another_namespace_gets_a_pair_of_its_own() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let other = injection_suite::Place::new();

    let place = other.clone();
    world
        .far_end
        .change("nsc-0", |answer| answer.place = Some(place));
    client.request(&world.forwarder).await.unwrap();

    assert!(world.endpoint.names().is_empty());
    assert_eq!(other.names().len(), 1);
    assert!(world.pod.talks_to("172.16.1.2", &other, "172.16.1.1"));
}

async fn a_client_in_another_namespace_gets_a_pair_of_its_own() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let other = injection_suite::Place::new();

    client.move_to(&other);
    client.request(&world.forwarder).await.unwrap();

    assert!(world.pod.names().is_empty());
    assert_eq!(other.names(), ["nsm-1"]);
    assert_eq!(world.endpoint.names().len(), 1);
    assert!(other.talks_to("172.16.1.2", &world.endpoint, "172.16.1.1"));
    assert_eq!(world.forwarder.namespaces_held(), 1);
}

async fn a_close_of_a_first_request_that_failed_half_way_leaves_nothing() {
    let world = World::new();
    world.pod.plug_eth0();
    // The lowest metric of all is taken, so that the last of the routes cannot be made.
    let eth0 = world.pod.interface("eth0").index;
    let prefix = "2001:db8:1:1::/64".parse().unwrap();
    let lowest = nsm_netlink::Route {
        metric: 1,
        ..nsm_netlink::Route::unicast(254, prefix, eth0, None, 4)
    };
    world.pod.kernel().add_route_in_front(&lowest).unwrap();
    let before = world.snapshot();
    let mut client = world.client("nsc-0", "nsm-1", 1);

    let error = client.request(&world.forwarder).await.unwrap_err();

    assert!(error.report().to_string().contains("2001:db8:1:1::/64"));
    assert_eq!(world.snapshot(), before);
    assert_eq!(world.forwarder.namespaces_held(), 0);
}
