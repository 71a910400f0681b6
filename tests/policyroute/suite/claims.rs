//! Connections that want the same policies: one rule, and who holds what it leads to.

use crate::{GRACE, cases, pass};
use policyroute_suite::{Draft, Machine, Pod, Process, connection, policy, warnings};

cases![
    closing_a_ghost_changes_nothing_for_the_live_connection,
    closing_a_ghost_that_a_restart_forgot_changes_nothing_for_the_live_connection,
    a_live_connection_that_returns_after_the_ghosts_close_keeps_its_policies,
    a_late_close_of_an_earlier_generation_leaves_the_new_link_alone,
    of_two_that_want_a_prefix_differently_the_later_claim_holds_it,
    refreshes_never_make_two_claimants_take_turns,
    when_the_holder_closes_the_older_claimant_gets_the_prefix,
    when_the_holders_interface_goes_the_older_claimant_gets_the_prefix,
    a_claim_after_a_close_is_made_anew,
    claimants_share_a_table_with_the_union_of_their_routes,
    after_a_restart_only_the_content_in_conflict_may_change_hands,
];

async fn closing_a_ghost_changes_nothing_for_the_live_connection<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let (ghost, live) = (same("c1"), same("c2"));
    let process = Process::start(&pod);
    process.request(&ghost).await.unwrap();
    let before = pod.snapshot();
    process.request(&live).await.unwrap();
    pod.asked.take();

    process.close(&ghost).await.unwrap();
    process.request(&live).await.unwrap();

    assert_eq!(pod.asked.take().writes(), 0);
    assert_eq!(pod.snapshot(), before);
    assert_eq!(warnings(), [""; 0]);
    process.close(&live).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn closing_a_ghost_that_a_restart_forgot_changes_nothing_for_the_live_connection<
    M: Machine,
>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let (ghost, live) = (same("c1"), same("c2"));
    let process = Process::start(&pod);
    process.request(&ghost).await.unwrap();
    process.request(&live).await.unwrap();
    let before = pod.snapshot();

    let process = Process::start(&pod);
    process.request(&live).await.unwrap();
    process.close(&ghost).await.unwrap();
    pass(2 * GRACE).await;

    assert_eq!(pod.snapshot(), before);
}

async fn a_live_connection_that_returns_after_the_ghosts_close_keeps_its_policies<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let (ghost, live) = (same("c1"), same("c2"));
    let process = Process::start(&pod);
    process.request(&ghost).await.unwrap();
    process.request(&live).await.unwrap();
    let before = pod.snapshot();

    let process = Process::start(&pod);
    process.close(&ghost).await.unwrap();
    pass(GRACE / 2).await;
    process.request(&live).await.unwrap();
    pass(2 * GRACE).await;

    assert_eq!(pod.snapshot(), before);
}

async fn a_late_close_of_an_earlier_generation_leaves_the_new_link_alone<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let (earlier, later) = (same("c1"), same("c1-again"));
    let process = Process::start(&pod);
    process.request(&earlier).await.unwrap();
    pod.remake_link("nsm-0");
    process.request(&later).await.unwrap();
    let before = pod.snapshot();

    process.close(&earlier).await.unwrap();

    assert_eq!(pod.snapshot(), before);
    assert_eq!(pod.ours(), FIRST);
}

async fn of_two_that_want_a_prefix_differently_the_later_claim_holds_it<M: Machine>(pod: Pod<M>) {
    let process = both_requested(&pod).await;

    assert_eq!(pod.ours(), SECOND);
    let [warning] = <[_; 1]>::try_from(warnings()).unwrap();
    for words in ["c1", "c2", "0.0.0.0/0", "from 10.1.0.1", "c2 holds it"] {
        assert!(warning.contains(words), "no {words} in {warning}");
    }
    process.request(&second()).await.unwrap();
    assert_eq!(warnings(), [""; 0]);
}

