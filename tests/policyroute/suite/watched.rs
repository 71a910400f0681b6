//! Where the namespace is watched, what others change is repaired at once, without a request.

use crate::{AT_ONCE, at_once, cases, live};
use nsm_netlink::{Family, Kernel, Op, OpKind};
use nsm_policyroute::Config;
use policyroute_suite::{Draft, Machine, Pod, Process, config, connection, policy, rule, warnings};
use std::time::Duration;

cases![
    a_rule_that_somebody_deletes_is_put_back,
    all_rules_that_somebody_deletes_are_put_back,
    a_table_that_somebody_empties_is_filled_again,
    a_route_that_somebody_replaces_is_put_back,
    a_rule_of_ours_that_somebody_adds_twice_goes_again,
    the_routes_of_an_interface_that_was_down_are_back_when_it_is_up,
    the_routes_that_went_with_an_address_are_back_when_it_is,
    an_interface_under_another_index_gets_its_routes_before_any_request,
    an_interface_that_takes_the_name_gets_the_routes,
    the_next_older_claimant_serves_while_the_interface_of_the_holder_is_down,
    a_foreign_rule_before_ours_is_told_of_and_let_be,
    a_foreign_route_before_ours_is_told_of_and_let_be,
    what_changes_during_a_request_is_repaired_after_it,
    what_a_request_that_fails_has_found_is_repaired_after_it,
    what_could_not_be_heard_for_want_of_room_is_looked_at_once,
];

fn watching() -> Config {
    Config {
        watch: true,
        ..config()
    }
}

fn of_both_families() -> Draft {
    connection("c")
        .source("172.16.1.2/32")
        .source("2001:db8::2/128")
        .policies([
            policy()
                .from("10.1.0.1")
                .via("172.16.1.1")
                .route("10.9.0.0/16", ""),
            policy().from("10.1.0.1").tcp(443).via("172.16.1.9"),
            policy()
                .from("2001:db8::1")
                .via("fe80::1")
                .route("2001:db8:9::/48", ""),
            policy().udp(6666),
        ])
}

/// A connection in a pod that is watched.
async fn start<M: Machine>(pod: &Pod<M>) -> Process<M> {
    pod.add_link("nsm-0");
    let process = Process::start_with(pod, watching());
    process.request(&of_both_families()).await.unwrap();
    process
}

/// What somebody does is repaired, and again when he does it again.
async fn repaired_each_time<M: Machine>(pod: Pod<M>, disturb: impl Fn(&Pod<M>)) {
    let _process = start(&pod).await;
    let mut before = pod.ours();
    before.sort();

    for _ in 0..2 {
        disturb(&pod);
        assert_ne!(sorted(&pod), before);
        at_once("all is back", || sorted(&pod) == before).await;
    }
    assert_eq!(warnings(), [""; 0]);
}

fn sorted<M: Machine>(pod: &Pod<M>) -> Vec<String> {
    let mut ours = pod.ours();
    ours.sort();
    ours
}

async fn a_rule_that_somebody_deletes_is_put_back<M: Machine>(pod: Pod<M>) {
    repaired_each_time(pod, |pod| pod.delete_rule(&pod.our_rules()[0])).await;
}

async fn all_rules_that_somebody_deletes_are_put_back<M: Machine>(pod: Pod<M>) {
    repaired_each_time(pod, |pod| {
        pod.our_rules().iter().for_each(|it| pod.delete_rule(it));
    })
    .await;
}

async fn a_table_that_somebody_empties_is_filled_again<M: Machine>(pod: Pod<M>) {
    repaired_each_time(pod, |pod| {
        pod.our_routes().iter().for_each(|it| pod.delete_route(it));
    })
    .await;
}

/// The kernel tells only of what takes the place.
async fn a_route_that_somebody_replaces_is_put_back<M: Machine>(pod: Pod<M>) {
    let _process = start(&pod).await;
    pod.add_link("eth1");
    for _ in 0..2 {
        let ours = pod.our_routes().remove(0);
        let theirs = pod.foreign_default(ours.table, "eth1", "172.16.7.1");
        assert_eq!(theirs.prefix, ours.prefix);
        pod.replace_route(&theirs);
        assert!(!pod.our_routes().contains(&ours));

        at_once("the route is back", || pod.our_routes().contains(&ours)).await;

        assert!(
            pod.snapshot()
                .routes
                .iter()
                .any(|it| it.protocol == theirs.protocol && it.table == ours.table)
        );
        pod.delete_route(&theirs);
        live(AT_ONCE).await;
    }
}

