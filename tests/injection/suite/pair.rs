//! The pair of interfaces: made in place, and not touched again.

use crate::world::{World, policy};
use injection_suite::{Place, Writes};
use nsm_api::connection::Mechanism;
use nsm_api::connectioncontext::EthernetContext;
use nsm_chain::ErrorKind;
use nsm_netlink::{Namespace, Netns, Peer};
use tokio::task::JoinSet;

crate::cases![
    a_first_request_makes_one_pair_between_both_namespaces,
    traffic_flows_in_both_families_without_a_wait_for_duplicates,
    an_unchanged_refresh_writes_nothing_and_causes_no_event,
    an_unchanged_refresh_reads_each_thing_once,
    an_endpoint_has_its_end_by_the_name_that_it_asks_for,
    a_client_that_asks_for_no_name_is_told_one,
    hardware_addresses_are_those_that_are_asked_for_or_stay_the_same,
    an_mtu_is_set_at_both_ends_and_goes_back_to_the_usual_one,
    another_mechanism_and_a_vlan_get_no_interface,
    a_connection_that_gets_a_vlan_loses_its_interface,
    every_group_may_ping_or_where_the_kernel_refuses_our_own,
    policies_stand_above_the_interface_and_go_before_it,
    two_ends_in_one_namespace_are_refused,
    many_clients_come_to_one_endpoint_at_once,
];

async fn a_first_request_makes_one_pair_between_both_namespaces() {
    let world = World::new();
    let own = Netns::current().unwrap();
    let before = own.open().unwrap().interfaces().unwrap();

    world.connected("nsc-0", "nsm-1", 1).await;

    let here = world.pod.interface("nsm-1");
    let there = &world.endpoint.snapshot().interfaces[0];
    assert_eq!(world.pod.names(), ["nsm-1"]);
    assert_eq!(world.endpoint.names().len(), 1);
    assert!(there.name.starts_with("nsm-"), "{there:?}");
    assert!(here.up && there.up);
    assert_eq!([here.group, there.group], [0, 0]);
    let mark = format!("nsm:78:{}:nsc-0", world.pod.netns().id().ino);
    assert_eq!(here.alias.as_ref(), Some(&mark));
    assert_eq!(there.alias.as_ref(), Some(&mark));
    let number = world
        .pod
        .kernel()
        .number_of(world.endpoint.netns())
        .unwrap();
    assert!(number.is_some());
    let peer = Peer {
        index: there.index,
        netns: number,
    };
    assert_eq!(here.peer, Some(peer));
    let after = own.open().unwrap().interfaces().unwrap();
    assert_eq!(
        after, before,
        "nothing passed through the forwarder's own namespace"
    );
}

async fn traffic_flows_in_both_families_without_a_wait_for_duplicates() {
    let world = World::new();

    world.connected("nsc-0", "nsm-1", 1).await;

    for (own, other) in [
        ("172.16.1.2", "172.16.1.1"),
        ("2001:db8:1::2", "2001:db8:1::1"),
    ] {
        assert!(world.pod.talks_to(own, &world.endpoint, other), "{own}");
    }
}

async fn an_unchanged_refresh_writes_nothing_and_causes_no_event() {
    let world = World::new();
    world.pod.plug_eth0();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world
        .far_end
        .change("nsc-0", |answer| answer.context.mtu = 1400);
    client.request(&world.forwarder).await.unwrap();
    let quiet = world.quiet();

    for _ in 0..3 {
        client.request(&world.forwarder).await.unwrap();
    }

    quiet.was_kept(&world);
}

async fn an_unchanged_refresh_reads_each_thing_once() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let asked = Writes::from_now();

    client.request(&world.forwarder).await.unwrap();

    // At each end interfaces, addresses, the routes of both families, neighbours; and the number
    // that one namespace has for the other.
    assert_eq!(asked.reads(), 2 * 5 + 1);
}

async fn an_endpoint_has_its_end_by_the_name_that_it_asks_for() {
    let world = World::new();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    let ask = |name: Option<&str>| {
        let name = name.map(str::to_owned);
        world
            .far_end
            .change("nsc-0", |answer| answer.interface = name);
    };
    ask(Some("client-0"));
    client.request(&world.forwarder).await.unwrap();
    assert_eq!(world.endpoint.names(), ["client-0"]);

    ask(Some("client-1"));
    client.request(&world.forwarder).await.unwrap();
    assert_eq!(world.endpoint.names(), ["client-1"]);
    assert_eq!(world.pod.names(), ["nsm-1"]);

    // One that is no name is refused, and what stands goes on to stand.
    ask(Some("../client"));
    let quiet = world.quiet();
    let error = client.request(&world.forwarder).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    quiet.was_kept(&world);
}

async fn a_client_that_asks_for_no_name_is_told_one() {
    let mut world = World::new();
    let mut client = world.connected("nsc-0", "", 1).await;

    let names = world.pod.names();
    let kernel = client.connection.kernel_mechanism().unwrap();
    assert_eq!(kernel.interface_name(), Some(names[0].as_str()));

    // And another forwarder would find it, if the client did not remember.
    client.rename("");
    world.restart();
    let writes = Writes::from_now();
    client.request(&world.forwarder).await.unwrap();
    assert_eq!(writes.so_far(), 0);
}

