//! A write that the kernel refuses: what it says to whom, and that nothing is left of the plan.

use crate::{GRACE, cases, pass};
use nsm_chain::ErrorKind;
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, OpKind};
use policyroute_suite::{
    Draft, Machine, Pod, Process, assert_fails, connection, policy, rule, warnings,
};

cases![
    a_refused_addition_fails_the_first_request_and_leaves_nothing,
    a_refused_addition_fails_the_change_and_leaves_what_stood,
    a_refused_addition_leaves_the_claims_as_they_were,
    a_refused_removal_does_not_fail_the_request_and_is_tried_again,
    a_broken_link_of_another_connection_is_not_our_error,
    a_repair_for_another_connection_that_is_refused_is_not_our_error,
    a_repair_that_is_refused_leaves_the_policy_its_table,
    a_table_is_remembered_for_the_policy_that_had_it_last,
    a_refused_addition_of_ours_takes_no_repair_of_others_back_that_stood,
    a_rule_that_a_kernel_stores_without_a_field_is_refused_with_its_name,
];

async fn a_refused_addition_fails_the_first_request_and_leaves_nothing<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let before = pod.snapshot();

    for (op, nth, policy, subject) in [
        (OpKind::AddRoute, 1, "policy 0", "default via 172.16.1.1"),
        (OpKind::AddRoute, 3, "policy 1", "10.8.0.0/16"),
        (OpKind::AddRoute, 4, "policy 2", "default via fe80::1"),
        (OpKind::AddRule, 1, "policy 0", "from 10.1.0.1"),
        (OpKind::AddRule, 3, "policy 2", "from 2001:db8::1"),
    ] {
        for (errno, kind) in ERRNOS {
            pod.faults.set(Fault::once(op, nth, Effect::Errno(errno)));
            let process = Process::start(&pod);

            let answer = process.request(&three()).await;

            let operation = op.to_string();
            assert_fails(answer, kind, &[policy, &operation, subject, errno.desc()]);
            assert_eq!(pod.snapshot(), before, "{subject}");
            assert_eq!(process.namespaces_held(), 0);
        }
    }
    assert_eq!(pod.faults.unconsumed(), []);
}

async fn a_refused_addition_fails_the_change_and_leaves_what_stood<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&three()).await.unwrap();
    let before = pod.snapshot();

    for (op, nth, policy) in [
        (OpKind::AddRoute, 1, "policy 0"),
        (OpKind::AddRoute, 2, "policy 1"),
        (OpKind::AddRoute, 3, "policy 2"),
        (OpKind::AddRule, 1, "policy 1"),
        (OpKind::AddRule, 2, "policy 2"),
    ] {
        for (errno, kind) in ERRNOS {
            pod.faults.set(Fault::once(op, nth, Effect::Errno(errno)));

            let answer = process.request(&changed()).await;

            assert_fails(answer, kind, &[policy, errno.desc()]);
            assert_eq!(pod.snapshot(), before, "{op} {nth}");
        }
    }
    assert_eq!(pod.faults.unconsumed(), []);
}

async fn a_refused_addition_leaves_the_claims_as_they_were<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&three()).await.unwrap();
    pod.faults
        .set(Fault::once(OpKind::AddRule, 2, Effect::Errno(Errno::EPERM)));
    process.request(&changed()).await.unwrap_err();
    let before = pod.snapshot();
    pod.asked.take();

    let other = connection("other").policy(policy().from("10.4.0.1"));
    process.request(&other).await.unwrap();
    assert_eq!(pod.asked.take().writes(), 2);
    process.close(&other).await.unwrap();
    process.request(&three()).await.unwrap();
    assert_eq!(pod.snapshot(), before);

    process.close(&three()).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
}

async fn a_refused_removal_does_not_fail_the_request_and_is_tried_again<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    for op in [OpKind::DelRule, OpKind::DelRoute] {
        let process = Process::start(&pod);
        process.request(&three()).await.unwrap();
        pod.faults
            .set(Fault::once(op, 1, Effect::Errno(Errno::EPERM)));

        process.request(&changed()).await.unwrap();

        let [warning] = <[_; 1]>::try_from(warnings()).unwrap();
        assert!(warning.contains("tried again"), "{warning}");
        assert_eq!(pod.faults.unconsumed(), []);
        pass(GRACE).await;
        assert_eq!(pod.ours().len(), 3);
        process.request(&changed()).await.unwrap();
        process.close(&changed()).await.unwrap();
        assert_eq!(pod.ours(), [""; 0]);
    }
}

async fn a_broken_link_of_another_connection_is_not_our_error<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start(&pod);
    process.request(&three()).await.unwrap();
    let rules = pod.our_rules();

    for break_link in [Pod::set_down, Pod::delete_link] {
        break_link(&pod, "nsm-0");
        let other = connection("other")
            .by("nsm-1")
            .policy(policy().from("10.4.0.1"));
        process.request(&other).await.unwrap();
        process.request(&other).await.unwrap();

        assert_eq!(pod.our_rules().len(), 4);
        process.close(&other).await.unwrap();
        assert_eq!(pod.our_rules(), rules);
    }
    assert!(
        warnings()
            .iter()
            .all(|warning| warning.contains("waits for interface nsm-0"))
    );
}