async fn a_rule_of_ours_that_somebody_adds_twice_goes_again<M: Machine>(pod: Pod<M>) {
    let _process = start(&pod).await;
    let before = pod.snapshot();
    for _ in 0..2 {
        let mut twin = pod.our_rules().remove(0);
        twin.priority += 1;
        pod.add_rule(&twin);

        at_once("the twin is gone", || pod.snapshot() == before).await;
    }
}

async fn the_routes_of_an_interface_that_was_down_are_back_when_it_is_up<M: Machine>(pod: Pod<M>) {
    let _process = start(&pod).await;
    let before = pod.ours();
    pod.events();
    for _ in 0..2 {
        pod.set_down("nsm-0");
        live(AT_ONCE).await;
        assert_eq!(pod.our_routes(), []);
        pod.set_up("nsm-0");

        at_once("the routes are back", || pod.ours() == before).await;
    }
    // And down and up before anybody could look.
    pod.set_down("nsm-0");
    pod.set_up("nsm-0");
    at_once("the routes are back", || pod.ours() == before).await;
    assert_eq!(pod.rule_events(), []);
}

/// IPv4 drops them without a word.
async fn the_routes_that_went_with_an_address_are_back_when_it_is<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_address("nsm-0", "172.16.1.2/24");
    let process = Process::start_with(&pod, watching());
    process.request(&of_both_families()).await.unwrap();
    let before = pod.ours();
    pod.events();
    for _ in 0..2 {
        pod.remove_address("nsm-0", "172.16.1.2/24");
        assert_ne!(pod.ours(), before);
        at_once("the routes are back", || pod.ours() == before).await;

        pod.add_address("nsm-0", "172.16.1.2/24");
        live(AT_ONCE).await;
        assert_eq!(pod.ours(), before);
    }
    assert_eq!(pod.rule_events(), []);
}

async fn an_interface_under_another_index_gets_its_routes_before_any_request<M: Machine>(
    pod: Pod<M>,
) {
    let _process = start(&pod).await;
    let before = pod.ours();
    pod.events();
    for wait in [Duration::ZERO, AT_ONCE] {
        pod.delete_link("nsm-0");
        live(wait).await;
        pod.add_link("nsm-0");

        at_once("the routes are back", || pod.ours() == before).await;

        // It is known by its new index, too.
        pod.add_address("nsm-0", "172.16.1.2/24");
        pod.remove_address("nsm-0", "172.16.1.2/24");
        assert_ne!(pod.ours(), before);
        at_once("the routes are back", || pod.ours() == before).await;
    }
    assert_eq!(pod.rule_events(), []);
}

/// Its former holder is nothing any more, whatever happens to it.
async fn an_interface_that_takes_the_name_gets_the_routes<M: Machine>(pod: Pod<M>) {
    let _process = start(&pod).await;
    let before = pod.ours();
    for _ in 0..2 {
        pod.delete_link("nsm-0");
        pod.add_link("other");
        live(AT_ONCE).await;
        assert_eq!(pod.our_routes(), []);
        pod.delete_link("other");
        pod.add_link("nsm-0");
        at_once("the routes are back", || pod.ours() == before).await;
    }
}

async fn the_next_older_claimant_serves_while_the_interface_of_the_holder_is_down<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start_with(&pod, watching());
    let older = connection("older").policy(policy().from("10.1.0.1"));
    let holder = connection("holder")
        .by("nsm-1")
        .policy(policy().from("10.1.0.1"));
    process.request(&older).await.unwrap();
    process.request(&holder).await.unwrap();
    let held = pod.ours();
    assert!(held[0].ends_with("dev nsm-1"), "{held:?}");

    pod.set_down("nsm-1");
    at_once("the older one serves", || {
        pod.ours()[0].ends_with("dev nsm-0")
    })
    .await;
    pod.set_up("nsm-1");
    at_once("the holder serves again", || pod.ours() == held).await;
}

