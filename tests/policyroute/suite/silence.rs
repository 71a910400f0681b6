//! What is expected is not logged, and what is not is logged once.

use crate::{GRACE, cases, pass};
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, OpKind};
use policyroute_suite::{Draft, Machine, Pod, Process, close, connection, policy, warnings};

cases![
    a_whole_life_without_a_fault_is_silent,
    links_that_go_before_their_connections_are_closed_are_silent,
    an_addition_that_is_refused_is_logged_once,
    a_removal_that_is_refused_in_a_request_is_logged_once,
    a_removal_that_is_refused_in_a_close_is_logged_once,
    each_removal_that_is_refused_in_a_close_is_named_once,
    a_close_that_fails_when_nobody_waits_any_more_is_logged_once,
    an_interface_that_is_missing_is_logged_once_for_each_request,
];

async fn a_whole_life_without_a_fault_is_silent<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = start(&pod);
    let other = connection("other")
        .by("nsm-1")
        .policy(policy().from("10.2.0.1"));

    process.request(&of("172.16.1.1")).await.unwrap();
    process.request(&other).await.unwrap();
    silent("first request");
    process.request(&of("172.16.1.1")).await.unwrap();
    silent("unchanged refresh");
    let process = start(&pod);
    process.request(&other).await.unwrap();
    process.request(&of("172.16.1.1")).await.unwrap();
    silent("restart");
    process.request(&of("172.16.1.2")).await.unwrap();
    silent("other next hop");
    pod.delete_rule(&pod.our_rules()[0]);
    pod.delete_route(&pod.our_routes()[0]);
    process.request(&of("172.16.1.2")).await.unwrap();
    silent("repair");
    process.close(&of("172.16.1.2")).await.unwrap();
    silent("close");
    process.close(&of("172.16.1.2")).await.unwrap();
    silent("second close");
    process.close(&connection("unknown")).await.unwrap();
    silent("close of an unknown connection");
    process.close(&other).await.unwrap();
    pass(2 * GRACE).await;
    silent("the last close");
    assert_eq!(pod.ours(), [""; 0]);
}

async fn links_that_go_before_their_connections_are_closed_are_silent<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = start(&pod);
    process.request(&of("172.16.1.1")).await.unwrap();
    pod.remake_link("nsm-0");
    process.request(&of("172.16.1.1")).await.unwrap();
    silent("link that has come back");

    pod.delete_link("nsm-0");
    process.close(&of("172.16.1.1")).await.unwrap();
    process.close(&of("172.16.1.1")).await.unwrap();
    silent("close without the link");

    pod.add_link("nsm-0");
    start(&pod).request(&of("172.16.1.1")).await.unwrap();
    pod.delete_link("nsm-0");
    let process = start(&pod);
    process.close(&of("172.16.1.1")).await.unwrap();
    pass(2 * GRACE).await;
    silent("close without the link after a restart");
    assert_eq!(pod.ours(), [""; 0]);
}

async fn an_addition_that_is_refused_is_logged_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = start(&pod);
    for op in [OpKind::AddRoute, OpKind::AddRule] {
        refuse(&pod, op);

        process.request(&of("172.16.1.1")).await.unwrap_err();

        logged_once(&[&op.to_string(), "policy 0"]);
    }
}

async fn a_removal_that_is_refused_in_a_request_is_logged_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = start(&pod);
    process.request(&of("172.16.1.1")).await.unwrap();
    refuse(&pod, OpKind::DelRoute);

    process.request(&of("172.16.1.2")).await.unwrap();
    logged_once(&["172.16.1.1", "tried again"]);

    process.request(&of("172.16.1.2")).await.unwrap();
    pass(2 * GRACE).await;
    silent("what goes well the next time");
    assert_eq!(pod.our_routes().len(), 2);
}

async fn a_removal_that_is_refused_in_a_close_is_logged_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = start(&pod);
    for op in [OpKind::DelRule, OpKind::DelRoute] {
        process.request(&of("172.16.1.1")).await.unwrap();
        refuse(&pod, op);

        process.close(&of("172.16.1.1")).await.unwrap_err();
        logged_once(&["1 of "]);

        pass(2 * GRACE).await;
        silent("what goes well the next time");
        assert_eq!(pod.ours(), [""; 0]);
    }
}

async fn each_removal_that_is_refused_in_a_close_is_named_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = start(&pod);
    process.request(&of("172.16.1.1")).await.unwrap();
    let refuses = Fault::forever(OpKind::DelRule, 1, Effect::Errno(Errno::EPERM));
    pod.faults.set(refuses);

    process.close(&of("172.16.1.1")).await.unwrap_err();
    pod.faults.clear();

    let logged = warnings();
    for from in ["from 10.1.0.1", "from 2001:db8::1"] {
        let named = logged.iter().filter(|text| text.contains(from));
        assert_eq!(named.count(), 1, "{logged:#?}");
    }
    assert_eq!(logged.len(), 2, "{logged:#?}");
}

async fn a_close_that_fails_when_nobody_waits_any_more_is_logged_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&of("172.16.1.1")).await.unwrap();
    refuse(&pod, OpKind::DelRule);
    let (at_work, go_on) = pod.stop_at(OpKind::DelRule);
    let closing = tokio::spawn(process.call(close(&of("172.16.1.1"), &pod)));
    at_work.await.unwrap();
    closing.abort();
    assert!(closing.await.unwrap_err().is_cancelled());

    go_on.send(()).unwrap();
    pass(GRACE / 2).await;

    logged_once(&["nobody waits", "1 of ", "from 10.1.0.1"]);
    pass(2 * GRACE).await;
    silent("what goes well the next time");
    assert_eq!(pod.ours(), [""; 0]);
}

async fn an_interface_that_is_missing_is_logged_once_for_each_request<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = start(&pod);
    process.request(&of("172.16.1.1")).await.unwrap();
    pod.delete_link("nsm-0");

    for _ in 0..2 {
        process.request(&of("172.16.1.1")).await.unwrap_err();
        logged_once(&["interface nsm-0"]);
    }
}

/// The element with what is above it in a whole chain.
fn start<M: Machine>(pod: &Pod<M>) -> Process<M> {
    Process::start(pod).below_begin().below_trace()
}

fn refuse<M: Machine>(pod: &Pod<M>, op: OpKind) {
    pod.faults
        .set(Fault::once(op, 1, Effect::Errno(Errno::EPERM)));
}

#[track_caller]
fn silent(what: &str) {
    assert_eq!(warnings(), [""; 0], "{what}");
}

#[track_caller]
fn logged_once(says: &[&str]) {
    let warnings = warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    for words in says {
        assert!(warnings[0].contains(words), "no {words:?} in {warnings:?}");
    }
}

fn of(gateway: &str) -> Draft {
    connection("c").policies([
        policy().from("10.1.0.1").via(gateway),
        policy().from("2001:db8::1").via("fe80::1"),
    ])
}
