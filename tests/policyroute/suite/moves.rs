//! Connections that come back by another interface, in another namespace or by another mechanism.

use crate::{GRACE, cases, pass};
use nsm_api::connection::Mechanism;
use nsm_api::mechanism::{INTERFACE_NAME, VLAN};
use nsm_chain::ErrorKind;
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, Object, OpKind};
use policyroute_suite::{
    Draft, Machine, Pod, Process, assert_fails, connection, policy, request, warnings,
};

cases![
    a_connection_may_move_to_another_interface,
    connections_whose_interfaces_swapped_names_keep_their_rules,
    connections_whose_interfaces_swapped_on_new_links_keep_their_rules,
    a_connection_may_move_to_another_namespace,
    a_move_that_fails_leaves_the_connection_where_it_was,
    a_move_does_not_fail_for_what_could_not_be_removed_behind_it,
    a_mechanism_without_a_kernel_interface_wants_nothing,
    a_mechanism_with_a_vlan_wants_nothing,
    another_mechanism_ends_what_was_claimed_before,
    another_mechanism_does_not_fail_for_what_could_not_be_removed,
];

async fn a_connection_may_move_to_another_interface<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start(&pod);
    process.request(&both_families("c")).await.unwrap();
    let rules = pod.our_rules();
    pod.events();

    process
        .request(&both_families("c").by("nsm-1"))
        .await
        .unwrap();

    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-1",
            "30017: from 2001:db8::1 -> 20001: default via fe80::1 dev nsm-1",
        ]
    );
    assert_eq!(pod.our_rules(), rules);
    assert!(
        pod.events()
            .iter()
            .all(|event| matches!(event.object, Object::Route(_)))
    );
}

async fn connections_whose_interfaces_swapped_names_keep_their_rules<M: Machine>(pod: Pod<M>) {
    let process = two_requested(&pod).await;
    let rules = pod.our_rules();

    process
        .request(&of("c1", "10.1.0.1").by("nsm-1"))
        .await
        .unwrap();
    process
        .request(&of("c2", "10.2.0.1").by("nsm-0"))
        .await
        .unwrap();

    swapped(&pod);
    assert_eq!(pod.our_rules(), rules);
    process
        .close(&of("c1", "10.1.0.1").by("nsm-1"))
        .await
        .unwrap();
    assert_eq!(pod.ours(), [SWAPPED[1]]);
}

async fn connections_whose_interfaces_swapped_on_new_links_keep_their_rules<M: Machine>(
    pod: Pod<M>,
) {
    let mut process = two_requested(&pod).await;
    let rules = pod.our_rules();

    for _ in 0..2 {
        pod.remake_link("nsm-0");
        pod.remake_link("nsm-1");
        process
            .request(&of("c1", "10.1.0.1").by("nsm-1"))
            .await
            .unwrap();
        process
            .request(&of("c2", "10.2.0.1").by("nsm-0"))
            .await
            .unwrap();

        swapped(&pod);
        assert_eq!(pod.our_rules(), rules);
        process = Process::start(&pod);
    }
}

