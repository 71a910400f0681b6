//! What a close removes, and where.

use crate::{GRACE, cases, pass};
use nsm_chain::Call;
use nsm_chain::test_util::{Recorder, echo};
use nsm_netlink::OpKind;
use policyroute_suite::{
    Draft, Machine, Pod, Process, close, config, connection, policy, request, rule,
};
use std::sync::Arc;
use tower::Layer;

cases![
    a_close_removes_the_rule_before_its_routes_and_all_that_is_ours,
    a_close_removes_every_rule_with_its_selectors_wherever_it_stands,
    a_close_after_the_link_has_gone_removes_the_rules,
    a_close_tolerates_what_somebody_has_removed_already,
    a_close_tolerates_what_goes_while_it_works,
    a_second_close_goes_on_and_does_nothing,
    a_close_acts_where_the_claim_was_made_and_not_where_it_points,
    a_close_needs_no_namespace_of_its_own,
    a_close_without_a_claim_and_without_a_namespace_goes_on,
    nothing_is_held_after_the_last_close,
];

async fn a_close_removes_the_rule_before_its_routes_and_all_that_is_ours<M: Machine>(pod: Pod<M>) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    pod.add_rule(&rule(31745, "10.1.0.1/32", 100, 4));
    pod.add_route(&pod.foreign_default(100, "eth0", ""));
    let before = pod.snapshot();
    let process = Process::start(&pod);
    process.request(&both()).await.unwrap();
    pod.watch.bursts();

    process.close(&both()).await.unwrap();

    assert_eq!(pod.snapshot(), before);
    let bursts = pod.watch.bursts().into_iter();
    let kinds: Vec<Vec<OpKind>> = bursts
        .map(|burst| burst.iter().map(|write| write.op.kind()).collect())
        .collect();
    assert_eq!(kinds, [[OpKind::DelRule; 2], [OpKind::DelRoute; 2]]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn a_close_removes_every_rule_with_its_selectors_wherever_it_stands<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&both()).await.unwrap();
    for (priority, table) in [(300, 20007), (31745, 20008)] {
        pod.add_rule(&rule(priority, "10.1.0.1/32", table, 78));
        let route = pod.foreign_default(table, "nsm-0", "");
        pod.add_route(&nsm_netlink::Route {
            protocol: 78,
            ..route
        });
    }

    process.close(&both()).await.unwrap();

    assert_eq!(pod.ours(), [""; 0]);
}

async fn a_close_after_the_link_has_gone_removes_the_rules<M: Machine>(pod: Pod<M>) {
    let before = pod.snapshot();
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&both()).await.unwrap();
    pod.delete_link("nsm-0");

    process.close(&both()).await.unwrap();

    assert_eq!(pod.snapshot(), before);
    pod.add_link("nsm-0");
    process.request(&both()).await.unwrap();
    assert_eq!(pod.ours().len(), 2);
}

async fn a_close_tolerates_what_somebody_has_removed_already<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let before = pod.snapshot();
    let process = Process::start(&pod);

    for (rules, routes) in [(1, 0), (0, 1), (1, 1), (2, 2)] {
        process.request(&both()).await.unwrap();
        pod.our_rules()[..rules]
            .iter()
            .for_each(|rule| pod.delete_rule(rule));
        pod.our_routes()[..routes]
            .iter()
            .for_each(|route| pod.delete_route(route));
        process.close(&both()).await.unwrap();
        assert_eq!(pod.snapshot(), before);
    }
}

async fn a_close_tolerates_what_goes_while_it_works<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);

    for step in [OpKind::DelRule, OpKind::DelRoute] {
        pod.remake_link("nsm-0");
        process.request(&both()).await.unwrap();
        let world = pod.clone();
        pod.faults.meanwhile(step, 1, move || {
            world
                .our_rules()
                .iter()
                .for_each(|rule| world.delete_rule(rule));
            world.set_down("nsm-0");
        });
        process.call(close(&both(), &pod)).await.unwrap();
        assert_eq!(pod.ours(), [""; 0]);
    }
}

async fn a_second_close_goes_on_and_does_nothing<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let below = Recorder::new();
    let process = Process::above(&pod, config(), below.layer(echo()));
    process.request(&both()).await.unwrap();
    process.close(&both()).await.unwrap();
    pod.asked.take();

    process.close(&both()).await.unwrap();

    assert_eq!(below.operations(), ["request", "close", "close"]);
    assert_eq!(pod.asked.take().writes(), 0);
    assert_eq!(process.namespaces_held(), 0);
}

async fn a_close_acts_where_the_claim_was_made_and_not_where_it_points<M: Machine>(pod: Pod<M>) {
    let other = Pod::<M>::boot();
    pod.add_link("nsm-0");
    other.add_link("nsm-0");
    let process = Process::start(&pod);
    let theirs = connection("theirs").policy(policy().from("10.1.0.1"));
    process.request(&both()).await.unwrap();
    process.call(request(&theirs, &other)).await.unwrap();
    let before = other.snapshot();

    process.call(close(&both(), &other)).await.unwrap();
    pass(2 * GRACE).await;

    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(other.snapshot(), before);
}

async fn a_close_needs_no_namespace_of_its_own<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&both()).await.unwrap();

    process.call(Call::close((*both()).clone())).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);

    pod.remake_link("nsm-0");
    process.request(&both()).await.unwrap();
    assert_eq!(pod.ours().len(), 2);
}

async fn a_close_without_a_claim_and_without_a_namespace_goes_on<M: Machine>(pod: Pod<M>) {
    let below = Recorder::new();
    let process = Process::above(&pod, config(), below.layer(echo()));

    process.call(Call::close((*both()).clone())).await.unwrap();

    assert_eq!(below.operations(), ["close"]);
}

async fn nothing_is_held_after_the_last_close<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let held = Arc::strong_count(&pod.descriptor());
    process.request(&both()).await.unwrap();
    assert!(Arc::strong_count(&pod.descriptor()) > held);

    process.close(&both()).await.unwrap();

    assert_eq!(Arc::strong_count(&pod.descriptor()), held);
    assert_eq!(process.namespaces_held(), 0);
}

fn both() -> Draft {
    connection("c").policies([
        policy().from("10.1.0.1").via("172.16.1.1"),
        policy().from("2001:db8::1").via("fe80::1"),
    ])
}
