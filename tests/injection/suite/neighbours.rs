//! Neighbours: told where packets are carried, and told again when the other end is another.

use crate::world::World;
use nsm_api::connectioncontext::{EthernetContext, IpNeighbor};

crate::cases![
    each_end_is_told_the_other_where_packets_are_carried,
    frames_need_nobody_to_be_told,
    neighbours_are_told_again_when_the_pair_is_made_anew,
    what_the_endpoint_lists_is_told_to_the_client_and_taken_back,
    what_somebody_else_told_stays,
];

const MACS: [[u8; 6]; 2] = [[2, 0xfe, 0, 0, 0, 2], [2, 0xfe, 0, 0, 0, 1]];

async fn each_end_is_told_the_other_where_packets_are_carried() {
    let world = World::new();

    world.connected("nsc-0", "nsm-1", 1).await;

    let (here, name) = (world.pod.interface("nsm-1"), &world.endpoint.names()[0]);
    let there = world.endpoint.interface(name);
    let told = |list: [&str; 2], mac: Option<[u8; 6]>| list.map(|to| (to.to_owned(), mac.unwrap()));
    assert_eq!(
        world.pod.neighbours("nsm-1"),
        told(["172.16.1.1", "2001:db8:1::1"], there.mac)
    );
    assert_eq!(
        world.endpoint.neighbours(name),
        told(["172.16.1.2", "2001:db8:1::2"], here.mac)
    );
}

async fn frames_need_nobody_to_be_told() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;

    world.far_end.change("nsc-0", |answer| {
        answer.payload = Some("ETHERNET".to_owned())
    });
    client.request(&world.forwarder).await.unwrap();

    assert!(world.pod.neighbours("nsm-1").is_empty());
    assert!(
        world
            .pod
            .talks_to("172.16.1.2", &world.endpoint, "172.16.1.1")
    );
}

async fn neighbours_are_told_again_when_the_pair_is_made_anew() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    world.far_end.change("nsc-0", |answer| {
        answer.context.ethernet_context = Some(EthernetContext {
            src_mac: "02:fe:00:00:00:02".to_owned(),
            dst_mac: "02:fe:00:00:00:01".to_owned(),
            ..EthernetContext::default()
        });
    });

    client.request(&world.forwarder).await.unwrap();

    let here = world.pod.neighbours("nsm-1");
    assert!(here.iter().all(|(_, mac)| *mac == MACS[1]), "{here:?}");
    let there = world.endpoint.neighbours(&world.endpoint.names()[0]);
    assert!(there.iter().all(|(_, mac)| *mac == MACS[0]), "{there:?}");
    assert!(
        world
            .pod
            .talks_to("172.16.1.2", &world.endpoint, "172.16.1.1")
    );
}

async fn what_the_endpoint_lists_is_told_to_the_client_and_taken_back() {
    let world = World::new();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    let listed = IpNeighbor {
        ip: "172.16.1.99".to_owned(),
        hardware_address: "02:00:00:00:00:99".to_owned(),
    };
    world.change_ip("nsc-0", |ip| ip.ip_neighbors.push(listed));
    client.request(&world.forwarder).await.unwrap();
    let told = ("172.16.1.99".to_owned(), [2, 0, 0, 0, 0, 0x99]);
    assert!(world.pod.neighbours("nsm-1").contains(&told));

    world.change_ip("nsc-0", |ip| {
        ip.ip_neighbors.clear();
        ip.dst_ip_addrs.pop();
    });
    client.request(&world.forwarder).await.unwrap();

    let left = world.pod.neighbours("nsm-1");
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].0, "172.16.1.1");
}

async fn what_somebody_else_told_stays() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let index = world.pod.interface("nsm-1").index;
    let mut kernel = world.pod.kernel();
    for (to, mac) in [("172.16.1.200", 1), ("172.16.1.201", 2)] {
        let to = to.parse().unwrap();
        kernel
            .set_neighbour(index, to, [2, 0, 0, 0, 0, mac])
            .unwrap();
    }
    world.change_ip("nsc-0", |ip| {
        ip.ip_neighbors.push(IpNeighbor {
            ip: "172.16.1.201".to_owned(),
            hardware_address: "02:00:00:00:00:99".to_owned(),
        });
    });
    let quiet = world.quiet();

    client.request(&world.forwarder).await.unwrap();

    quiet.was_kept(&world);
}