async fn a_connection_may_move_to_another_namespace<M: Machine>(pod: Pod<M>) {
    let other = Pod::<M>::boot();
    pod.add_link("nsm-0");
    other.add_link("nsm-0");
    let asked = of("c", "10.1.0.1");
    let process = Process::start(&pod);
    process.request(&asked).await.unwrap();

    process.call(request(&asked, &other)).await.unwrap();

    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(other.ours().len(), 1);
    assert_eq!(process.namespaces_held(), 1);
    process.close(&asked).await.unwrap();
    assert_eq!(other.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn a_move_that_fails_leaves_the_connection_where_it_was<M: Machine>(pod: Pod<M>) {
    let other = Pod::<M>::boot();
    pod.add_link("nsm-0");
    let asked = of("c", "10.1.0.1");
    let process = Process::start(&pod);
    process.request(&asked).await.unwrap();
    let before = pod.snapshot();

    let answer = process.call(request(&asked, &other)).await;

    assert_fails(answer, ErrorKind::FailedPrecondition, &["nsm-0"]);
    assert_eq!(pod.snapshot(), before);
    assert_eq!(process.namespaces_held(), 1);
    process.close(&asked).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
}

async fn a_move_does_not_fail_for_what_could_not_be_removed_behind_it<M: Machine>(pod: Pod<M>) {
    let other = Pod::<M>::boot();
    pod.add_link("nsm-0");
    other.add_link("nsm-0");
    let asked = of("c", "10.1.0.1");
    let process = Process::start(&pod);
    process.request(&asked).await.unwrap();
    pod.faults
        .set(Fault::once(OpKind::DelRule, 1, Effect::Errno(Errno::EPERM)));

    process.call(request(&asked, &other)).await.unwrap();

    assert_eq!(other.ours().len(), 1);
    assert_eq!(pod.faults.unconsumed(), []);
    pass(GRACE).await;
    assert_eq!(pod.ours(), [""; 0]);
}

async fn a_mechanism_without_a_kernel_interface_wants_nothing<M: Machine>(pod: Pod<M>) {
    let memif = Mechanism {
        r#type: "MEMIF".to_owned(),
        ..Mechanism::kernel()
    };
    wants_nothing(&pod, memif).await;
}

async fn a_mechanism_with_a_vlan_wants_nothing<M: Machine>(pod: Pod<M>) {
    wants_nothing(&pod, vlan()).await;
}

async fn another_mechanism_ends_what_was_claimed_before<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&of("c", "10.1.0.1")).await.unwrap();

    process
        .request(&of("c", "10.1.0.1").mechanism(vlan()))
        .await
        .unwrap();

    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn another_mechanism_does_not_fail_for_what_could_not_be_removed<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&of("c", "10.1.0.1")).await.unwrap();
    pod.faults
        .set(Fault::once(OpKind::DelRule, 1, Effect::Errno(Errno::EPERM)));

    let moved = of("c", "10.1.0.1").mechanism(vlan());
    process.request(&moved).await.unwrap();

    assert_eq!(pod.faults.unconsumed(), []);
    pass(GRACE).await;
    assert_eq!(pod.ours(), [""; 0]);
}

async fn wants_nothing<M: Machine>(pod: &Pod<M>, mechanism: Mechanism) {
    pod.add_link("nsm-0");

    let asked = of("c", "10.1.0.1").mechanism(mechanism);
    Process::start(pod).request(&asked).await.unwrap();

    assert_eq!(pod.asked.take().opens, 0);
    let [warning] = <[_; 1]>::try_from(warnings()).unwrap();
    assert!(warning.contains("policies are not installed"), "{warning}");
}

fn vlan() -> Mechanism {
    Mechanism::kernel()
        .with_parameter(INTERFACE_NAME, "nsm-0")
        .with_parameter(VLAN, "7")
}

fn of(id: &str, from: &str) -> Draft {
    connection(id).policy(policy().from(from).via("172.16.1.1"))
}

fn both_families(id: &str) -> Draft {
    of(id, "10.1.0.1").policy(policy().from("2001:db8::1").via("fe80::1"))
}

const SWAPPED: [&str; 2] = [
    "31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-1",
    "31745: from 10.2.0.1 -> 20001: default via 172.16.1.1 dev nsm-0",
];

#[track_caller]
fn swapped<M: Machine>(pod: &Pod<M>) {
    assert_eq!(pod.ours(), SWAPPED);
}

async fn two_requested<M: Machine>(pod: &Pod<M>) -> Process<M> {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start(pod);
    process.request(&of("c1", "10.1.0.1")).await.unwrap();
    process
        .request(&of("c2", "10.2.0.1").by("nsm-1"))
        .await
        .unwrap();
    process
}
