//! Names of interfaces: changed, swapped, taken over, and those of others.

use crate::world::{World, policy};
use injection_suite::{Client, Forwarder};
use nsm_chain::ErrorKind;
use nsm_netlink::{Namespace, VethEnd};

crate::cases![
    another_name_for_a_living_connection_leaves_nothing_of_the_old_one,
    two_connections_that_swap_their_names_at_once_come_out_right,
    two_that_ask_for_one_name_at_once_end_with_one_pair_and_one_who_is_told,
    a_strangers_interface_is_refused_in_words_and_left_alone,
    a_strangers_interface_at_the_endpoint_is_refused_in_words_and_left_alone,
    what_stands_is_not_given_up_for_a_name_that_cannot_be_had,
    a_client_that_returns_under_another_id_takes_its_interface_over,
    a_client_that_has_forgotten_its_path_keeps_its_interface_when_the_former_one_is_closed,
    whoever_lost_its_name_is_told_so_and_gets_it_back_when_it_is_free,
    an_endpoint_that_asks_for_one_name_for_all_keeps_nobody_away,
    clients_of_two_pods_with_one_id_do_not_meet,
    a_second_forwarder_with_its_own_number_touches_nothing,
];

async fn another_name_for_a_living_connection_leaves_nothing_of_the_old_one() {
    let world = World::new();
    world.pod.plug_eth0();
    let others = world.pod.snapshot();
    let mut client = world.client("nsc-0", "nsm-0", 1);
    world.change_ip("nsc-0", |ip| ip.policies = vec![policy("172.16.1.2/32")]);
    client.request(&world.forwarder).await.unwrap();
    let rules = world.pod.snapshot().rules;

    client.rename("nsm-9");
    client.request(&world.forwarder).await.unwrap();

    assert_eq!(world.pod.names(), ["eth0", "nsm-9"]);
    assert_eq!(world.endpoint.names().len(), 1);
    assert_eq!(
        world.pod.addresses("nsm-9"),
        ["172.16.1.2/32", "2001:db8:1::2/128"]
    );
    assert_eq!(world.pod.routes("nsm-9").len(), 4);
    let by = world.pod.leaves_by(20_000);
    assert_eq!(by, [world.pod.interface("nsm-9").index]);
    assert_eq!(world.pod.snapshot().rules, rules);
    let talks = world
        .pod
        .talks_to("172.16.1.2", &world.endpoint, "172.16.1.1");
    assert!(talks);
    client.close(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.snapshot(), others);
}

async fn two_connections_that_swap_their_names_at_once_come_out_right() {
    let mut world = World::new();
    let mut a = world.connected("nsc-a", "nsm-0", 1).await;
    let mut b = world.connected("nsc-b", "nsm-1", 2).await;
    for round in 0..6 {
        let (for_a, for_b) = match round % 2 {
            0 => ("nsm-1", "nsm-0"),
            _ => ("nsm-0", "nsm-1"),
        };
        a.rename(for_a);
        b.rename(for_b);
        if round >= 2 {
            world.restart();
        }
        // The first of them comes while the other still has its name, and takes its interface.
        let (first, second) = if round < 4 {
            tokio::join!(a.request(&world.forwarder), b.request(&world.forwarder))
        } else {
            let (second, first) =
                tokio::join!(b.request(&world.forwarder), a.request(&world.forwarder));
            (first, second)
        };
        first.unwrap();
        second.unwrap();

        assert_eq!(world.pod.names().len(), 2);
        assert_eq!(world.endpoint.names().len(), 2);
        for (n, name) in [(1, for_a), (2, for_b)] {
            let (own, other) = (format!("172.16.{n}.2"), format!("172.16.{n}.1"));
            let addresses = [format!("{own}/32"), format!("2001:db8:{n}::2/128")];
            assert_eq!(world.pod.addresses(name), addresses);
            assert!(world.pod.talks_to(&own, &world.endpoint, &other), "{own}");
        }
        let quiet = world.quiet();
        a.request(&world.forwarder).await.unwrap();
        b.request(&world.forwarder).await.unwrap();
        quiet.was_kept(&world);
    }
}

