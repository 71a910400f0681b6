//! Routes: beside those of others, and before them.

use crate::world::World;
use nsm_api::connectioncontext::Route;

crate::cases![
    each_end_reaches_the_other_and_what_lies_behind_it,
    the_pods_default_routes_stay_beside_ours_and_are_used_again_after_the_close,
    the_pods_default_routes_are_used_again_after_a_restart_and_a_close,
    the_pods_default_routes_are_used_again_when_the_endpoint_takes_its_own_back,
    a_default_route_that_the_pod_gets_later_comes_behind_ours,
    routes_that_are_wanted_no_more_go_and_those_of_others_stay,
    a_next_hop_that_changes_is_replaced,
    routes_come_back_after_the_interface_was_down,
    two_connections_with_default_routes_take_no_turns,
];

const DEFAULTS: [&str; 2] = ["0.0.0.0/0", "::/0"];
const OUTSIDE: [&str; 2] = ["198.51.100.1", "2001:db8:ffff::1"];

fn defaults() -> Vec<Route> {
    DEFAULTS
        .map(|prefix| Route {
            prefix: prefix.to_owned(),
            next_hop: String::new(),
        })
        .into()
}

fn sources(world: &World) -> [String; 2] {
    OUTSIDE.map(|to| world.pod.source_towards(to).to_string())
}

const PODS: [&str; 2] = ["10.200.0.2", "2001:db8:200::2"];
const OURS: [&str; 2] = ["172.16.1.2", "2001:db8:1::2"];

async fn each_end_reaches_the_other_and_what_lies_behind_it() {
    let world = World::new();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world.change_ip("nsc-0", |ip| {
        ip.dst_routes = vec![Route {
            prefix: "10.77.0.0/16".to_owned(),
            next_hop: String::new(),
        }];
    });

    client.request(&world.forwarder).await.unwrap();

    let here = world.pod.routes("nsm-1");
    let expected = [
        "10.1.0.0/16 via 172.16.1.1 dev nsm-1 proto 78 onlink",
        "172.16.1.1 dev nsm-1 proto 78 scope link",
        "2001:db8:1::1 dev nsm-1 proto 78 metric 1024",
        "2001:db8:1:1::/64 via 2001:db8:1::1 dev nsm-1 proto 78 metric 1024 onlink",
    ];
    assert_eq!(here, expected);
    let name = &world.endpoint.names()[0];
    let there = world.endpoint.routes(name);
    assert_eq!(there.len(), 3, "{there:?}");
    assert!(
        there[0].starts_with("10.77.0.0/16 via 172.16.1.2 "),
        "{there:?}"
    );
}

async fn the_pods_default_routes_stay_beside_ours_and_are_used_again_after_the_close() {
    let world = World::new();
    world.pod.plug_eth0();
    let before = world.pod.snapshot();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world.change_ip("nsc-0", |ip| ip.src_routes = defaults());

    client.request(&world.forwarder).await.unwrap();
    assert_eq!(sources(&world), OURS);
    assert_eq!(world.pod.routes("eth0").len(), 2);
    let quiet = world.quiet();
    client.request(&world.forwarder).await.unwrap();
    quiet.was_kept(&world);

    client.close(&world.forwarder).await.unwrap();
    assert_eq!(sources(&world), PODS);
    assert_eq!(world.pod.snapshot(), before);
}

async fn the_pods_default_routes_are_used_again_after_a_restart_and_a_close() {
    let mut world = World::new();
    world.pod.plug_eth0();
    let before = world.pod.snapshot();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world.change_ip("nsc-0", |ip| ip.src_routes = defaults());
    client.request(&world.forwarder).await.unwrap();

    world.restart();
    let quiet = world.quiet();
    client.request(&world.forwarder).await.unwrap();
    quiet.was_kept(&world);
    world.restart();
    client.close(&world.forwarder).await.unwrap();

    assert_eq!(world.pod.snapshot(), before);
}

