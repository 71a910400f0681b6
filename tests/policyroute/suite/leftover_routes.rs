//! Routes of ours that nobody wants, in a table that is kept or in one that no rule looks up.

use crate::{GRACE, cases, pass};
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, OpKind};
use policyroute_suite::{Draft, Machine, Pod, Process, connection, policy, rule};
use std::time::Duration;

cases![
    a_route_of_the_claimants_interface_that_nobody_wants_goes_at_once,
    a_route_of_another_interface_that_nobody_wants_stays_until_its_rule_goes,
    a_route_of_another_interface_goes_where_a_claim_wants_its_prefix_otherwise,
    a_route_that_is_asked_for_and_not_answered_goes_at_once,
    a_route_that_could_not_be_removed_goes_later,
    a_route_that_could_not_be_taken_back_goes_later,
    a_route_of_a_shared_policy_whose_close_could_not_be_done_goes_later,
    routes_that_no_rule_looks_up_go_at_once,
    routes_of_another_interface_that_no_rule_looks_up_are_left_to_another_process_for_a_while,
    nor_are_they_taken_for_the_other_family_of_a_policy,
    routes_of_this_interface_are_taken_for_the_other_family_of_a_policy,
];

async fn a_route_of_the_claimants_interface_that_nobody_wants_goes_at_once<M: Machine>(
    pod: Pod<M>,
) {
    left_by_a_former_process(&pod, "nsm-0").await;
    add_route(&pod, "10.9.0.0/16", "nsm-0");

    Process::start(&pod).request(&old()).await.unwrap();

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default dev nsm-0"]
    );
}

async fn a_route_of_another_interface_that_nobody_wants_stays_until_its_rule_goes<M: Machine>(
    pod: Pod<M>,
) {
    left_by_a_former_process(&pod, "nsm-0").await;
    pod.add_link("nsm-1");
    add_route(&pod, "10.9.0.0/16", "nsm-1");
    let process = Process::start(&pod);

    process.request(&old()).await.unwrap();
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default dev nsm-0, 10.9.0.0/16 dev nsm-1"]
    );

    process.close(&old()).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
}

async fn a_route_of_another_interface_goes_where_a_claim_wants_its_prefix_otherwise<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let elsewhere = policy().from("10.1.0.1").via("172.16.16.1");
    let left = connection("c").by("nsm-1").policy(elsewhere);
    Process::start(&pod).request(&left).await.unwrap();

    Process::start(&pod).request(&old()).await.unwrap();

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default dev nsm-0"]
    );
}

async fn a_route_that_is_asked_for_and_not_answered_goes_at_once<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-0").await;
    pod.add_link("nsm-1");
    add_route(&pod, "10.9.0.0/16", "nsm-1");
    let asked = connection("c").policy(policy().from("10.1.0.1").route("10.9.0.0/16", ""));

    let process = Process::start(&pod);
    process.request_answered(&asked, &old()).await.unwrap();

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default dev nsm-0"]
    );
}

async fn a_route_that_could_not_be_removed_goes_later<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-0").await;
    pod.add_link("nsm-1");
    let process = Process::start(&pod);
    process.request(&old()).await.unwrap();
    refuse(&pod, OpKind::DelRoute, 1);

    process.request(&moved()).await.unwrap();
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default dev nsm-0, 10.9.0.0/16 dev nsm-1"]
    );

    pass(GRACE).await;
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: 10.9.0.0/16 dev nsm-1"]
    );
}

async fn a_route_that_could_not_be_taken_back_goes_later<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-0").await;
    pod.add_link("nsm-1");
    let process = Process::start(&pod);
    process.request(&old()).await.unwrap();
    refuse(&pod, OpKind::AddRule, 1);
    // The last that was added goes first.
    refuse(&pod, OpKind::DelRoute, 2);

    let more = moved().policy(policy().from("10.1.0.2"));
    process.request(&more).await.unwrap_err();
    assert_eq!(pod.faults.unconsumed(), []);
    pass(GRACE).await;

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default dev nsm-0"]
    );
}

async fn a_route_of_a_shared_policy_whose_close_could_not_be_done_goes_later<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start(&pod);
    let stays = connection("stays").policy(policy().from("10.1.0.1"));
    process.request(&stays).await.unwrap();
    process.request(&moved()).await.unwrap();
    refuse(&pod, OpKind::DumpRules, 1);

    process.close(&moved()).await.unwrap_err();
    pass(GRACE).await;

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default dev nsm-0"]
    );
}

