//! What a new process makes of what a former one has left.

use crate::cases;
use nsm_netlink::{Change, Event, Object};
use policyroute_suite::{Draft, Machine, Pod, Process, connection, policy, request, rule};

cases![
    links_that_were_remade_get_only_their_routes_back,
    links_that_were_remade_get_only_their_routes_back_in_parallel,
    duplicates_of_a_wanted_rule_are_removed_with_their_tables,
    a_duplicate_that_serves_stays_while_the_interface_of_the_kept_rule_is_away,
    a_rule_at_another_priority_is_moved_before_the_old_one_goes,
    a_dead_rule_of_ours_does_not_win_over_the_new_one,
    what_was_lost_in_one_family_is_back_and_the_other_is_kept,
    one_selector_in_both_families_is_two_policies,
    a_selector_that_changes_over_a_restart_leaves_nothing_old,
    a_table_whose_rule_was_never_made_is_taken_up,
];

/// The fault that the project exists for: two connections, two policies each with one default
/// route. They come back in another order, on interfaces that are new.
async fn links_that_were_remade_get_only_their_routes_back<M: Machine>(pod: Pod<M>) {
    let [c1, c2] = two_connections();
    let before = installed_and_links_remade(&pod, [&c1, &c2]).await;

    let process = Process::start(&pod);
    process.request(&c2).await.unwrap();
    process.request(&c1).await.unwrap();

    assert_eq!(pod.ours(), before);
    only_routes_came(&pod);
}

async fn links_that_were_remade_get_only_their_routes_back_in_parallel<M: Machine>(pod: Pod<M>) {
    let [c1, c2] = two_connections();
    let before = installed_and_links_remade(&pod, [&c1, &c2]).await;

    let process = Process::start(&pod);
    let requests = [&c2, &c1].map(|asked| tokio::spawn(process.call(request(asked, &pod))));
    for request in requests {
        request.await.unwrap().unwrap();
    }

    assert_eq!(pod.ours(), before);
    only_routes_came(&pod);
}

async fn duplicates_of_a_wanted_rule_are_removed_with_their_tables<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    for table in 20003..20008 {
        pod.add_rule(&rule(31745, "10.1.0.1/32", table, 78));
        let default = pod.foreign_default(table, "nsm-0", "");
        pod.add_route(&nsm_netlink::Route {
            protocol: 78,
            ..default
        });
    }
    pod.events();

    let asked = connection("c").policy(policy().from("10.1.0.1"));
    Process::start(&pod).request(&asked).await.unwrap();

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20003: default dev nsm-0"]
    );
    let came = pod
        .events()
        .into_iter()
        .filter(|event| event.change == Change::Added);
    assert_eq!(came.count(), 0);
}

/// Without it the policy's traffic would leave by the main table.
async fn a_duplicate_that_serves_stays_while_the_interface_of_the_kept_rule_is_away<M: Machine>(
    pod: Pod<M>,
) {
    let kept = "31745: from 10.1.0.1 -> 20000: default dev nsm-0";
    let duplicate = "31745: from 10.1.0.1 -> 20005: default dev nsm-1";
    for (wanted_meanwhile, rest) in [
        (policy().from("10.1.0.2"), ""),
        (
            policy().from("10.1.0.1").route("10.9.0.0/16", ""),
            "10.9.0.0/16 dev nsm-1",
        ),
    ] {
        pod.add_link("nsm-0");
        pod.add_link("nsm-1");
        let process = Process::start(&pod);
        let asked = connection("c").policy(policy().from("10.1.0.1"));
        process.request(&asked).await.unwrap();
        pod.add_rule(&rule(31745, "10.1.0.1/32", 20005, 78));
        let default = pod.foreign_default(20005, "nsm-1", "");
        pod.add_route(&nsm_netlink::Route {
            protocol: 78,
            ..default
        });
        pod.set_down("nsm-0");

        let meanwhile = connection("other").by("nsm-1").policy(wanted_meanwhile);
        process.request(&meanwhile).await.unwrap();
        assert_eq!(
            pod.ours()[..2],
            [
                format!("31745: from 10.1.0.1 -> 20000: {rest}"),
                duplicate.to_owned()
            ]
        );

        process.close(&meanwhile).await.unwrap();
        pod.set_up("nsm-0");
        process.request(&asked).await.unwrap();
        assert_eq!(pod.ours(), [kept]);
        process.close(&asked).await.unwrap();
        pod.delete_link("nsm-0");
        pod.delete_link("nsm-1");
    }
}

