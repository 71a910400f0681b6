//! Addresses: given and taken, and only ours.

use crate::world::World;
use nsm_netlink::{InterfaceEvent, InterfaceSubject};

crate::cases![
    each_end_has_its_addresses,
    an_address_that_changes_is_replaced_and_the_routes_stay,
    an_empty_list_takes_ours_and_nothing_else,
    an_address_of_others_stays_whatever_the_connection_does,
    addresses_of_one_network_survive_the_first_of_them,
    ipv6_is_switched_on_where_a_pod_has_it_off,
    an_address_that_somebody_took_comes_back_with_the_next_refresh,
];

async fn each_end_has_its_addresses() {
    let world = World::new();

    world.connected("nsc-0", "nsm-1", 1).await;

    assert_eq!(
        world.pod.addresses("nsm-1"),
        ["172.16.1.2/32", "2001:db8:1::2/128"]
    );
    let there = &world.endpoint.names()[0];
    assert_eq!(
        world.endpoint.addresses(there),
        ["172.16.1.1/32", "2001:db8:1::1/128"]
    );
    for address in world.pod.snapshot().addresses {
        assert_eq!(
            (address.protocol, address.permanent),
            (78, true),
            "{address:?}"
        );
    }
}

async fn an_address_that_changes_is_replaced_and_the_routes_stay() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let routes = world.pod.routes("nsm-1");
    let mut ear = world.pod.ear();

    world.change_ip("nsc-0", |ip| {
        ip.src_ip_addrs = vec!["172.16.1.3/32".to_owned(), "2001:db8:1::2/64".to_owned()];
    });
    client.request(&world.forwarder).await.unwrap();

    assert_eq!(
        world.pod.addresses("nsm-1"),
        ["172.16.1.3/32", "2001:db8:1::2/64"]
    );
    // The one to the endpoint's IPv6 address is not needed within a network with it.
    let kept: Vec<_> = routes
        .into_iter()
        .filter(|route| !route.starts_with("2001:db8:1::1 "))
        .collect();
    assert_eq!(world.pod.routes("nsm-1"), kept);
    // The kernel tells late of an IPv6 address, so that here it may or may not have told.
    let (heard, _) = ear.heard();
    let has_now = world.pod.snapshot().addresses;
    let is_new = |event: &InterfaceEvent| match &event.subject {
        InterfaceSubject::Address(address) => has_now.contains(address),
        _ => false,
    };
    assert!(heard.iter().all(is_new), "nothing else: {heard:?}");
}

async fn an_empty_list_takes_ours_and_nothing_else() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    world.pod.give("nsm-1", "192.0.2.7/32");

    world.change_ip("nsc-0", |ip| ip.src_ip_addrs.clear());
    client.request(&world.forwarder).await.unwrap();

    assert_eq!(world.pod.addresses("nsm-1"), ["192.0.2.7/32"]);
}

async fn an_address_of_others_stays_whatever_the_connection_does() {
    let mut world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    world.pod.give("nsm-1", "192.0.2.7/24");
    world.pod.give("nsm-1", "2001:db8:99::7/64");

    client.request(&world.forwarder).await.unwrap();
    world.restart();
    world.change_ip("nsc-0", |ip| {
        ip.src_ip_addrs = vec!["172.16.1.9/32".to_owned()]
    });
    client.request(&world.forwarder).await.unwrap();

    let addresses = world.pod.addresses("nsm-1");
    assert_eq!(
        addresses,
        ["192.0.2.7/24", "172.16.1.9/32", "2001:db8:99::7/64"]
    );
}

async fn addresses_of_one_network_survive_the_first_of_them() {
    let world = World::new();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    let addresses = ["172.16.1.2/24", "172.16.1.3/24", "172.16.1.4/24"];
    world.change_ip("nsc-0", |ip| {
        ip.src_ip_addrs = addresses.map(str::to_owned).into();
    });
    client.request(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.addresses("nsm-1"), addresses);

    world.change_ip("nsc-0", |ip| {
        ip.src_ip_addrs.remove(0);
    });
    client.request(&world.forwarder).await.unwrap();

    assert_eq!(world.pod.addresses("nsm-1"), addresses[1..]);
    assert!(!world.pod.routes("nsm-1").is_empty());
}

async fn ipv6_is_switched_on_where_a_pod_has_it_off() {
    let world = World::new();
    world.pod.set("net/ipv6/conf/default/disable_ipv6", "1");

    world.connected("nsc-0", "nsm-1", 1).await;

    assert_eq!(world.pod.addresses("nsm-1").len(), 2);
    assert_eq!(world.pod.get("net/ipv6/conf/default/disable_ipv6"), "1");
}

async fn an_address_that_somebody_took_comes_back_with_the_next_refresh() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let before = world.pod.snapshot();
    let index = world.pod.interface("nsm-1").index;
    // The last IPv4 address takes the routes with it.
    let address = "172.16.1.2/32".parse().unwrap();
    world.pod.kernel().delete_address(index, address).unwrap();
    assert_ne!(world.pod.snapshot(), before);

    client.request(&world.forwarder).await.unwrap();

    assert_eq!(world.pod.snapshot(), before);
}