async fn two_that_ask_for_one_name_at_once_end_with_one_pair_and_one_who_is_told() {
    for round in 0..10 {
        let world = World::new();
        let mut clients = [
            world.client("nsc-0", "nsm-1", 1),
            world.client("nsc-1", "nsm-1", 2),
        ];
        let [a, b] = &mut clients;
        let (first, second) =
            tokio::join!(a.request(&world.forwarder), b.request(&world.forwarder));
        first.unwrap();
        second.unwrap();

        assert_eq!(world.pod.names(), ["nsm-1"], "round {round}");
        assert_eq!(world.endpoint.names().len(), 1);
        let quiet = world.quiet();
        let (first, second) =
            tokio::join!(a.request(&world.forwarder), b.request(&world.forwarder));
        let (has, lost) = match (first, second) {
            (Ok(()), Err(lost)) => (0, lost),
            (Err(lost), Ok(())) => (1, lost),
            both => panic!("{both:?}"),
        };
        let report = lost.report().to_string();
        assert!(report.contains(&format!(":nsc-{has}")), "{report}");
        // Whoever lost it leaves, and takes nothing along.
        clients[1 - has].close(&world.forwarder).await.unwrap();
        quiet.was_kept(&world);
        let (own, other) = (
            format!("172.16.{}.2", has + 1),
            format!("172.16.{}.1", has + 1),
        );
        assert!(world.pod.talks_to(&own, &world.endpoint, &other));

        clients[has].close(&world.forwarder).await.unwrap();
        assert!(world.pod.names().is_empty() && world.endpoint.names().is_empty());
    }
}

fn plug_stranger(place: &injection_suite::Place, name: &str) {
    let mut kernel = place.netns().open().unwrap();
    // Both ends here: nothing else has to live for it.
    let other = VethEnd::named("stranger-peer");
    kernel
        .add_veth(&VethEnd::named(name), &other, place.netns())
        .unwrap();
}

async fn a_strangers_interface_is_refused_in_words_and_left_alone() {
    let world = World::new();
    plug_stranger(&world.pod, "nsm-1");
    let before = world.snapshot();
    let mut client = world.client("nsc-0", "nsm-1", 1);

    let error = client.request(&world.forwarder).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    let report = error.report().to_string();
    assert!(
        report.contains("interface nsm-1 of the client's net:["),
        "{report}"
    );
    assert!(report.contains("is somebody else's"), "{report}");
    assert_eq!(world.snapshot(), before);
    assert_eq!(world.far_end.closes(), 1, "the chain undid the rest");
}

async fn a_strangers_interface_at_the_endpoint_is_refused_in_words_and_left_alone() {
    let world = World::new();
    plug_stranger(&world.endpoint, "client-0");
    let before = world.snapshot();
    let mut client = world.client("nsc-0", "nsm-1", 1);
    world.far_end.change("nsc-0", |answer| {
        answer.interface = Some("client-0".to_owned())
    });

    let error = client.request(&world.forwarder).await.unwrap_err();

    let report = error.report().to_string();
    assert!(
        report.contains("interface client-0 of the endpoint's net:["),
        "{report}"
    );
    assert_eq!(world.snapshot(), before);
}

async fn what_stands_is_not_given_up_for_a_name_that_cannot_be_had() {
    let world = World::new();
    let mut client = world.connected("nsc-0", "nsm-0", 1).await;
    plug_stranger(&world.pod, "nsm-1");
    let before = world.snapshot();

    client.rename("nsm-1");
    client.request(&world.forwarder).await.unwrap_err();

    assert_eq!(world.snapshot(), before);
    client.close(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.names(), ["stranger-peer", "nsm-1"]);
}

async fn a_client_that_returns_under_another_id_takes_its_interface_over() {
    let world = World::new();
    let ghost = world.connected("nsc-old", "nsm-1", 1).await;
    let mut client = world.client("nsc-new", "nsm-1", 1);

    client.request(&world.forwarder).await.unwrap();
    assert_eq!(world.pod.names(), ["nsm-1"]);
    assert_eq!(world.endpoint.names().len(), 1);
    assert!(
        world
            .pod
            .talks_to("172.16.1.2", &world.endpoint, "172.16.1.1")
    );

    // The old one's time is over.
    let quiet = world.quiet();
    ghost.close(&world.forwarder).await.unwrap();
    quiet.was_kept(&world);

    client.close(&world.forwarder).await.unwrap();
    assert!(world.pod.names().is_empty() && world.endpoint.names().is_empty());
    assert_eq!(world.forwarder.namespaces_held(), 0);
}