async fn the_pods_default_routes_are_used_again_when_the_endpoint_takes_its_own_back() {
    let world = World::new();
    world.pod.plug_eth0();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world.change_ip("nsc-0", |ip| ip.src_routes = defaults());
    client.request(&world.forwarder).await.unwrap();

    world.change_ip("nsc-0", |ip| ip.src_routes.clear());
    client.request(&world.forwarder).await.unwrap();

    assert_eq!(sources(&world), PODS);
    assert_eq!(
        world.pod.routes("nsm-1").len(),
        2,
        "to the endpoint's addresses"
    );
}

async fn a_default_route_that_the_pod_gets_later_comes_behind_ours() {
    let world = World::new();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world.change_ip("nsc-0", |ip| ip.src_routes = defaults());
    client.request(&world.forwarder).await.unwrap();
    let index = world.pod.interface("nsm-1").index;
    let own = world.pod.snapshot().routes;
    // The pod's network comes up while ours is away for an instant.
    for route in own.iter().filter(|route| route.prefix.prefix_len() == 0) {
        let deleted = nsm_netlink::Kernel::execute(
            &mut world.pod.kernel(),
            &[nsm_netlink::Op::DelRoute(route.clone())],
        );
        deleted.unwrap()[0].as_ref().unwrap();
    }
    world.pod.plug_eth0();

    client.request(&world.forwarder).await.unwrap();

    assert_eq!(sources(&world), OURS);
    assert_eq!(world.pod.interface("nsm-1").index, index);
    assert_eq!(world.pod.routes("eth0").len(), 2);
}

async fn routes_that_are_wanted_no_more_go_and_those_of_others_stay() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let index = world.pod.interface("nsm-1").index;
    let prefix = "203.0.113.0/24".parse().unwrap();
    world
        .pod
        .kernel()
        .add_main_route(prefix, index, None)
        .unwrap();

    world.change_ip("nsc-0", |ip| {
        ip.src_routes.clear();
        ip.dst_ip_addrs.clear();
    });
    client.request(&world.forwarder).await.unwrap();

    let routes = world.pod.routes("nsm-1");
    assert_eq!(routes, ["203.0.113.0/24 dev nsm-1 proto static scope link"]);
}

async fn a_next_hop_that_changes_is_replaced() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;

    world.change_ip("nsc-0", |ip| {
        ip.src_routes[0].next_hop = "172.16.1.77".to_owned();
        ip.src_routes[1].next_hop = "2001:db8:1::77".to_owned();
    });
    client.request(&world.forwarder).await.unwrap();

    let routes = world.pod.routes("nsm-1");
    assert_eq!(routes.len(), 4, "{routes:?}");
    assert!(
        routes[0].starts_with("10.1.0.0/16 via 172.16.1.77 "),
        "{routes:?}"
    );
    assert!(
        routes[3].starts_with("2001:db8:1:1::/64 via 2001:db8:1::77 "),
        "{routes:?}"
    );
    let quiet = world.quiet();
    client.request(&world.forwarder).await.unwrap();
    quiet.was_kept(&world);
}

async fn routes_come_back_after_the_interface_was_down() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let before = world.pod.snapshot();
    let mut kernel = world.pod.kernel();
    let index = world.pod.interface("nsm-1").index;
    kernel
        .set_link(index, nsm_netlink::LinkState::Down)
        .unwrap();
    assert_ne!(world.pod.snapshot(), before);

    client.request(&world.forwarder).await.unwrap();

    assert_eq!(world.pod.snapshot(), before);
}

async fn two_connections_with_default_routes_take_no_turns() {
    let world = World::new();
    world.pod.plug_eth0();
    let before = world.pod.snapshot();
    let mut clients = [
        world.client("nsc-0", "nsm-0", 1),
        world.client("nsc-1", "nsm-1", 2),
    ];
    for id in ["nsc-0", "nsc-1"] {
        world.change_ip(id, |ip| ip.src_routes = defaults());
    }
    for client in &mut clients {
        client.request(&world.forwarder).await.unwrap();
    }
    assert_eq!(
        sources(&world),
        ["172.16.2.2", "2001:db8:2::2"],
        "the later one"
    );

    let quiet = world.quiet();
    for client in &mut clients {
        client.request(&world.forwarder).await.unwrap();
    }
    quiet.was_kept(&world);

    clients[1].close(&world.forwarder).await.unwrap();
    assert_eq!(sources(&world), OURS);
    clients[0].close(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.snapshot(), before);
}
