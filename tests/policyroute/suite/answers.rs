//! Answers are lost, and dumps lie.

use crate::{GRACE, cases, pass};
use nsm_chain::ErrorKind;
use nsm_netlink::OpKind;
use nsm_netlink::fault::{Effect, Fault};
use policyroute_suite::{Draft, Machine, Pod, Process, assert_fails, connection, policy};

cases![
    lost_answers_are_found_out_by_another_look,
    a_dead_socket_is_replaced,
    answers_that_never_come_end_the_call_and_the_next_one_heals,
    what_a_call_without_answers_has_added_goes_without_another_call,
    what_a_call_without_answers_has_added_is_taken_back_by_a_close,
    answers_that_are_always_lost_end_the_call,
    a_torn_dump_of_rules_never_doubles_or_removes_a_rule,
    rules_that_change_at_every_look_end_the_call,
];

async fn lost_answers_are_found_out_by_another_look<M: Machine>(pod: Pod<M>) {
    heals(&pod, Effect::LostAck).await;
}

async fn a_dead_socket_is_replaced<M: Machine>(pod: Pod<M>) {
    heals(&pod, Effect::DeadSocket).await;
}

async fn answers_that_never_come_end_the_call_and_the_next_one_heals<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&two()).await.unwrap();
    for op in [OpKind::AddRoute, OpKind::AddRule] {
        pod.faults.set(Fault::once(op, 1, Effect::TimedOut));

        let answer = process.request(&other_two()).await;

        assert_fails(answer, ErrorKind::DeadlineExceeded, &[]);
        process.request(&two()).await.unwrap();
        assert_eq!(pod.our_rules().len(), 2);
        assert_eq!(pod.our_routes().len(), 2);
    }
    assert_eq!(pod.faults.unconsumed(), []);
}

async fn what_a_call_without_answers_has_added_goes_without_another_call<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&two()).await.unwrap();
    let before = pod.snapshot();
    pod.faults
        .set(Fault::once(OpKind::AddRule, 1, Effect::TimedOut));
    process.request(&other_two()).await.unwrap_err();
    assert_ne!(pod.snapshot(), before);

    pass(GRACE).await;

    assert_eq!(pod.snapshot(), before);
}

async fn what_a_call_without_answers_has_added_is_taken_back_by_a_close<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    for op in [OpKind::AddRoute, OpKind::AddRule] {
        pod.faults.set(Fault::once(op, 1, Effect::TimedOut));
        process.request(&two()).await.unwrap_err();
        assert_ne!(pod.ours(), [""; 0]);

        process.close(&two()).await.unwrap();

        pass(GRACE).await;
        assert_eq!(pod.ours(), [""; 0], "{op}");
        assert_eq!(process.namespaces_held(), 0);
    }
}

async fn answers_that_are_always_lost_end_the_call<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    pod.faults
        .set(Fault::forever(OpKind::DumpRules, 1, Effect::LostAck));

    let answer = process.request(&two()).await;

    assert_fails(answer, ErrorKind::Unavailable, &["net:["]);
    assert!(pod.asked.take().opens <= 8);
}

/// The kernel walks rules by index and does not say that they have moved meanwhile.
async fn a_torn_dump_of_rules_never_doubles_or_removes_a_rule<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let both = two().policy(policy().from("2001:db8::1"));
    process.request(&both).await.unwrap();
    let before = pod.snapshot();
    pod.asked.take();

    // Before the rules of ours the dumps have the kernel's `local`.
    for (nth, missing) in [(1, 1), (1, 2), (2, 1), (3, 1)] {
        pod.faults.set(Fault::once(
            OpKind::DumpRules,
            nth,
            Effect::TornDump(missing),
        ));
        process.request(&both).await.unwrap();
        pod.faults.set(Fault::once(
            OpKind::DumpRules,
            nth,
            Effect::TornDump(missing),
        ));
        Process::start(&pod).request(&both).await.unwrap();
        pod.faults.clear();
    }

    assert_eq!(pod.asked.take().writes(), 0);
    assert_eq!(pod.snapshot(), before);
}

async fn rules_that_change_at_every_look_end_the_call<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&two()).await.unwrap();
    let before = pod.snapshot();
    pod.asked.take();
    // A different rule is missing each time.
    for nth in 1..=60 {
        let missing = 1 + nth % 2;
        pod.faults.set(Fault::once(
            OpKind::DumpRules,
            nth,
            Effect::TornDump(missing),
        ));
    }

    let answer = process.request(&two()).await;

    assert_fails(answer, ErrorKind::Unavailable, &["changes faster"]);
    let counts = pod.asked.take();
    assert!(counts.of(OpKind::DumpRules) <= 30);
    assert_eq!(counts.writes(), 0);
    assert_eq!(pod.snapshot(), before);
}

/// Whatever call meets the fault, the request comes to what it wants, and nothing is too many.
async fn heals<M: Machine>(pod: &Pod<M>, effect: Effect) {
    use OpKind::{AddRoute, AddRule, DelRoute, DelRule, DumpLinks, DumpRoutes, DumpRules};
    pod.add_link("nsm-0");
    let process = Process::start(pod);
    for op in [
        DumpLinks, DumpRoutes, DumpRules, AddRoute, AddRule, DelRule, DelRoute,
    ] {
        for (asked, wanted) in [
            (two(), &["10.1.0.1", "10.1.0.2"][..]),
            (other_two(), &["10.1.0.2", "10.1.0.3"]),
            (connection("c"), &[]),
        ] {
            // Not every request brings every operation.
            pod.faults.set(Fault::once(op, 1, effect));
            process.request(&asked).await.unwrap();
            pod.faults.clear();

            let mut lines = pod.ours();
            lines.sort();
            assert_eq!(lines.len(), wanted.len(), "{op}: {lines:?}");
            for (line, from) in lines.iter().zip(wanted) {
                assert!(
                    line.starts_with(&format!("31745: from {from} ->")),
                    "{op}: {lines:?}"
                );
                assert!(line.ends_with(": default dev nsm-0"), "{op}: {lines:?}");
            }
        }
    }
    assert_eq!(process.namespaces_held(), 0);
}

fn two() -> Draft {
    connection("c").policies(["10.1.0.1", "10.1.0.2"].map(|from| policy().from(from)))
}

fn other_two() -> Draft {
    connection("c").policies(["10.1.0.2", "10.1.0.3"].map(|from| policy().from(from)))
}