async fn a_client_that_has_forgotten_its_path_keeps_its_interface_when_the_former_one_is_closed() {
    let world = World::new();
    let ghost = world.connected("nsc-0", "nsm-0", 1).await;
    let mut client = world.client("nsc-0", "nsm-0", 1);
    let quiet = world.quiet();

    client.request(&world.forwarder).await.unwrap();
    ghost.close(&world.forwarder).await.unwrap();
    client.request(&world.forwarder).await.unwrap();
    quiet.was_kept(&world);

    client.close(&world.forwarder).await.unwrap();
    assert!(world.pod.names().is_empty() && world.endpoint.names().is_empty());
    assert_eq!(world.forwarder.namespaces_held(), 0);
}

async fn whoever_lost_its_name_is_told_so_and_gets_it_back_when_it_is_free() {
    let world = World::new();
    let mut first = world.connected("nsc-0", "nsm-1", 1).await;
    let mut second = world.connected("nsc-1", "nsm-1", 2).await;
    let quiet = world.quiet();

    for _ in 0..2 {
        let error = first.request(&world.forwarder).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        let report = error.report().to_string();
        assert!(
            report.contains("nsm-1") && report.contains(":nsc-1"),
            "{report}"
        );
        second.request(&world.forwarder).await.unwrap();
    }
    quiet.was_kept(&world);

    second.close(&world.forwarder).await.unwrap();
    first.request(&world.forwarder).await.unwrap();
    assert_eq!(
        world.pod.addresses("nsm-1"),
        ["172.16.1.2/32", "2001:db8:1::2/128"]
    );
}

async fn an_endpoint_that_asks_for_one_name_for_all_keeps_nobody_away() {
    let world = World::new();
    let mut clients: Vec<Client> = (0..3)
        .map(|n| world.client(&format!("nsc-{n}"), &format!("nsm-{n}"), n + 1))
        .collect();
    for n in 0..3 {
        let id = format!("nsc-{n}");
        world
            .far_end
            .change(&id, |answer| answer.interface = Some("client".to_owned()));
    }
    for client in &mut clients {
        client.request(&world.forwarder).await.unwrap();
    }

    assert_eq!(world.endpoint.names().len(), 3);
    assert!(world.endpoint.names().contains(&"client".to_owned()));
    // Whoever has it leaves, and nobody else's interface is made anew for it.
    clients[0].close(&world.forwarder).await.unwrap();
    let quiet = world.quiet();
    for client in &mut clients[1..] {
        client.request(&world.forwarder).await.unwrap();
    }
    quiet.was_kept(&world);
}

async fn clients_of_two_pods_with_one_id_do_not_meet() {
    let world = World::new();
    let other_pod = injection_suite::Place::new();
    let mut here = world.client("nsc-0", "nsm-1", 1);
    let mut there = here.clone();
    there.move_to(&other_pod);
    // Two forwarder ids, as two clients have.
    let other_forwarder = Forwarder::start(&world.far_end);

    here.request(&world.forwarder).await.unwrap();
    there.request(&other_forwarder).await.unwrap();

    assert_eq!(world.endpoint.names().len(), 2);
    there.close(&other_forwarder).await.unwrap();
    assert_eq!(world.endpoint.names().len(), 1);
    assert_eq!(world.pod.names(), ["nsm-1"]);
    assert!(other_pod.names().is_empty());
}

async fn a_second_forwarder_with_its_own_number_touches_nothing() {
    let world = World::new();
    let client = world.connected("nsc-0", "nsm-1", 1).await;
    let other = Forwarder::start_as("other", 77, &world.far_end);
    let quiet = world.quiet();

    client.clone().request(&other).await.unwrap_err();
    client.close(&other).await.unwrap();

    quiet.was_kept(&world);
}