/// As a process leaves them that ends between its routes and its rule.
async fn routes_that_no_rule_looks_up_go_at_once<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-0").await;
    pod.delete_rule(&rule(31745, "10.1.0.1/32", 20000, 78));

    let elsewhere = connection("c").policy(policy().from("10.1.0.2").via("172.16.1.1"));
    Process::start(&pod).request(&elsewhere).await.unwrap();

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.2 -> 20001: default via 172.16.1.1 dev nsm-0"]
    );
}

async fn routes_of_another_interface_that_no_rule_looks_up_are_left_to_another_process_for_a_while<
    M: Machine,
>(
    pod: Pod<M>,
) {
    left_by_a_former_process(&pod, "nsm-1").await;
    pod.delete_rule(&rule(31745, "10.1.0.1/32", 20000, 78));

    let elsewhere = connection("c").policy(policy().from("10.1.0.2").via("172.16.1.1"));
    let process = Process::start(&pod);
    process.request(&elsewhere).await.unwrap();

    let ours = "31745: from 10.1.0.2 -> 20001: default via 172.16.1.1 dev nsm-0";
    assert_eq!(pod.ours(), [ours, "20000: default dev nsm-1"]);
    pass(Duration::from_secs(10)).await;
    assert_eq!(pod.ours(), [ours]);
}

/// The table id is the other family's, and would be shared.
async fn nor_are_they_taken_for_the_other_family_of_a_policy<M: Machine>(pod: Pod<M>) {
    left_in_both_families(&pod, "nsm-1");

    let process = Process::start(&pod);
    process.request(&both_families()).await.unwrap();

    let ours = [
        "32310: from all ipproto udp dport 6666 -> 20000: default dev nsm-0",
        "32310: from all ipproto udp dport 6666 -> 20001: default dev nsm-0",
    ];
    assert_eq!(pod.ours()[..2], ours);
    assert_eq!(pod.ours()[2..], ["20000: 2001:db8:9::/48 dev nsm-1"]);
    pass(Duration::from_secs(10)).await;
    assert_eq!(pod.ours(), ours);
}

async fn routes_of_this_interface_are_taken_for_the_other_family_of_a_policy<M: Machine>(
    pod: Pod<M>,
) {
    left_in_both_families(&pod, "nsm-0");

    Process::start(&pod)
        .request(&both_families())
        .await
        .unwrap();

    assert_eq!(
        pod.ours(),
        ["32310: from all ipproto udp dport 6666 -> 20000: default dev nsm-0"; 2]
    );
}

fn refuse<M: Machine>(pod: &Pod<M>, op: OpKind, nth: usize) {
    let refused = Effect::Errno(Errno::EPERM);
    pod.faults.set(Fault::once(op, nth, refused));
}

/// The connection of [`old`] by another interface.
fn moved() -> Draft {
    let narrow = policy().from("10.1.0.1").route("10.9.0.0/16", "");
    connection("c").by("nsm-1").policy(narrow)
}

fn both_families() -> Draft {
    connection("c")
        .source("172.16.1.2/32")
        .source("2001:db8::2/128")
        .policy(policy().udp(6666))
}

/// Just what such a policy wants in IPv4, and another route by `dev` in IPv6; no rule.
fn left_in_both_families<M: Machine>(pod: &Pod<M>, dev: &str) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    add_route(pod, "0.0.0.0/0", "nsm-0");
    add_route(pod, "2001:db8:9::/48", dev);
}

fn old() -> Draft {
    connection("c").policy(policy().from("10.1.0.1"))
}

/// One policy of a connection by that interface. There is a `nsm-0` too.
async fn left_by_a_former_process<M: Machine>(pod: &Pod<M>, interface: &str) {
    pod.add_link("nsm-0");
    if interface != "nsm-0" {
        pod.add_link(interface);
    }
    Process::start(pod)
        .request(&old().by(interface))
        .await
        .unwrap();
}

fn add_route<M: Machine>(pod: &Pod<M>, prefix: &str, dev: &str) {
    let mut route = pod.foreign_default(20000, dev, "");
    route.protocol = 78;
    route.prefix = prefix.parse().unwrap();
    pod.add_route(&route);
}
