//! Forwarder, client and endpoint die and return.

use crate::world::{World, policy};
use injection_suite::{Client, Forwarder, Place};

crate::cases![
    a_forwarder_that_returns_adopts_what_stands_without_an_event,
    a_forwarder_that_returns_under_another_name_adopts_what_stands,
    a_forwarder_that_returns_adopts_the_end_of_an_endpoint_that_invents_names,
    a_forwarder_that_returns_adopts_an_end_that_was_named_in_another_way,
    a_forwarder_that_returns_finishes_what_changed_meanwhile,
    a_client_that_comes_to_a_new_forwarder_with_another_wish_has_nothing_of_the_old_one,
    a_close_of_one_and_a_return_of_another_are_told_apart_by_a_new_forwarder,
    an_interface_that_went_with_the_forwarder_is_made_again,
    twenty_restarts_in_every_order_leave_nothing_more_than_the_connections,
];

async fn a_forwarder_that_returns_adopts_what_stands_without_an_event() {
    let mut world = World::new();
    world.pod.plug_eth0();
    let mut clients = Vec::new();
    for n in 0..4 {
        let mut client = world.client(&format!("nsc-{n}"), &format!("nsm-{n}"), n + 1);
        let from = format!("172.16.{}.2/32", n + 1);
        world.change_ip(&format!("nsc-{n}"), |ip| ip.policies = vec![policy(&from)]);
        client.request(&world.forwarder).await.unwrap();
        clients.push(client);
    }
    for _ in 0..3 {
        world.restart();
        let quiet = world.quiet();

        clients.rotate_left(1);
        for client in &mut clients {
            client.request(&world.forwarder).await.unwrap();
        }

        quiet.was_kept(&world);
    }
}

async fn a_forwarder_that_returns_under_another_name_adopts_what_stands() {
    let world = World::new();
    let client = world.connected("nsc-0", "nsm-1", 1).await;
    let quiet = world.quiet();
    let successor = Forwarder::start_as("forwarder-2", 78, &world.far_end);

    client.clone().request(&successor).await.unwrap();
    quiet.was_kept(&world);

    client.close(&successor).await.unwrap();
    assert!(world.pod.names().is_empty());
}

async fn a_forwarder_that_returns_adopts_the_end_of_an_endpoint_that_invents_names() {
    let mut world = World::new();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world
        .far_end
        .change("nsc-0", |answer| answer.invents = true);
    client.request(&world.forwarder).await.unwrap();

    for _ in 0..3 {
        world.restart();
        let quiet = world.quiet();
        client.request(&world.forwarder).await.unwrap();
        quiet.was_kept(&world);
    }
}

async fn a_forwarder_that_returns_adopts_an_end_that_was_named_in_another_way() {
    let mut world = World::new();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    // As with a forwarder that proposed nothing.
    world.far_end.change("nsc-0", |answer| {
        answer.interface = Some("nse-of-before".to_owned());
    });
    client.request(&world.forwarder).await.unwrap();
    assert_eq!(world.endpoint.names(), ["nse-of-before"]);

    world
        .far_end
        .change("nsc-0", |answer| answer.invents = true);
    for _ in 0..3 {
        world.restart();
        let quiet = world.quiet();
        client.request(&world.forwarder).await.unwrap();
        quiet.was_kept(&world);
    }

    client.close(&world.forwarder).await.unwrap();
    assert!(world.pod.names().is_empty() && world.endpoint.names().is_empty());
}

async fn a_forwarder_that_returns_finishes_what_changed_meanwhile() {
    let mut world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;
    let index = world.pod.interface("nsm-1").index;

    world.restart();
    world.change_ip("nsc-0", |ip| {
        ip.src_ip_addrs = vec!["172.16.1.5/32".to_owned()];
        ip.dst_ip_addrs = vec!["172.16.1.1/32".to_owned()];
        ip.src_routes.clear();
    });
    client.request(&world.forwarder).await.unwrap();

    assert_eq!(world.pod.interface("nsm-1").index, index);
    assert_eq!(world.pod.addresses("nsm-1"), ["172.16.1.5/32"]);
    let routes = world.pod.routes("nsm-1");
    assert_eq!(routes, ["172.16.1.1 dev nsm-1 proto 78 scope link"]);
    assert_eq!(world.pod.neighbours("nsm-1").len(), 1);
    assert_eq!(
        world.endpoint.neighbours(&world.endpoint.names()[0])[0].0,
        "172.16.1.5"
    );
}

