//! One piece of work at a time in a namespace, and nobody waits for ever.

use crate::{GRACE, cases, pass};
use nsm_chain::{Call, ErrorKind};
use nsm_netlink::OpKind;
use policyroute_suite::{
    Draft, Machine, Pod, Process, assert_fails, close, connection, policy, request,
};
use std::time::Duration;
use tokio::time::{Instant, advance};

cases![
    a_call_whose_time_is_over_does_not_touch_the_kernel,
    whoever_waits_in_vain_for_a_turn_leaves_in_time_and_nothing_is_stuck,
    a_close_whose_caller_has_no_more_time_ends_the_claim_all_the_same,
    namespaces_do_not_wait_for_each_other,
    a_left_over_goes_though_nobody_had_a_thread_for_it_in_time,
    whoever_waits_in_vain_is_told_how_long_it_was_his_time,
    a_namespace_is_held_by_whoever_works_in_it_and_no_longer,
];

const SECOND: Duration = Duration::from_secs(1);

async fn a_call_whose_time_is_over_does_not_touch_the_kernel<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);

    let late = within(Duration::ZERO, request(&of("c", "10.1.0.1"), &pod));
    let answer = process.call(late).await;

    assert_fails(answer, ErrorKind::DeadlineExceeded, &[]);
    assert_eq!(pod.asked.take().writes(), 0);
    assert_eq!(process.namespaces_held(), 0);
}

async fn whoever_waits_in_vain_for_a_turn_leaves_in_time_and_nothing_is_stuck<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let (at_work, go_on) = pod.stop_at(OpKind::AddRoute);
    let first = tokio::spawn(process.call(request(&of("c1", "10.1.0.1"), &pod)));
    at_work.await.unwrap();

    let hurried = within(SECOND, request(&of("c2", "10.1.0.2"), &pod));
    let patient = request(&of("c3", "10.1.0.3"), &pod);
    let hurried = tokio::spawn(process.call(hurried));
    let patient = tokio::spawn(process.call(patient));
    tokio::task::yield_now().await;
    advance(2 * SECOND).await;
    assert_fails(hurried.await.unwrap(), ErrorKind::DeadlineExceeded, &[]);
    advance(20 * SECOND).await;
    assert_fails(
        patient.await.unwrap(),
        ErrorKind::DeadlineExceeded,
        &["10s"],
    );

    go_on.send(()).unwrap();
    // Its own time is over as well: it does not begin another burst.
    assert_fails(first.await.unwrap(), ErrorKind::DeadlineExceeded, &[]);
    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
    process.request(&of("c2", "10.1.0.2")).await.unwrap();
    assert_eq!(pod.ours().len(), 1);
}

async fn a_close_whose_caller_has_no_more_time_ends_the_claim_all_the_same<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&of("c1", "10.1.0.1")).await.unwrap();
    let (at_work, go_on) = pod.stop_at(OpKind::AddRoute);
    let working = tokio::spawn(process.call(request(&of("c2", "10.1.0.2"), &pod)));
    at_work.await.unwrap();

    let hurried = within(SECOND, close(&of("c1", "10.1.0.1"), &pod));
    let hurried = tokio::spawn(process.call(hurried));
    tokio::task::yield_now().await;
    advance(2 * SECOND).await;
    assert_fails(hurried.await.unwrap(), ErrorKind::DeadlineExceeded, &[]);
    go_on.send(()).unwrap();
    working.await.unwrap().unwrap();
    pass(2 * GRACE).await;

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.2 -> 20001: default dev nsm-0"]
    );
    process.close(&of("c2", "10.1.0.2")).await.unwrap();
    assert_eq!(process.namespaces_held(), 0);
}

async fn namespaces_do_not_wait_for_each_other<M: Machine>(pod: Pod<M>) {
    let other = Pod::<M>::boot();
    pod.add_link("nsm-0");
    other.add_link("nsm-0");
    let process = Process::start(&pod);
    let (at_work, go_on) = pod.stop_at(OpKind::AddRoute);
    let working = tokio::spawn(process.call(request(&of("c1", "10.1.0.1"), &pod)));
    at_work.await.unwrap();

    process
        .call(request(&of("c2", "10.1.0.2"), &other))
        .await
        .unwrap();

    assert_eq!(other.ours().len(), 1);
    assert_eq!(pod.ours(), [""; 0]);
    go_on.send(()).unwrap();
    working.await.unwrap().unwrap();
    assert_eq!(pod.ours().len(), 1);
    assert_eq!(process.namespaces_held(), 2);
}

/// As many as may be worked in at once.
const CROWD: usize = 16;

async fn a_left_over_goes_though_nobody_had_a_thread_for_it_in_time<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    Process::start(&pod)
        .request(&of("c1", "10.1.0.1"))
        .await
        .unwrap();
    pod.remake_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&of("c2", "10.1.0.2")).await.unwrap();
    assert_eq!(pod.our_rules().len(), 2);
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let other = Pod::<M>::boot();
        other.add_link("nsm-0");
        let (at_work, go_on) = other.stop_at(OpKind::AddRoute);
        let working = tokio::spawn(process.call(request(&of("c", "10.1.0.1"), &other)));
        at_work.await.unwrap();
        crowd.push((working, go_on));
    }

    for _ in 0..5 {
        advance(GRACE / 2).await;
        tokio::task::yield_now().await;
    }
    for (working, go_on) in crowd {
        go_on.send(()).unwrap();
        working.await.unwrap().unwrap_err();
    }
    pass(2 * GRACE).await;

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.2 -> 20001: default dev nsm-0"]
    );
}

async fn whoever_waits_in_vain_is_told_how_long_it_was_his_time<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let (at_work, go_on) = pod.stop_at(OpKind::AddRoute);
    let working = within(SECOND, request(&of("c1", "10.1.0.1"), &pod));
    let working = tokio::spawn(process.call(working));
    at_work.await.unwrap();

    let waiting = within(SECOND, request(&of("c2", "10.1.0.2"), &pod));
    let waiting = tokio::spawn(process.call(waiting));
    tokio::task::yield_now().await;
    advance(2 * SECOND).await;
    assert_fails(waiting.await.unwrap(), ErrorKind::DeadlineExceeded, &["1s"]);
    go_on.send(()).unwrap();

    assert_fails(working.await.unwrap(), ErrorKind::DeadlineExceeded, &["1s"]);
}

async fn a_namespace_is_held_by_whoever_works_in_it_and_no_longer<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let asked = of("c", "10.1.0.1");

    process.close(&asked).await.unwrap();
    process
        .request(&asked.clone().by("nsm-9"))
        .await
        .unwrap_err();
    assert_eq!(process.namespaces_held(), 0);

    let (at_work, go_on) = pod.stop_at(OpKind::AddRoute);
    let working = tokio::spawn(process.call(request(&asked, &pod)));
    at_work.await.unwrap();
    assert_eq!(process.namespaces_held(), 1);
    go_on.send(()).unwrap();
    working.await.unwrap().unwrap();
    process.close(&asked).await.unwrap();
    assert_eq!(process.namespaces_held(), 0);
}

fn of(id: &str, from: &str) -> Draft {
    connection(id).policy(policy().from(from))
}

fn within(time: Duration, mut call: Call) -> Call {
    call.deadline = Some(Instant::now() + time);
    call
}
