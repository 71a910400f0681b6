//! What a close says of what it could not remove, and what becomes of that.

use crate::{GRACE, cases, pass};
use nsm_chain::ErrorKind;
use nsm_chain::test_util::{FailOn, Recorder, echo};
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, OpKind};
use policyroute_suite::{
    Draft, Machine, Pod, PolicyDraft, Process, assert_fails, config, connection, policy,
};
use tower::Layer;

cases![
    a_close_goes_on_and_names_what_it_could_not_remove,
    a_close_that_fails_here_and_below_tells_of_both,
    what_a_close_could_not_remove_goes_later,
    routes_that_a_close_could_not_remove_go_later,
    a_close_that_could_not_even_look_is_made_good_later,
    what_a_close_could_not_remove_stays_where_somebody_claims_it_meanwhile,
    what_can_never_be_removed_is_tried_in_measured_steps,
];

async fn a_close_goes_on_and_names_what_it_could_not_remove<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let below = Recorder::new();
    let process = Process::above(&pod, config(), below.layer(echo()));
    process.request(&both()).await.unwrap();
    refuse(&pod, OpKind::DelRule, 1);

    let answer = process.close(&both()).await;

    assert_fails(
        answer,
        ErrorKind::PermissionDenied,
        &["1 of ", "from 10.1.0.1 lookup 20000"],
    );
    assert_eq!(below.operations(), ["request", "close"]);
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-0"]
    );
    assert_eq!(pod.faults.unconsumed(), []);
}

async fn a_close_that_fails_here_and_below_tells_of_both<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::above(&pod, config(), FailOn::close(1).layer(echo()));
    process.request(&both()).await.unwrap();
    refuse(&pod, OpKind::DelRule, 1);

    let answer = process.close(&both()).await;

    assert_fails(
        answer,
        ErrorKind::PermissionDenied,
        &["from 10.1.0.1", "injected"],
    );
}

async fn what_a_close_could_not_remove_goes_later<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&both()).await.unwrap();
    refuse(&pod, OpKind::DelRule, 1);
    process.close(&both()).await.unwrap_err();

    pass(GRACE - SECOND).await;
    assert_eq!(pod.our_rules().len(), 1);
    pass(SECOND).await;
    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn routes_that_a_close_could_not_remove_go_later<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&both()).await.unwrap();
    refuse(&pod, OpKind::DelRoute, 2);

    let answer = process.close(&both()).await;

    assert_fails(answer, ErrorKind::PermissionDenied, &["1 of "]);
    assert_eq!(pod.our_routes().len(), 1);
    pass(GRACE).await;
    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

/// Nothing could be read, so nobody knows which rules are left: the selectors are known.
async fn a_close_that_could_not_even_look_is_made_good_later<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&both()).await.unwrap();
    pod.watch.lock_out(Errno::EMFILE);

    let answer = process.close(&both()).await;

    assert_fails(answer, ErrorKind::Unavailable, &["net:["]);
    pod.watch.let_in();
    pass(GRACE).await;
    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn what_a_close_could_not_remove_stays_where_somebody_claims_it_meanwhile<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&both()).await.unwrap();
    let heir = connection("heir").policies(policies());

    for looks in [true, false] {
        match looks {
            true => refuse(&pod, OpKind::DelRule, 1),
            false => pod.watch.lock_out(Errno::EMFILE),
        }
        process.close(&both()).await.unwrap_err();
        pod.watch.let_in();
        process.request(&heir).await.unwrap();
        pass(2 * GRACE).await;

        assert_eq!(pod.our_rules().len(), 2);
        process.request(&both()).await.unwrap();
        process.close(&heir).await.unwrap();
        assert_eq!(pod.our_rules().len(), 2);
    }
    process.close(&both()).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn what_can_never_be_removed_is_tried_in_measured_steps<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&both()).await.unwrap();
    pod.faults.set(Fault::forever(
        OpKind::DelRule,
        1,
        Effect::Errno(Errno::EPERM),
    ));
    process.close(&both()).await.unwrap_err();
    pod.asked.take();

    pass(10 * GRACE).await;

    let tries = pod.asked.take().of(OpKind::DelRule);
    assert!((10..=20).contains(&tries), "{tries}");
    pod.faults.clear();
    pass(GRACE).await;
    assert_eq!(pod.ours(), [""; 0]);
}

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

fn policies() -> [PolicyDraft; 2] {
    [
        policy().from("10.1.0.1").via("172.16.1.1"),
        policy().from("2001:db8::1").via("fe80::1"),
    ]
}

fn both() -> Draft {
    connection("c").policies(policies())
}

fn refuse<M: Machine>(pod: &Pod<M>, op: OpKind, nth: usize) {
    pod.faults
        .set(Fault::once(op, nth, Effect::Errno(Errno::EPERM)));
}