async fn a_repair_for_another_connection_that_is_refused_is_not_our_error<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let first = connection("first").policy(policy().from("10.3.0.1"));
    process.request(&first).await.unwrap();

    for op in [OpKind::AddRoute, OpKind::AddRule] {
        match op {
            OpKind::AddRoute => pod.delete_route(&pod.our_routes()[0]),
            _ => pod.delete_rule(&pod.our_rules()[0]),
        }
        pod.faults
            .set(Fault::once(op, 1, Effect::Errno(Errno::EPERM)));

        process.request(&three()).await.unwrap();

        assert_eq!(pod.faults.unconsumed(), []);
        let [warning] = <[_; 1]>::try_from(warnings()).unwrap();
        assert!(warning.contains("from 10.3.0.1"), "{warning}");
        assert!(pod.ours().len() >= 3);
        process.request(&first).await.unwrap();
        assert_eq!(pod.our_rules().len(), 4);
        assert_eq!(pod.our_routes().len(), 5);
        process.close(&three()).await.unwrap();
    }
}

/// It would have got another one, which a rule of a former process keeps it from.
async fn a_repair_that_is_refused_leaves_the_policy_its_table<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let first = connection("first").policy(policy().from("10.3.0.1"));
    process.request(&first).await.unwrap();
    let before = pod.ours();
    pod.delete_rule(&pod.our_rules()[0]);
    let former = rule(31745, "10.3.0.2/32", 20000, 78);
    pod.add_rule(&former);

    pod.faults
        .set(Fault::once(OpKind::AddRule, 1, Effect::Errno(Errno::EPERM)));
    let other = connection("other").policy(policy().from("10.1.0.1"));
    process.request(&other).await.unwrap();
    assert_eq!(pod.our_rules().len(), 2);

    pod.delete_rule(&former);
    process.request(&other).await.unwrap();
    assert_eq!(pod.ours()[1..], before);
}

async fn a_table_is_remembered_for_the_policy_that_had_it_last<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let first = connection("first").policy(policy().from("10.3.0.1"));
    process.request(&first).await.unwrap();
    pod.delete_rule(&pod.our_rules()[0]);
    let adopted = rule(31745, "10.3.0.2/32", 20000, 78);
    pod.add_rule(&adopted);

    pod.faults
        .set(Fault::once(OpKind::AddRule, 1, Effect::Errno(Errno::EPERM)));
    let other = connection("other").policy(policy().from("10.3.0.2"));
    process.request(&other).await.unwrap();
    assert_eq!(pod.our_rules(), std::slice::from_ref(&adopted));

    pod.delete_rule(&adopted);
    process.request(&other).await.unwrap();
    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.3.0.1 -> 20001: default dev nsm-0",
            "31745: from 10.3.0.2 -> 20000: default dev nsm-0",
        ]
    );
}

async fn a_refused_addition_of_ours_takes_no_repair_of_others_back_that_stood<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let first = connection("first").policy(policy().from("10.3.0.1"));
    process.request(&first).await.unwrap();
    let before = pod.snapshot();
    pod.delete_route(&pod.our_routes()[0]);

    pod.faults
        .set(Fault::once(OpKind::AddRule, 1, Effect::Errno(Errno::EPERM)));
    process.request(&three()).await.unwrap_err();
    process.request(&first).await.unwrap();

    assert_eq!(pod.snapshot(), before);
}

/// An old kernel does not look at an attribute that it does not know.
async fn a_rule_that_a_kernel_stores_without_a_field_is_refused_with_its_name<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let before = pod.snapshot();
    let asked = connection("c").policies([
        policy().from("10.1.0.9"),
        policy().from("10.1.0.1").proto("6").sport("7").dport("8"),
    ]);

    for field in ["proto", "srcport", "dstport"] {
        pod.watch.forget(match field {
            "proto" => |rule| rule.selector.proto = None,
            "srcport" => |rule| rule.selector.sport = None,
            _ => |rule| rule.selector.dport = None,
        });
        let process = Process::start(&pod);

        let answer = process.request(&asked).await;

        assert_fails(answer, ErrorKind::Unimplemented, &["policy 1", field]);
        assert_eq!(pod.snapshot(), before, "{field}");
        assert_eq!(process.namespaces_held(), 0);
    }
}

const ERRNOS: [(Errno, ErrorKind); 3] = [
    (Errno::EPERM, ErrorKind::PermissionDenied),
    (Errno::EINVAL, ErrorKind::InvalidArgument),
    (Errno::ENETDOWN, ErrorKind::FailedPrecondition),
];

fn three() -> Draft {
    connection("c").policies([
        policy()
            .from("10.1.0.1")
            .via("172.16.1.1")
            .route("10.9.0.0/16", ""),
        policy().from("10.1.0.2").route("10.8.0.0/16", ""),
        policy().from("2001:db8::1").via("fe80::1"),
    ])
}

/// One with another next hop, two with other selectors.
fn changed() -> Draft {
    connection("c").policies([
        policy()
            .from("10.1.0.1")
            .via("172.16.1.2")
            .route("10.9.0.0/16", ""),
        policy().from("10.1.0.3"),
        policy().from("2001:db8::2").via("fe80::2"),
    ])
}
