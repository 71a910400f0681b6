//! Somebody has taken away what stood, and the next request brings it back where it was.

use crate::cases;
use policyroute_suite::{Draft, Machine, Pod, Process, connection, policy};

cases![
    a_rule_that_somebody_deletes_is_back_on_its_table,
    a_route_that_somebody_deletes_is_back_behind_its_rule,
    a_rule_and_its_routes_that_somebody_deletes_are_back,
    drift_is_repaired_each_time,
    rules_that_somebody_flushes_are_back_on_the_tables_that_still_have_their_routes,
    a_table_that_has_lost_its_rule_is_given_to_no_other_policy,
    an_interface_that_was_down_gets_its_routes_back_and_no_rule_changes,
    routes_that_went_with_the_last_address_are_back,
    a_rule_does_not_come_back_in_front_of_an_empty_table,
];

/// Of each kind one.
fn of_all_kinds() -> Draft {
    connection("c")
        .source("172.16.1.2/32")
        .source("2001:db8::2/128")
        .policies([
            policy()
                .from("10.1.0.1")
                .via("172.16.1.1")
                .route("10.9.0.0/16", ""),
            policy().from("10.1.0.1").tcp(443).via("172.16.1.9"),
            policy().from("10.1.1.0/24").sport("1024-2047"),
            policy()
                .from("2001:db8::1")
                .via("fe80::1")
                .route("2001:db8:9::/48", ""),
            policy().udp(6666),
        ])
}

async fn a_rule_that_somebody_deletes_is_back_on_its_table<M: Machine>(pod: Pod<M>) {
    lost_is_back(pod, |pod| pod.delete_rule(&pod.our_rules()[0])).await;
}

async fn a_route_that_somebody_deletes_is_back_behind_its_rule<M: Machine>(pod: Pod<M>) {
    lost_is_back(pod, |pod| pod.delete_route(&pod.our_routes()[1])).await;
}

async fn a_rule_and_its_routes_that_somebody_deletes_are_back<M: Machine>(pod: Pod<M>) {
    lost_is_back(pod, |pod| {
        pod.delete_rule(&pod.our_rules()[0]);
        pod.our_routes()
            .iter()
            .for_each(|route| pod.delete_route(route));
    })
    .await;
}

async fn drift_is_repaired_each_time<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let asked = connection("c").policies(many(3));
    process.request(&asked).await.unwrap();
    let before = pod.ours();

    for i in [0, 0, 1, 2, 1] {
        pod.delete_rule(&pod.our_rules()[i]);
        process.request(&asked).await.unwrap();
        let mut after = pod.ours();
        after.sort();
        let mut before = before.clone();
        before.sort();
        assert_eq!(after, before);
    }
}

async fn rules_that_somebody_flushes_are_back_on_the_tables_that_still_have_their_routes<
    M: Machine,
>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let by_id = ["c1", "c2", "c3"].map(|id| {
        let from = id.replace('c', "10.1.0.");
        let narrow = policy().from(&from).tcp(443);
        connection(id).policies([narrow, policy().from(&from)])
    });
    for asked in &by_id {
        process.request(asked).await.unwrap();
    }
    let before = pod.ours();
    pod.our_rules()
        .iter()
        .for_each(|rule| pod.delete_rule(rule));
    pod.watch.bursts();

    for asked in by_id.iter().rev() {
        process.request(asked).await.unwrap();
    }

    let mut after = pod.ours();
    after.sort();
    let mut sorted = before;
    sorted.sort();
    assert_eq!(after, sorted);
    assert_eq!(pod.watch.writes().len(), 6);
}

/// Though the other one stands first in the list and wants just what lies there.
async fn a_table_that_has_lost_its_rule_is_given_to_no_other_policy<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let old = policy().from("10.1.0.1");
    let asked = connection("c").policy(old.clone());
    process.request(&asked).await.unwrap();
    let before = pod.ours();
    pod.delete_rule(&pod.our_rules()[0]);

    let new = policy().from("10.1.0.0/24").proto("tcp");
    let more = connection("c").policies([new, old]);
    process.request(&more).await.unwrap();

    assert_eq!(
        pod.ours(),
        [
            &*before[0],
            "31880: from 10.1.0.0/24 ipproto tcp -> 20001: default dev nsm-0",
        ]
    );
}

async fn an_interface_that_was_down_gets_its_routes_back_and_no_rule_changes<M: Machine>(
    pod: Pod<M>,
) {
    for restart in [false, true] {
        pod.add_link("nsm-0");
        let mut process = Process::start(&pod);
        process.request(&of_all_kinds()).await.unwrap();
        let before = pod.ours();
        pod.set_down("nsm-0");
        pod.set_up("nsm-0");
        assert_eq!(pod.our_routes(), []);
        pod.events();

        if restart {
            process = Process::start(&pod);
        }
        process.request(&of_all_kinds()).await.unwrap();

        assert_eq!(pod.ours(), before);
        assert_eq!(pod.rule_events(), []);
        process.close(&of_all_kinds()).await.unwrap();
        pod.delete_link("nsm-0");
    }
}

/// IPv4 drops them without a word.
async fn routes_that_went_with_the_last_address_are_back<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_address("nsm-0", "172.16.1.2/24");
    let process = Process::start(&pod);
    process.request(&of_all_kinds()).await.unwrap();
    let before = pod.ours();
    pod.remove_address("nsm-0", "172.16.1.2/24");
    pod.add_address("nsm-0", "172.16.1.2/24");
    assert_ne!(pod.ours(), before);
    pod.events();

    process.request(&of_all_kinds()).await.unwrap();

    assert_eq!(pod.ours(), before);
    assert_eq!(pod.rule_events(), []);
}

/// Its traffic would go past it, to the main table. The table stays its own meanwhile.
async fn a_rule_does_not_come_back_in_front_of_an_empty_table<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start(&pod);
    let other = connection("other").by("nsm-1");
    let other = other.policy(policy().from("10.1.0.2"));
    let waits = connection("waits").policy(policy().from("10.1.0.1"));
    process.request(&other).await.unwrap();
    process.request(&waits).await.unwrap();
    let back = pod.ours().remove(1);
    pod.delete_link("nsm-0");
    pod.delete_rule(&pod.our_rules()[1]);

    let more = other.policy(policy().from("10.1.0.3"));
    process.request(&more).await.unwrap();
    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.1.0.2 -> 20000: default dev nsm-1",
            "31745: from 10.1.0.3 -> 20002: default dev nsm-1",
        ]
    );

    pod.add_link("nsm-0");
    process.request(&waits).await.unwrap();
    assert_eq!(pod.ours().pop(), Some(back));
}

/// Something of one policy's is lost; the next request brings it back where it was, be it a
/// refresh or the first after a restart.
async fn lost_is_back<M: Machine>(pod: Pod<M>, lose: impl Fn(&Pod<M>)) {
    pod.add_link("nsm-0");
    let both = policy()
        .from("10.1.0.1")
        .via("172.16.1.1")
        .route("10.9.0.0/16", "");
    let asked = connection("c").policy(both);
    let mut process = Process::start(&pod);
    process.request(&asked).await.unwrap();
    let before = pod.snapshot();

    for _ in 0..2 {
        lose(&pod);
        assert_ne!(pod.snapshot(), before);
        process.request(&asked).await.unwrap();
        assert_eq!(pod.snapshot(), before);
        process = Process::start(&pod);
    }
}

fn many(count: usize) -> Vec<policyroute_suite::PolicyDraft> {
    (1..=count)
        .map(|i| policy().from(&format!("10.1.{}.{}", i / 256, i % 256)))
        .collect()
}
