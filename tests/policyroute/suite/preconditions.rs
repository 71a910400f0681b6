//! What the state of the kernel refuses, named so that somebody can do something about it.

use crate::cases;
use nsm_api::connection::Mechanism;
use nsm_chain::{Call, ErrorKind};
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, OpKind};
use policyroute_suite::{
    Draft, Machine, Pod, PolicyDraft, Process, assert_fails, connection, policy,
};

cases![
    policies_need_the_name_of_an_interface,
    policies_need_a_namespace,
    an_interface_that_is_not_there_is_named,
    an_interface_that_is_down_is_named,
    a_refresh_whose_interface_has_gone_fails_and_leaves_the_rules,
    an_interface_without_ipv6_takes_no_ipv6_policy,
    a_kernel_without_ipv6_takes_no_ipv6_policy,
    a_missing_permission_is_told,
];

async fn policies_need_the_name_of_an_interface<M: Machine>(pod: Pod<M>) {
    let asked = one().mechanism(Mechanism::kernel());

    let answer = Process::start(&pod).request(&asked).await;

    assert_fails(
        answer,
        ErrorKind::FailedPrecondition,
        &["names no interface"],
    );
    assert_eq!(pod.asked.take().opens, 0);
}

async fn policies_need_a_namespace<M: Machine>(pod: Pod<M>) {
    let request = nsm_api::networkservice::NetworkServiceRequest {
        connection: Some((*one()).clone()),
        ..Default::default()
    };

    let answer = Process::start(&pod).call(Call::request(request)).await;

    assert_fails(
        answer,
        ErrorKind::FailedPrecondition,
        &["network namespace"],
    );
}

async fn an_interface_that_is_not_there_is_named<M: Machine>(pod: Pod<M>) {
    let process = Process::start(&pod);

    let answer = process.request(&one()).await;

    assert_fails(answer, ErrorKind::FailedPrecondition, &["nsm-0", "net:["]);
    assert_eq!(pod.asked.take().writes(), 0);
    assert_eq!(process.namespaces_held(), 0);
}

async fn an_interface_that_is_down_is_named<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.set_down("nsm-0");

    let answer = Process::start(&pod).request(&one()).await;

    assert_fails(answer, ErrorKind::FailedPrecondition, &["nsm-0", "down"]);
    assert_eq!(pod.asked.take().writes(), 0);
}

async fn a_refresh_whose_interface_has_gone_fails_and_leaves_the_rules<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&one()).await.unwrap();
    let rules = pod.our_rules();
    pod.delete_link("nsm-0");

    for process in [process.clone(), Process::start(&pod)] {
        let answer = process.request(&one()).await;
        assert_fails(answer, ErrorKind::FailedPrecondition, &["nsm-0"]);
    }
    assert_eq!(pod.our_rules(), rules);

    pod.add_link("nsm-0");
    process.request(&one()).await.unwrap();
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default dev nsm-0"]
    );
}

async fn an_interface_without_ipv6_takes_no_ipv6_policy<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.forbid_ipv6("nsm-0");
    let process = Process::start(&pod);
    process.request(&one()).await.unwrap();
    let before = pod.snapshot();

    let both = one().policy(policy().from("2001:db8::1").via("fe80::1"));
    let answer = process.request(&both).await;

    assert_fails(
        answer,
        ErrorKind::FailedPrecondition,
        &["policy 1", "default via fe80::1"],
    );
    assert_eq!(pod.snapshot(), before);
}

/// It knows neither such routes nor such rules, and says so in two ways.
async fn a_kernel_without_ipv6_takes_no_ipv6_policy<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&one()).await.unwrap();
    let before = pod.snapshot();
    let both = one().policy(policy().from("2001:db8::1"));

    for (op, errno) in [
        (OpKind::AddRoute, Errno::EOPNOTSUPP),
        (OpKind::AddRule, Errno::EAFNOSUPPORT),
    ] {
        pod.faults.set(Fault::once(op, 1, Effect::Errno(errno)));

        let answer = process.request(&both).await;

        let operation = op.to_string();
        let says = ["policy 1", &operation, errno.desc()];
        assert_fails(answer, ErrorKind::Unimplemented, &says);
        assert_eq!(pod.snapshot(), before);
    }
    assert_eq!(pod.faults.unconsumed(), []);
    pod.asked.take();
    process.request(&one()).await.unwrap();
    assert_eq!(pod.asked.take().writes(), 0);
}

async fn a_missing_permission_is_told<M: Machine>(pod: Pod<M>) {
    use nsm_netlink::OpKind::{AddRoute, AddRule, DumpLinks, DumpRoutes, DumpRules};
    pod.add_link("nsm-0");
    let before = pod.snapshot();
    let process = Process::start(&pod);

    for op in [AddRoute, AddRule, DumpLinks, DumpRoutes, DumpRules] {
        pod.faults
            .set(Fault::once(op, 1, Effect::Errno(Errno::EPERM)));
        let answer = process.request(&one()).await;
        assert_fails(answer, ErrorKind::PermissionDenied, &["not permitted"]);
    }
    pod.watch.lock_out(Errno::EPERM);
    let answer = process.request(&one()).await;

    assert_fails(answer, ErrorKind::PermissionDenied, &["net:["]);
    assert_eq!(pod.snapshot(), before);
    assert_eq!(process.namespaces_held(), 0);
}

fn one() -> Draft {
    connection("c").policy(PolicyDraft::from(policy(), "10.1.0.1"))
}
