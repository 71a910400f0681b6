//! The element below `begin` and above the rest of a chain: what becomes there of a request that
//! fails here.

use crate::{cases, pass};
use nsm_api::connection::Connection;
use nsm_chain::test_util::Recorder;
use nsm_chain::{Error, ErrorKind};
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, OpKind};
use policyroute_suite::{
    Draft, Machine, Pod, Process, assert_fails, config, connection, policy, request,
};
use std::time::Duration;
use tower::{Layer, service_fn};

cases![
    a_first_request_that_the_kernel_refuses_is_closed_below_once,
    a_first_request_that_got_no_answer_is_closed_below_once_and_leaves_nothing,
    a_first_request_with_a_policy_that_cannot_be_read_is_closed_below_once,
    a_refresh_that_fails_here_closes_nothing_below,
    a_connection_that_returns_after_a_restart_and_fails_here_is_not_closed_below,
];

async fn a_first_request_that_the_kernel_refuses_is_closed_below_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    for op in [OpKind::AddRoute, OpKind::AddRule] {
        pod.faults
            .set(Fault::once(op, 1, Effect::Errno(Errno::EPERM)));
        is_closed_below(
            &pod,
            &established(),
            ErrorKind::PermissionDenied,
            "policy 0",
        )
        .await;
    }
    assert_eq!(pod.faults.unconsumed(), []);
}

/// What may stand of it goes with the close that `begin` sends.
async fn a_first_request_that_got_no_answer_is_closed_below_once_and_leaves_nothing<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    for op in [OpKind::AddRoute, OpKind::AddRule] {
        pod.faults.set(Fault::once(op, 1, Effect::TimedOut));
        is_closed_below(&pod, &established(), ErrorKind::DeadlineExceeded, "net:[").await;
    }
    assert_eq!(pod.faults.unconsumed(), []);
}

async fn a_first_request_with_a_policy_that_cannot_be_read_is_closed_below_once<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    for unreadable in [
        policy().from("10.1.0.2").proto("no such"),
        policy().from("10.1.0.2").tcp(443).sport("7-"),
        policy().from("nowhere"),
    ] {
        let answered = established().policy(unreadable);
        is_closed_below(&pod, &answered, ErrorKind::InvalidArgument, "policy 1").await;
        assert_eq!(pod.asked.take().writes(), 0);
    }
}

async fn a_refresh_that_fails_here_closes_nothing_below<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let (process, below) = chain(&pod, &established());
    process.request(&client()).await.unwrap();
    let before = pod.snapshot();
    pod.delete_rule(&pod.our_rules()[0]);
    pod.faults
        .set(Fault::once(OpKind::AddRule, 1, Effect::Errno(Errno::EPERM)));

    let answer = process.call(request(&client(), &pod)).await;

    assert_fails(answer, ErrorKind::PermissionDenied, &["policy 0"]);
    assert_eq!(below.operations(), ["request", "request"]);
    process.request(&client()).await.unwrap();
    assert_eq!(pod.snapshot(), before);
}

async fn a_connection_that_returns_after_a_restart_and_fails_here_is_not_closed_below<
    M: Machine,
>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let (former, _) = chain(&pod, &established());
    former.request(&client()).await.unwrap();
    drop(former);
    pod.set_down("nsm-0");
    let before = pod.snapshot();
    let (process, below) = chain(&pod, &established());

    // What the client has is what it was answered.
    let answer = process.request(&established()).await;

    assert_fails(answer, ErrorKind::FailedPrecondition, &["nsm-0", "is down"]);
    assert_eq!(below.operations(), ["request"]);
    assert_eq!(pod.snapshot(), before);
}

/// A first request that is answered so fails here and leaves nothing, here or below.
async fn is_closed_below<M: Machine>(pod: &Pod<M>, answered: &Draft, kind: ErrorKind, says: &str) {
    let before = pod.snapshot();
    let (process, below) = chain(pod, answered);

    let answer = process.request(&client()).await;

    assert_fails(answer, kind, &[says]);
    assert_eq!(below.operations(), ["request", "close"]);
    assert_eq!(below.last().connection().id, "c");
    pass(Duration::from_secs(60)).await;
    assert_eq!(pod.snapshot(), before);
    assert_eq!(process.namespaces_held(), 0);
}

/// `begin`, the element, and an end that answers so, with a record of what reaches it.
fn chain<M: Machine>(pod: &Pod<M>, answered: &Draft) -> (Process<M>, Recorder) {
    let below = Recorder::new();
    let answered: Connection = (**answered).clone();
    let end = service_fn(move |_| {
        let answered = answered.clone();
        async move { Ok::<_, Error>(answered) }
    });
    let process = Process::above(pod, config(), below.layer(end));
    (process.below_begin(), below)
}

/// As a client asks at first: it has chosen no mechanism yet, and knows of no policies.
fn client() -> Draft {
    connection("c").mechanism_to_be_chosen()
}

fn established() -> Draft {
    connection("c").policy(policy().from("10.1.0.1").via("172.16.1.1"))
}
