//! The process is killed at any point, and another one takes over.

use crate::{GRACE, cases, pass};
use nsm_netlink::OpKind;
use nsm_netlink::fault::{Effect, Fault};
use policyroute_suite::{Draft, Machine, Pod, Process, connection, policy};

cases![
    a_first_request_that_is_killed_is_made_whole_by_the_next_process,
    a_change_that_is_killed_leaves_each_policy_on_its_old_or_its_new_content,
    a_repair_that_is_killed_is_made_whole_by_the_next_process,
    a_close_that_is_killed_is_made_good_by_a_close_of_the_next_process,
    a_move_of_a_rule_that_is_killed_leaves_one_rule_in_the_end,
];

/// Every burst is one message, which a kill does not cut short: so these are all the points.
const POINTS: [(OpKind, Effect); 8] = [
    (OpKind::AddRoute, Effect::KillBefore),
    (OpKind::AddRoute, Effect::KillAfter),
    (OpKind::AddRule, Effect::KillBefore),
    (OpKind::AddRule, Effect::KillAfter),
    (OpKind::DelRule, Effect::KillBefore),
    (OpKind::DelRule, Effect::KillAfter),
    (OpKind::DelRoute, Effect::KillBefore),
    (OpKind::DelRoute, Effect::KillAfter),
];

async fn a_first_request_that_is_killed_is_made_whole_by_the_next_process<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    for point in &POINTS[..4] {
        killed(&pod, point, async |process| {
            process.request(&old()).await.is_err()
        })
        .await;
        no_rule_is_dead(&pod);

        let process = Process::start(&pod);
        process.request(&old()).await.unwrap();

        assert_eq!(sorted(&pod), OLD, "{point:?}");
        process.close(&old()).await.unwrap();
        assert_eq!(pod.ours(), [""; 0]);
    }
}

async fn a_change_that_is_killed_leaves_each_policy_on_its_old_or_its_new_content<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    for point in &POINTS {
        Process::start(&pod).request(&old()).await.unwrap();
        let process = Process::start(&pod);
        process.request(&old()).await.unwrap();
        fail_at(&pod, point);
        process.request(&new()).await.unwrap_err();
        assert_eq!(pod.faults.unconsumed(), []);
        pod.faults.revive();
        no_rule_is_dead(&pod);
        for kept in ["from 10.1.0.1 ", "from 2001:db8::1 "] {
            assert!(
                pod.ours().iter().any(|line| line.contains(kept)),
                "{point:?}: {:?}",
                pod.ours()
            );
        }

        // The client has not heard of the change.
        let process = Process::start(&pod);
        process.request_answered(&old(), &new()).await.unwrap();

        assert_eq!(sorted(&pod).len(), 3, "{point:?}");
        assert!(
            sorted(&pod)
                .iter()
                .zip(NEW)
                .all(|(line, new)| like(line, new)),
            "{:?}",
            pod.ours()
        );
        process.close(&new()).await.unwrap();
        assert_eq!(pod.ours(), [""; 0], "{point:?}");
    }
}

async fn a_repair_that_is_killed_is_made_whole_by_the_next_process<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    Process::start(&pod).request(&old()).await.unwrap();
    for point in &POINTS[..2] {
        pod.remake_link("nsm-0");
        killed(&pod, point, async |process| {
            process.request(&old()).await.is_err()
        })
        .await;

        Process::start(&pod).request(&old()).await.unwrap();

        assert_eq!(sorted(&pod), OLD, "{point:?}");
    }
}

async fn a_close_that_is_killed_is_made_good_by_a_close_of_the_next_process<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    for point in &POINTS[4..] {
        let process = Process::start(&pod);
        process.request(&old()).await.unwrap();
        fail_at(&pod, point);
        process.close(&old()).await.unwrap_err();
        assert_eq!(pod.faults.unconsumed(), []);
        pod.faults.revive();
        drop(process);

        let process = Process::start(&pod);
        process.close(&old()).await.unwrap();
        pass(GRACE).await;

        assert_eq!(pod.our_rules(), [], "{point:?}");
        assert_eq!(process.namespaces_held(), 0);
        process.request(&old()).await.unwrap();
        process.close(&old()).await.unwrap();
        assert_eq!(pod.ours(), [""; 0], "{point:?}");
    }
}

async fn a_move_of_a_rule_that_is_killed_leaves_one_rule_in_the_end<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    for point in &POINTS[2..6] {
        Process::start(&pod).request(&old()).await.unwrap();
        let right = pod.our_rules().remove(0);
        let wrong = nsm_netlink::Rule {
            priority: 300,
            ..right.clone()
        };
        pod.add_rule(&wrong);
        pod.delete_rule(&right);

        killed(&pod, point, async |process| {
            process.request(&old()).await.is_err()
        })
        .await;
        assert!(
            pod.our_rules()
                .iter()
                .any(|rule| rule.selector == right.selector)
        );
        Process::start(&pod).request(&old()).await.unwrap();

        assert_eq!(sorted(&pod), OLD, "{point:?}");
    }
}

const OLD: [&str; 3] = [
    "30017: from 2001:db8::1 -> 20002: default via fe80::1 dev nsm-0",
    "31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-0",
    "31745: from 10.1.0.2 -> 20001: default dev nsm-0",
];

const NEW: [&str; 3] = [
    "30017: from 2001:db8::1 -> *: default via fe80::2 dev nsm-0",
    "31745: from 10.1.0.1 -> *: default via 172.16.1.2 dev nsm-0",
    "31745: from 10.1.0.3 -> *: default dev nsm-0",
];

fn old() -> Draft {
    connection("c").policies([
        policy().from("10.1.0.1").via("172.16.1.1"),
        policy().from("10.1.0.2"),
        policy().from("2001:db8::1").via("fe80::1"),
    ])
}

fn new() -> Draft {
    connection("c").policies([
        policy().from("10.1.0.1").via("172.16.1.2"),
        policy().from("10.1.0.3"),
        policy().from("2001:db8::1").via("fe80::2"),
    ])
}

fn fail_at<M: Machine>(pod: &Pod<M>, (op, effect): &(OpKind, Effect)) {
    pod.faults.set(Fault::once(*op, 1, *effect));
}

/// A process in one life of which something is killed at a point.
async fn killed<M: Machine>(
    pod: &Pod<M>,
    point: &(OpKind, Effect),
    work: impl AsyncFn(&Process<M>) -> bool,
) {
    fail_at(pod, point);
    let process = Process::start(pod);
    assert!(work(&process).await, "{point:?}");
    assert_eq!(pod.faults.unconsumed(), [], "{point:?}");
    pod.faults.revive();
}

#[track_caller]
fn no_rule_is_dead<M: Machine>(pod: &Pod<M>) {
    let lines = pod.ours();
    assert!(
        lines.iter().all(|line| line.contains("default")),
        "{lines:?}"
    );
}

fn sorted<M: Machine>(pod: &Pod<M>) -> Vec<String> {
    let mut lines = pod.ours();
    lines.sort();
    lines
}

/// Whether a line is as the pattern says, where `*` is any table.
fn like(line: &str, pattern: &str) -> bool {
    pattern
        .split_once('*')
        .is_some_and(|(start, end)| line.starts_with(start) && line.ends_with(end))
}
