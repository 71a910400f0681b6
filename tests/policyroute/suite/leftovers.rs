//! Rules of ours that nobody claims, as a former process leaves them.

use crate::{GRACE, cases, pass};
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, OpKind, Route};
use policyroute_suite::{Draft, Machine, Pod, Process, connection, policy, rule};
use std::sync::Arc;
use std::time::Duration;

cases![
    a_dead_rule_goes_at_once_when_its_connection_drops_it,
    a_working_rule_of_its_own_interface_goes_at_once_when_its_connection_drops_it,
    a_working_rule_of_another_interface_stays_when_a_connection_drops_it,
    a_working_rule_that_nobody_named_stays,
    a_dead_rule_that_nobody_named_goes_after_grace_without_any_call,
    a_dead_rule_that_comes_to_life_again_stays,
    a_rule_that_works_again_and_dies_again_has_the_whole_grace,
    a_connection_that_a_close_names_and_nobody_claims_goes_after_grace,
    a_connection_that_returns_within_grace_keeps_what_its_close_had_named,
    an_answer_without_policies_takes_back_what_the_request_still_names,
    a_rule_of_ours_with_a_condition_that_no_policy_has_is_a_left_over,
    what_is_due_while_nothing_can_be_read_is_tried_in_measured_steps,
    a_call_that_fails_does_not_bring_the_next_try_forward,
    the_namespace_is_let_go_when_the_last_left_over_has_gone,
];

async fn a_dead_rule_goes_at_once_when_its_connection_drops_it<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-1").await;
    pod.delete_link("nsm-1");

    let process = Process::start(&pod);
    process.request_answered(&old(), &new()).await.unwrap();

    assert_eq!(pod.ours(), NEW);
}

async fn a_working_rule_of_its_own_interface_goes_at_once_when_its_connection_drops_it<
    M: Machine,
>(
    pod: Pod<M>,
) {
    left_by_a_former_process(&pod, "nsm-0").await;

    let process = Process::start(&pod);
    process.request_answered(&old(), &new()).await.unwrap();

    assert_eq!(pod.ours(), NEW);
}

async fn a_working_rule_of_another_interface_stays_when_a_connection_drops_it<M: Machine>(
    pod: Pod<M>,
) {
    left_by_a_former_process(&pod, "nsm-1").await;

    let process = Process::start(&pod);
    process.request_answered(&old(), &new()).await.unwrap();
    pass(2 * GRACE).await;

    assert_eq!(
        pod.ours()[0],
        "31745: from 10.1.0.1 -> 20000: default dev nsm-1"
    );
    assert_eq!(pod.ours().len(), 2);
}

async fn a_working_rule_that_nobody_named_stays<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-0").await;

    let process = Process::start(&pod);
    process.request(&new()).await.unwrap();
    pass(100 * GRACE).await;
    process.request(&new()).await.unwrap();

    assert_eq!(pod.ours().len(), 2);
}

async fn a_dead_rule_that_nobody_named_goes_after_grace_without_any_call<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-1").await;
    pod.delete_link("nsm-1");
    let process = Process::start(&pod);
    process.request(&new()).await.unwrap();

    pass(GRACE - SECOND).await;
    assert_eq!(pod.ours().len(), 2);
    pass(SECOND).await;
    assert_eq!(pod.ours(), NEW);
}

async fn a_dead_rule_that_comes_to_life_again_stays<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-1").await;
    pod.remake_link("nsm-1");
    let process = Process::start(&pod);
    process.request(&new()).await.unwrap();

    pass(GRACE / 2).await;
    revive(&pod);
    pass(10 * GRACE).await;

    assert_eq!(pod.ours().len(), 2);
}

async fn a_rule_that_works_again_and_dies_again_has_the_whole_grace<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-1").await;
    pod.remake_link("nsm-1");
    let process = Process::start(&pod);
    process.request(&new()).await.unwrap();
    pass(GRACE / 2).await;
    revive(&pod);
    process.request(&new()).await.unwrap();
    pod.delete_link("nsm-1");
    process.request(&new()).await.unwrap();

    pass(GRACE - SECOND).await;
    assert_eq!(pod.ours().len(), 2);
    pass(SECOND).await;
    assert_eq!(pod.ours(), NEW);
}