async fn a_rule_at_another_priority_is_moved_before_the_old_one_goes<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let asked = connection("c").policy(policy().from("10.1.0.1"));
    Process::start(&pod).request(&asked).await.unwrap();
    let right = pod.our_rules().remove(0);
    let wrong = rule(300, "10.1.0.1/32", 20000, 78);
    pod.add_rule(&wrong);
    pod.delete_rule(&right);
    pod.events();

    Process::start(&pod).request(&asked).await.unwrap();

    let event = |change, rule| Event {
        change,
        object: Object::Rule(rule),
    };
    assert_eq!(
        pod.events(),
        [
            event(Change::Added, right.clone()),
            event(Change::Removed, wrong)
        ]
    );
    assert_eq!(pod.our_rules(), [right]);
}

async fn a_dead_rule_of_ours_does_not_win_over_the_new_one<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-1");
    pod.add_rule(&rule(300, "10.1.0.1/32", 20003, 78));

    let asked = connection("c9")
        .by("nsm-1")
        .policy(policy().from("10.1.0.1").via("172.16.1.1"));
    Process::start(&pod).request(&asked).await.unwrap();

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20003: default via 172.16.1.1 dev nsm-1"]
    );
}

async fn what_was_lost_in_one_family_is_back_and_the_other_is_kept<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let asked = connection("c").policies([policy().from("10.1.0.1"), policy().from("2001:db8::1")]);
    Process::start(&pod).request(&asked).await.unwrap();
    let before = pod.snapshot();
    let [v4, _] = <[_; 2]>::try_from(pod.our_rules()).unwrap();
    pod.delete_rule(&v4);
    pod.events();

    Process::start(&pod).request(&asked).await.unwrap();

    let object = Object::Rule(v4);
    assert_eq!(
        pod.events(),
        [Event {
            change: Change::Added,
            object
        }]
    );
    assert_eq!(pod.snapshot(), before);
}

async fn one_selector_in_both_families_is_two_policies<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let c1 = connection("c1").policy(policy().udp(6666).via("172.16.1.1"));
    let c2 = connection("c2")
        .by("nsm-1")
        .policy(policy().udp(6666).via("fe80::1"));
    let process = Process::start(&pod);
    process.request(&c1).await.unwrap();
    process.request(&c2).await.unwrap();

    let process = Process::start(&pod);
    process.request(&c1).await.unwrap();
    process.request(&c2).await.unwrap();
    process.close(&c1).await.unwrap();

    let [left] = <[_; 1]>::try_from(pod.ours()).unwrap();
    assert!(left.ends_with("default via fe80::1 dev nsm-1"), "{left}");
}

async fn a_selector_that_changes_over_a_restart_leaves_nothing_old<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let of = |proto: &str, port: &str| {
        connection("c").policy(policy().from("10.1.0.1").proto(proto).dport(port))
    };
    Process::start(&pod).request(&of("6", "80")).await.unwrap();

    // What the client has is the answer to its last request.
    let process = Process::start(&pod);
    process
        .request_answered(&of("6", "80"), &of("17", "81"))
        .await
        .unwrap();

    assert_eq!(
        pod.ours(),
        ["31734: from 10.1.0.1 ipproto udp dport 81 -> 20001: default dev nsm-0"]
    );
}

/// As a process leaves it that ends between its routes and its rule.
async fn a_table_whose_rule_was_never_made_is_taken_up<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let asked = connection("c").policy(policy().from("10.1.0.1").via("172.16.1.1"));
    Process::start(&pod).request(&asked).await.unwrap();
    let before = pod.snapshot();
    pod.delete_rule(&pod.our_rules()[0]);
    pod.watch.bursts();

    Process::start(&pod).request(&asked).await.unwrap();

    assert_eq!(pod.snapshot(), before);
    assert_eq!(pod.watch.writes().len(), 1);
}

fn two_connections() -> [Draft; 2] {
    let of = |from: &str, via: &str| policy().from(from).via(via);
    let [gate_0, gate_1, gate_6] = ["172.16.1.1", "172.16.16.1", "fe80::1"];
    [
        connection("c1").policies([of("214.14.131.113", gate_0), of("214.14.131.114", gate_0)]),
        connection("c2")
            .by("nsm-1")
            .policies([of("214.14.132.65", gate_1), of("2001:db8::66", gate_6)]),
    ]
}

/// Gives what the element had made before the interfaces went.
async fn installed_and_links_remade<M: Machine>(
    pod: &Pod<M>,
    connections: [&Draft; 2],
) -> Vec<String> {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start(pod);
    for asked in connections {
        process.request(asked).await.unwrap();
    }
    let before = pod.ours();
    pod.remake_link("nsm-1");
    pod.remake_link("nsm-0");
    assert_eq!(pod.our_routes(), []);
    assert_eq!(pod.our_rules().len(), 4);
    pod.events();
    before
}

#[track_caller]
fn only_routes_came<M: Machine>(pod: &Pod<M>) {
    let events = pod.events();
    let is_new_route =
        |event: &Event| event.change == Change::Added && matches!(event.object, Object::Route(_));
    assert_eq!(events.len(), 4);
    assert!(events.iter().all(is_new_route), "{events:?}");
}