async fn a_client_that_comes_to_a_new_forwarder_with_another_wish_has_nothing_of_the_old_one() {
    let mut world = World::new();
    let mut client = world.connected("nsc-0", "nsm-1", 1).await;

    world.restart();
    client.rename("nsm-9");
    world
        .far_end
        .change("nsc-0", |answer| answer.context.mtu = 1400);
    client.request(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.names(), ["nsm-9"]);
    assert_eq!(world.endpoint.names().len(), 1);
    assert_eq!(world.pod.interface("nsm-9").mtu, 1400);
    assert_eq!(world.pod.routes("nsm-9").len(), 4);

    world.restart();
    let other = Place::new();
    let place = other.clone();
    world
        .far_end
        .change("nsc-0", |answer| answer.place = Some(place));
    client.request(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.names(), ["nsm-9"]);
    assert!(world.endpoint.names().is_empty());
    assert!(world.pod.talks_to("172.16.1.2", &other, "172.16.1.1"));

    world.restart();
    client.set_vlan("100");
    client.request(&world.forwarder).await.unwrap();
    assert!(world.pod.names().is_empty() && other.names().is_empty());
}

async fn a_close_of_one_and_a_return_of_another_are_told_apart_by_a_new_forwarder() {
    let mut world = World::new();
    let closed = world.connected("nsc-0", "nsm-0", 1).await;
    let mut kept = world.connected("nsc-1", "nsm-1", 2).await;
    let before = world.pod.interface("nsm-1");
    // Twice, before anybody has come.
    world.restart();
    world.restart();

    let (close, request) = tokio::join!(
        closed.close(&world.forwarder),
        kept.request(&world.forwarder)
    );
    close.unwrap();
    request.unwrap();

    assert_eq!(world.pod.names(), ["nsm-1"]);
    assert_eq!(world.endpoint.names().len(), 1);
    assert_eq!(world.pod.interface("nsm-1"), before);
    let talks = world
        .pod
        .talks_to("172.16.2.2", &world.endpoint, "172.16.2.1");
    assert!(talks);
}

async fn an_interface_that_went_with_the_forwarder_is_made_again() {
    let mut world = World::new();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world.change_ip("nsc-0", |ip| ip.policies = vec![policy("172.16.1.2/32")]);
    client.request(&world.forwarder).await.unwrap();
    let rules = world.pod.snapshot().rules;
    for _ in 0..5 {
        let index = world.pod.interface("nsm-1").index;
        world.pod.kernel().delete_link(index).unwrap();
        world.restart();

        client.request(&world.forwarder).await.unwrap();

        assert!(
            world
                .pod
                .talks_to("172.16.1.2", &world.endpoint, "172.16.1.1")
        );
        assert_eq!(world.pod.snapshot().rules, rules);
    }
}

/// Who dies, together or alone: forwarder, client with its id, client without it, endpoint.
const DEATHS: [&[Death]; 8] = {
    use Death::*;
    [
        &[Forwarder_],
        &[SameClient],
        &[NewClient],
        &[Endpoint],
        &[Forwarder_, NewClient],
        &[NewClient, Endpoint],
        &[Endpoint, Forwarder_],
        &[Endpoint, NewClient, Forwarder_],
    ]
};

#[derive(Clone, Copy)]
enum Death {
    Forwarder_,
    SameClient,
    NewClient,
    Endpoint,
}

async fn twenty_restarts_in_every_order_leave_nothing_more_than_the_connections() {
    let mut world = World::new();
    world.pod.plug_eth0();
    let before = world.pod.snapshot();
    let connect = |world: &World, turn: usize| -> Vec<Client> {
        (0..2)
            .map(|n| world.client(&format!("nsc-{turn}-{n}"), &format!("nsm-{n}"), n + 1))
            .collect()
    };
    let mut clients = connect(&world, 0);
    for turn in 1..=20 {
        for death in DEATHS[turn % DEATHS.len()] {
            match death {
                Death::Forwarder_ => world.restart(),
                Death::SameClient => {}
                Death::NewClient => clients = connect(&world, turn),
                Death::Endpoint => {
                    world.endpoint = Place::new();
                    for client in &clients {
                        let id = &client.connection.path.as_ref().unwrap().path_segments[0].id;
                        let place = world.endpoint.clone();
                        world
                            .far_end
                            .change(id, |answer| answer.place = Some(place));
                    }
                }
            }
        }
        clients.reverse();
        for client in &mut clients {
            client.request(&world.forwarder).await.unwrap();
        }

        let mut names = world.pod.names();
        names.sort();
        assert_eq!(names, ["eth0", "nsm-0", "nsm-1"], "turn {turn}");
        assert_eq!(world.endpoint.names().len(), 2, "turn {turn}");
        assert_eq!(world.endpoint.snapshot().addresses.len(), 4, "turn {turn}");
        for n in 1..=2 {
            let own = format!("172.16.{n}.2");
            let other = format!("172.16.{n}.1");
            assert!(
                world.pod.talks_to(&own, &world.endpoint, &other),
                "turn {turn}"
            );
        }
    }
    for client in &clients {
        client.close(&world.forwarder).await.unwrap();
    }
    assert_eq!(world.pod.snapshot(), before);
    assert!(world.endpoint.names().is_empty());
}