async fn a_connection_that_a_close_names_and_nobody_claims_goes_after_grace<M: Machine>(
    pod: Pod<M>,
) {
    left_by_a_former_process(&pod, "nsm-0").await;
    let before = pod.snapshot();
    let process = Process::start(&pod);

    process.close(&old()).await.unwrap();
    assert_eq!(pod.snapshot(), before);
    pass(GRACE - SECOND).await;
    assert_eq!(pod.snapshot(), before);

    pass(SECOND).await;
    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn a_connection_that_returns_within_grace_keeps_what_its_close_had_named<M: Machine>(
    pod: Pod<M>,
) {
    left_by_a_former_process(&pod, "nsm-0").await;
    let before = pod.snapshot();
    let process = Process::start(&pod);
    process.close(&old()).await.unwrap();

    pass(GRACE / 2).await;
    process.request(&old()).await.unwrap();
    pass(2 * GRACE).await;

    assert_eq!(pod.snapshot(), before);
}

async fn an_answer_without_policies_takes_back_what_the_request_still_names<M: Machine>(
    pod: Pod<M>,
) {
    left_by_a_former_process(&pod, "nsm-0").await;

    let process = Process::start(&pod);
    process
        .request_answered(&old(), &connection("c"))
        .await
        .unwrap();

    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn a_rule_of_ours_with_a_condition_that_no_policy_has_is_a_left_over<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let mut marked = rule(31745, "10.1.0.2/32", 20000, 78);
    marked.rest.insert(FRA_FWMARK, &5u32.to_ne_bytes());
    pod.add_rule(&marked);
    let process = Process::start(&pod);

    process.request(&new()).await.unwrap();
    assert_eq!(pod.ours()[1..], NEW);

    pass(GRACE).await;
    assert_eq!(pod.ours(), NEW);
}

async fn what_is_due_while_nothing_can_be_read_is_tried_in_measured_steps<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-1").await;
    pod.delete_link("nsm-1");
    let process = Process::start(&pod);
    process.request(&new()).await.unwrap();
    pod.faults
        .set(Fault::forever(OpKind::DumpLinks, 1, Effect::TimedOut));
    pod.asked.take();

    pass(10 * GRACE).await;

    let opens = pod.asked.take().opens;
    assert!((9..=20).contains(&opens), "{opens}");
    pod.faults.clear();
    pass(GRACE).await;
    assert_eq!(pod.ours(), NEW);
}

async fn a_call_that_fails_does_not_bring_the_next_try_forward<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-1").await;
    pod.delete_link("nsm-1");
    let process = Process::start(&pod);
    process.request(&new()).await.unwrap();
    pod.faults.set(Fault::once(
        OpKind::DumpLinks,
        1,
        Effect::Errno(Errno::EPERM),
    ));
    pass(GRACE).await;
    assert_eq!(pod.faults.unconsumed(), []);
    assert_eq!(pod.ours().len(), 2);

    let elsewhere = connection("elsewhere").by("nsm-1");
    let elsewhere = elsewhere.policy(policy().from("10.1.0.3"));
    process.request(&elsewhere).await.unwrap_err();
    pass(GRACE - SECOND).await;
    assert_eq!(pod.ours().len(), 2);

    pass(SECOND).await;
    assert_eq!(pod.ours(), NEW);
}

async fn the_namespace_is_let_go_when_the_last_left_over_has_gone<M: Machine>(pod: Pod<M>) {
    left_by_a_former_process(&pod, "nsm-1").await;
    pod.delete_link("nsm-1");
    let process = Process::start(&pod);
    let held = Arc::strong_count(&pod.descriptor());
    process.request(&new()).await.unwrap();
    process.close(&new()).await.unwrap();
    assert_eq!(process.namespaces_held(), 1);

    pass(GRACE).await;

    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
    assert_eq!(Arc::strong_count(&pod.descriptor()), held);
}

const FRA_FWMARK: u16 = 10;

const SECOND: Duration = Duration::from_secs(1);

const NEW: [&str; 1] = ["31745: from 10.1.0.2 -> 20001: default dev nsm-0"];

fn old() -> Draft {
    connection("c").policy(policy().from("10.1.0.1"))
}

fn new() -> Draft {
    connection("c").policy(policy().from("10.1.0.2"))
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

/// The routes of the rule that was left are back, by the work of another process.
fn revive<M: Machine>(pod: &Pod<M>) {
    let default = pod.foreign_default(20000, "nsm-1", "");
    pod.add_route(&Route {
        protocol: 78,
        ..default
    });
}