async fn refreshes_never_make_two_claimants_take_turns<M: Machine>(pod: Pod<M>) {
    let process = both_requested(&pod).await;
    pod.asked.take();

    for _ in 0..3 {
        process.request(&first()).await.unwrap();
        process.request(&second()).await.unwrap();
    }
    let changed = connection("c1").policy(policy().from("10.1.0.1").via("172.16.1.7"));
    process.request(&changed).await.unwrap();

    assert_eq!(pod.asked.take().writes(), 0);
    assert_eq!(pod.ours(), SECOND);
}

async fn when_the_holder_closes_the_older_claimant_gets_the_prefix<M: Machine>(pod: Pod<M>) {
    let process = both_requested(&pod).await;
    let rules = pod.our_rules();
    pod.events();

    process.close(&second()).await.unwrap();

    assert_eq!(pod.ours(), FIRST);
    assert_eq!(pod.rule_events(), []);
    assert_eq!(pod.our_rules(), rules);
    process.close(&first()).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
}

async fn when_the_holders_interface_goes_the_older_claimant_gets_the_prefix<M: Machine>(
    pod: Pod<M>,
) {
    let process = both_requested(&pod).await;
    pod.delete_link("nsm-1");
    pod.events();

    process.request(&first()).await.unwrap();
    assert_eq!(pod.ours(), FIRST);

    pod.add_link("nsm-1");
    process.request(&second()).await.unwrap();
    assert_eq!(pod.ours(), SECOND);
    assert_eq!(pod.rule_events(), []);
}

async fn a_claim_after_a_close_is_made_anew<M: Machine>(pod: Pod<M>) {
    let process = both_requested(&pod).await;

    process.close(&first()).await.unwrap();
    assert_eq!(pod.ours(), SECOND);
    process.request(&first()).await.unwrap();

    assert_eq!(pod.ours(), FIRST);
}

async fn claimants_share_a_table_with_the_union_of_their_routes<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let to = |prefix: &str| policy().from("10.1.0.1").route(prefix, "");
    let a = connection("c1").policy(to("10.8.0.0/16").route("10.9.0.0/16", ""));
    let b = connection("c2").by("nsm-1").policy(to("10.7.0.0/16"));
    let process = Process::start(&pod);

    process.request(&a).await.unwrap();
    process.request(&b).await.unwrap();
    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.1.0.1 -> 20000: 10.7.0.0/16 dev nsm-1, 10.8.0.0/16 dev nsm-0, \
          10.9.0.0/16 dev nsm-0"
        ]
    );

    process.close(&a).await.unwrap();
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: 10.7.0.0/16 dev nsm-1"]
    );
    assert_eq!(warnings(), [""; 0]);
}

async fn after_a_restart_only_the_content_in_conflict_may_change_hands<M: Machine>(pod: Pod<M>) {
    both_requested(&pod).await;
    let rules = pod.our_rules();
    pod.events();

    let process = Process::start(&pod);
    process.request(&second()).await.unwrap();
    assert_eq!(pod.ours(), SECOND);
    process.request(&first()).await.unwrap();
    assert_eq!(pod.ours(), FIRST);

    assert_eq!(pod.our_rules(), rules);
    assert_eq!(pod.rule_events(), []);
}

const FIRST: [&str; 1] = ["31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-0"];
const SECOND: [&str; 1] = ["31745: from 10.1.0.1 -> 20000: default via 172.16.16.1 dev nsm-1"];

/// A connection that wants what the others of this function want.
fn same(id: &str) -> Draft {
    connection(id).policy(policy().from("10.1.0.1").via("172.16.1.1"))
}

fn first() -> Draft {
    same("c1")
}

fn second() -> Draft {
    let elsewhere = policy().from("10.1.0.1").via("172.16.16.1");
    connection("c2").by("nsm-1").policy(elsewhere)
}

async fn both_requested<M: Machine>(pod: &Pod<M>) -> Process<M> {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start(pod);
    process.request(&first()).await.unwrap();
    process.request(&second()).await.unwrap();
    process
}