async fn a_foreign_rule_before_ours_is_told_of_and_let_be<M: Machine>(pod: Pod<M>) {
    let _process = start(&pod).await;
    pod.asked.take();
    pod.watch.bursts();
    let theirs = rule(100, "10.1.0.0/16", 100, 4);
    pod.add_rule(&theirs);

    let told = || {
        warnings()
            .iter()
            .filter(|it| it.contains("shadowed"))
            .count()
    };
    let mut seen = 0;
    for _ in 0..20 {
        live(Duration::from_millis(5)).await;
        seen += told();
    }
    assert_eq!(seen, 2, "one for each policy that it covers");
    assert_eq!(pod.watch.writes(), []);
    assert!(pod.snapshot().rules.contains(&theirs));
}

async fn a_foreign_route_before_ours_is_told_of_and_let_be<M: Machine>(pod: Pod<M>) {
    let _process = start(&pod).await;
    pod.add_link("eth1");
    live(AT_ONCE).await;
    pod.watch.bursts();
    let ours = pod.our_routes().remove(0);
    assert!(ours.metric == 0 && ours.family() == Family::V4);
    let theirs = pod.foreign_default(ours.table, "eth1", "172.16.7.1");
    pod.delete_route(&ours);
    pod.add_route(&theirs);

    at_once("ours is back", || pod.our_routes().contains(&ours)).await;
    live(AT_ONCE).await;

    let warnings = warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("taken before ours"), "{warnings:?}");
    assert_eq!(pod.watch.writes().len(), 1);
}

/// Between its reading and its end, when nobody else listens.
async fn what_changes_during_a_request_is_repaired_after_it<M: Machine>(pod: Pod<M>) {
    let process = start(&pod).await;
    let before = sorted(&pod);
    let more = connection("more").policy(policy().from("10.2.0.1"));
    let (at_work, go_on) = pod.stop_at(OpKind::AddRule);
    let asking = tokio::spawn({
        let (process, pod, more) = (process.clone(), pod.clone(), more.clone());
        async move { process.call(policyroute_suite::request(&more, &pod)).await }
    });
    at_work.await.unwrap();
    pod.delete_rule(&pod.our_rules()[0]);
    go_on.send(()).unwrap();
    asking.await.unwrap().unwrap();

    at_once("the rule is back", || {
        before.iter().all(|line| pod.ours().contains(line))
    })
    .await;
}

async fn what_a_request_that_fails_has_found_is_repaired_after_it<M: Machine>(pod: Pod<M>) {
    let process = start(&pod).await;
    let before = sorted(&pod);
    let more = connection("more")
        .by("nowhere")
        .policy(policy().from("10.2.0.1"));
    pod.delete_rule(&pod.our_rules()[0]);

    process.request(&more).await.unwrap_err();

    at_once("the rule is back", || sorted(&pod) == before).await;
}

/// Thousands of foreign rules come and go while a reconcile is at work.
async fn what_could_not_be_heard_for_want_of_room_is_looked_at_once<M: Machine>(pod: Pod<M>) {
    let process = start(&pod).await;
    let before = sorted(&pod);
    pod.delete_rule(&pod.our_rules()[1]);
    let (at_work, go_on) = pod.stop_at(OpKind::AddRule);
    let refreshing = tokio::spawn({
        let (process, pod) = (process.clone(), pod.clone());
        async move {
            process
                .call(policyroute_suite::request(&of_both_families(), &pod))
                .await
        }
    });
    at_work.await.unwrap();
    let foreign = (1..=1000).map(|i| rule(i, "10.77.0.1/32", 100, 4));
    let comes: Vec<_> = foreign.clone().map(Op::AddRule).collect();
    let goes: Vec<_> = foreign.map(Op::DelRule).collect();
    let mut kernel = pod.kernel();
    for _ in 0..16 {
        for burst in [&comes, &goes] {
            kernel.execute(burst).unwrap();
        }
    }
    // Nobody hears of this.
    pod.delete_rule(&pod.our_rules()[0]);
    pod.asked.take();
    go_on.send(()).unwrap();
    refreshing.await.unwrap().unwrap();

    at_once("the rule is back", || sorted(&pod) == before).await;
    live(Duration::from_secs(2)).await;

    let asked = pod.asked.take();
    assert_eq!(asked.of(OpKind::DumpLinks), 1, "one look after the refresh");
    assert_eq!(asked.writes(), 1);
    pod.delete_rule(&pod.our_rules()[0]);
    at_once("it is heard further", || sorted(&pod) == before).await;
}