async fn hardware_addresses_are_those_that_are_asked_for_or_stay_the_same() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let first = world.pod.interface("nsm-1").mac;
    world
        .pod
        .kernel()
        .delete_link(world.pod.interface("nsm-1").index)
        .unwrap();
    client.request(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.interface("nsm-1").mac, first);

    world.far_end.change("nsc-0", |answer| {
        answer.context.ethernet_context = Some(EthernetContext {
            src_mac: "02:fe:00:00:00:02".to_owned(),
            dst_mac: "02:fe:00:00:00:01".to_owned(),
            ..EthernetContext::default()
        });
    });
    client.request(&world.forwarder).await.unwrap();

    assert_eq!(
        world.pod.interface("nsm-1").mac,
        Some([2, 0xfe, 0, 0, 0, 2])
    );
    let there = &world.endpoint.snapshot().interfaces[0];
    assert_eq!(there.mac, Some([2, 0xfe, 0, 0, 0, 1]));
    let told = world.pod.neighbours("nsm-1");
    assert!(
        told.iter().all(|(_, mac)| Some(*mac) == there.mac),
        "{told:?}"
    );
}

async fn an_mtu_is_set_at_both_ends_and_goes_back_to_the_usual_one() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    for (asked, has) in [(1400, 1400), (9000, 9000), (0, 1500)] {
        world
            .far_end
            .change("nsc-0", |answer| answer.context.mtu = asked);
        client.request(&world.forwarder).await.unwrap();

        let there = &world.endpoint.snapshot().interfaces[0];
        assert_eq!([world.pod.interface("nsm-1").mtu, there.mtu], [has; 2]);
    }
    assert_eq!(world.pod.addresses("nsm-1").len(), 2);
}

async fn another_mechanism_and_a_vlan_get_no_interface() {
    let world = World::new();
    let mut vlan = world.client("nsc-0", "nsm-1", 1);
    vlan.set_vlan("100");
    let mut memif = world.client("nsc-1", "nsm-1", 1);
    memif.connection.mechanism = Some(Mechanism {
        r#type: "MEMIF".to_owned(),
        ..Mechanism::kernel()
    });
    let quiet = world.quiet();

    for client in [&mut vlan, &mut memif] {
        client.request(&world.forwarder).await.unwrap();
        client.close(&world.forwarder).await.unwrap();
    }

    quiet.was_kept(&world);
}

async fn a_connection_that_gets_a_vlan_loses_its_interface() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;

    client.set_vlan("100");
    client.request(&world.forwarder).await.unwrap();

    assert!(world.pod.names().is_empty() && world.endpoint.names().is_empty());
}

async fn every_group_may_ping_or_where_the_kernel_refuses_our_own() {
    let world = World::new();
    let before = world.pod.get("net/ipv4/ping_group_range");

    world.connected("nsc-0", "nsm-1", 1).await;

    for place in [&world.pod, &world.endpoint] {
        let range = place.get("net/ipv4/ping_group_range");
        assert_ne!(range, before);
        // The sandbox has one group, so that all is refused in it.
        assert_eq!(range, "0\t0");
    }
}

async fn policies_stand_above_the_interface_and_go_before_it() {
    let world = World::new();
    let rules = world.pod.snapshot().rules;
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world.change_ip("nsc-0", |ip| ip.policies = vec![policy("172.16.1.2/32")]);

    client.request(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.snapshot().rules.len(), rules.len() + 1);
    let quiet = world.quiet();
    client.request(&world.forwarder).await.unwrap();
    quiet.was_kept(&world);

    let mut ear = world.pod.ear();
    client.close(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.snapshot().rules, rules);
    let (_, heard) = ear.heard();
    let removed = |event: &nsm_netlink::Event| matches!(event.object, nsm_netlink::Object::Rule(_));
    assert!(heard.iter().any(removed), "{heard:?}");
}

async fn two_ends_in_one_namespace_are_refused() {
    let world = World::new();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    let pod: Place = world.pod.clone();
    world
        .far_end
        .change("nsc-0", |answer| answer.place = Some(pod));

    let error = client.request(&world.forwarder).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    assert!(
        error
            .report()
            .to_string()
            .contains("same network namespace")
    );
    assert!(world.pod.names().is_empty());
}

async fn many_clients_come_to_one_endpoint_at_once() {
    let world = World::new();
    let pods: Vec<Place> = (0..4).map(|_| Place::new()).collect();
    let mut requests = JoinSet::new();
    for n in 0..16_u8 {
        let mut client = world.client(&format!("nsc-{n}"), &format!("nsm-{n}"), n + 1);
        client.move_to(&pods[usize::from(n) % pods.len()]);
        let forwarder = world.forwarder.clone();
        requests.spawn(async move {
            client.request(&forwarder).await.unwrap();
            client
        });
    }
    let clients = requests.join_all().await;

    assert_eq!(world.endpoint.names().len(), 16);
    for n in 0..16_usize {
        let (pod, name) = (&pods[n % pods.len()], format!("nsm-{n}"));
        assert_eq!(pod.addresses(&name).len(), 2, "{name}");
        let (own, other) = (format!("172.16.{}.2", n + 1), format!("172.16.{}.1", n + 1));
        assert!(pod.talks_to(&own, &world.endpoint, &other), "{name}");
    }
    let mut closes = JoinSet::new();
    for client in clients {
        let forwarder = world.forwarder.clone();
        closes.spawn(async move { client.close(&forwarder).await.unwrap() });
    }
    closes.join_all().await;
    assert!(world.endpoint.names().is_empty());
    assert_eq!(world.forwarder.namespaces_held(), 0);
}
