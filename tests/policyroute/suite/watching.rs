//! What watching costs, and that it ends: no work for what is nobody's concern, no socket and no
//! task without a claim.

use crate::{AT_ONCE, GRACE, at_once, cases, live, within};
use nsm_netlink::counted::Counts;
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, OpKind};
use nsm_policyroute::Config;
use policyroute_suite::{
    Draft, Machine, OWNER, Pod, Process, config, connection, policy, rule, warnings,
};
use std::time::Duration;

cases![
    what_the_element_does_itself_is_no_reason_to_look,
    what_others_do_elsewhere_is_no_reason_to_look,
    an_interface_that_flaps_is_looked_at_no_more_than_twice_a_second,
    a_repair_that_is_refused_is_tried_again_after_growing_pauses_and_told_once,
    a_namespace_that_cannot_be_read_is_tried_again_and_told_once,
    a_namespace_that_cannot_be_listened_to_is_tried_again_and_told_once,
    nobody_listens_without_a_claim,
    nobody_listens_where_watching_is_off,
    one_listens_however_many_connections_there_are,
    one_listens_for_each_owner_and_they_leave_each_other_alone,
    nobody_listens_any_more_once_the_element_is_gone,
    what_happens_after_the_last_claim_is_nobodys_concern,
];

fn watching() -> Config {
    Config {
        watch: true,
        ..config()
    }
}

fn of(number: u8) -> Draft {
    let from = format!("10.1.0.{number}");
    connection(&format!("c{number}")).policies([
        policy().from(&from).via("172.16.1.1"),
        policy().from(&format!("2001:db8::{number}")).via("fe80::1"),
    ])
}

async fn what_the_element_does_itself_is_no_reason_to_look<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, watching());
    process.request(&of(1)).await.unwrap();
    live(AT_ONCE).await;

    let other_content = of(1).policy(policy().from("10.9.0.1"));
    let calls = [
        ("a refresh", Some(of(1))),
        ("another one's first request", Some(of(2))),
        ("a change", Some(other_content)),
        ("a change back", Some(of(1))),
        ("a close", None),
    ];
    for (what, asked) in calls {
        pod.asked.take();
        match asked {
            Some(asked) => process.request(&asked).await.unwrap(),
            None => process.close(&of(2)).await.unwrap(),
        };
        live(AT_ONCE).await;

        assert_eq!(looks(&pod.asked.take()), 1, "{what}");
    }
    // With links that come as the request does, as in a whole forwarder.
    pod.remake_link("nsm-0");
    pod.asked.take();
    process.request(&of(1)).await.unwrap();
    live(AT_ONCE).await;
    assert_eq!(looks(&pod.asked.take()), 1);
}

async fn what_others_do_elsewhere_is_no_reason_to_look<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_link("eth1");
    let process = Process::start_with(&pod, watching());
    process.request(&of(1)).await.unwrap();
    live(AT_ONCE).await;
    pod.asked.take();

    for i in 0..50_u32 {
        // Ten changes in 20 ms.
        let theirs = rule(100, "10.77.0.1/32", 20000 + i % 5, OWNER.protocol.get());
        let route = pod.foreign_default(100 + i % 5, "nsm-0", "172.16.1.7");
        let free = pod.foreign_default(20100, "nsm-0", "172.16.1.7");
        pod.add_rule(&theirs);
        pod.add_route(&route);
        pod.add_route(&free);
        pod.add_address("eth1", "192.0.2.1/24");
        pod.set_down("eth1");
        pod.set_up("eth1");
        pod.remove_address("eth1", "192.0.2.1/24");
        pod.delete_route(&free);
        pod.delete_route(&route);
        pod.delete_rule(&theirs);
        live(Duration::from_millis(20)).await;
    }
    live(AT_ONCE).await;

    assert_eq!(pod.asked.take(), Counts::default());
}

async fn an_interface_that_flaps_is_looked_at_no_more_than_twice_a_second<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, watching());
    process.request(&of(1)).await.unwrap();
    let before = pod.ours();
    live(AT_ONCE).await;
    pod.asked.take();

    for _ in 0..500 {
        pod.set_down("nsm-0");
        live(Duration::from_millis(10)).await;
        pod.set_up("nsm-0");
        live(Duration::from_millis(10)).await;
    }
    // 20 at once, and two in each of some 10 s (what is slept takes a little longer).
    let seen = looks(&pod.asked.take());
    assert!((20..=60).contains(&seen), "{seen}");

    let second = Duration::from_secs(1);
    within(second, "its routes are back", || pod.ours() == before).await;
    // At full speed after a quiet time.
    live(12 * second).await;
    pod.set_down("nsm-0");
    pod.set_up("nsm-0");
    at_once("its routes are back", || pod.ours() == before).await;
}

async fn a_repair_that_is_refused_is_tried_again_after_growing_pauses_and_told_once<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, watching());
    process.request(&of(1)).await.unwrap();
    let before = pod.ours();
    live(AT_ONCE).await;
    let refused = Effect::Errno(Errno::EPERM);
    pod.faults.set(Fault::forever(OpKind::AddRule, 1, refused));
    pod.asked.take();

    pod.delete_rule(&pod.our_rules()[0]);
    live(Duration::from_secs(60)).await;

    // After 0.1, 0.3, 0.7, 1.5, ... 51.1 s.
    let tried = pod.asked.take().of(OpKind::AddRule);
    assert!((9..=10).contains(&tried), "{tried}");
    let warnings = warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("from 10.1.0.1"), "{warnings:?}");
    pod.faults.clear();
    within(Duration::from_secs(61), "all is back", || {
        pod.ours() == before
    })
    .await;
}

async fn a_namespace_that_cannot_be_read_is_tried_again_and_told_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, watching());
    process.request(&of(1)).await.unwrap();
    let before = pod.ours();
    live(AT_ONCE).await;

    for reason in [Errno::EMFILE, Errno::EPERM] {
        pod.watch.lock_out(reason);
        pod.asked.take();
        pod.delete_rule(&pod.our_rules()[0]);
        live(Duration::from_secs(10)).await;

        let tried = pod.asked.take().opens;
        assert!((6..=8).contains(&tried), "{tried}");
        let told = warnings();
        assert_eq!(told.len(), 1, "{told:#?}");
        assert!(told[0].contains(reason.desc()), "{told:?}");
        pod.watch.let_in();
        within(Duration::from_secs(13), "all is back", || {
            pod.ours() == before
        })
        .await;
    }
}

async fn a_namespace_that_cannot_be_listened_to_is_tried_again_and_told_once<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    pod.watch.deafen(Errno::EMFILE);
    let process = Process::start_with(&pod, watching());
    process.request(&of(1)).await.unwrap();
    let before = pod.ours();
    pod.delete_rule(&pod.our_rules()[0]);
    live(Duration::from_secs(10)).await;

    let tried = pod.asked.take().listens;
    assert!((6..=8).contains(&tried), "{tried}");
    let told = warnings();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!(
        pod.ours(),
        before,
        "a look is a look, though nothing was heard"
    );

    pod.watch.let_hear();
    live(Duration::from_secs(13)).await;
    pod.delete_rule(&pod.our_rules()[0]);
    at_once("it is heard", || pod.ours() == before).await;
    assert_eq!(pod.listeners(), 1);
}

async fn nobody_listens_without_a_claim<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, watching());
    assert_eq!(pod.listeners(), 0);

    process.request(&connection("c")).await.unwrap();
    process.close(&of(3)).await.unwrap();
    assert_eq!(pod.asked.take().listens, 0);
    let nowhere = of(1).by("nowhere");
    process.request(&nowhere).await.unwrap_err();
    assert_eq!(pod.listeners(), 0);

    for _ in 0..2 {
        process.request(&of(1)).await.unwrap();
        assert_eq!(pod.listeners(), 1);
        process.close(&of(1)).await.unwrap();
        assert_eq!(pod.listeners(), 0);
        process.request(&of(1)).await.unwrap();
        process.request(&connection("c1")).await.unwrap();
        assert_eq!(pod.listeners(), 0, "it wants nothing any more");
    }
    // Though the namespace is still held.
    process.request(&of(1)).await.unwrap();
    let refused = Effect::Errno(Errno::EPERM);
    pod.faults.set(Fault::once(OpKind::DelRule, 1, refused));
    process.close(&of(1)).await.unwrap_err();
    assert_eq!((process.namespaces_held(), pod.listeners()), (1, 0));
    crate::pass(2 * GRACE).await;
    assert_eq!((process.namespaces_held(), pod.listeners()), (0, 0));
}

async fn nobody_listens_where_watching_is_off<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&of(1)).await.unwrap();
    let asked = pod.asked.take();
    assert_eq!((asked.listens, pod.listeners()), (0, 0));

    pod.delete_rule(&pod.our_rules()[0]);
    let drifted = pod.ours();
    live(Duration::from_secs(10)).await;

    assert_eq!(pod.ours(), drifted);
    assert_eq!(pod.asked.take(), Counts::default());
}

async fn one_listens_however_many_connections_there_are<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, watching());
    for number in 1..=9 {
        process.request(&of(number)).await.unwrap();
        assert_eq!(pod.listeners(), 1);
    }
    for number in 1..=8 {
        process.close(&of(number)).await.unwrap();
        assert_eq!(pod.listeners(), 1);
    }
    let before = pod.ours();
    pod.delete_rule(&pod.our_rules()[0]);
    at_once("the last one is served", || pod.ours() == before).await;

    process.close(&of(9)).await.unwrap();
    assert_eq!((pod.listeners(), pod.asked.take().listens), (0, 1));
}

async fn one_listens_for_each_owner_and_they_leave_each_other_alone<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let theirs = nsm_netlink::Owner {
        protocol: 79.try_into().unwrap(),
        tables: "25000-29999".parse().unwrap(),
    };
    let forwarder = Process::start_with(&pod, watching());
    let client = Process::start_with(
        &pod,
        Config {
            watch: true,
            ..Config::new(theirs)
        },
    );
    forwarder.request(&of(1)).await.unwrap();
    client.request(&of(1)).await.unwrap();
    let before = (pod.ours(), pod.of(theirs));
    live(AT_ONCE).await;
    pod.watch.writes();

    let rules = pod.snapshot().rules;
    for owner in [OWNER, theirs] {
        let rule = rules.iter().find(|rule| owner.owns_rule(rule)).unwrap();
        pod.delete_rule(rule);
        at_once("it is back", || (pod.ours(), pod.of(theirs)) == before).await;
    }
    live(10 * AT_ONCE).await;

    assert_eq!(pod.watch.writes().len(), 2);
    assert_eq!(pod.listeners(), 2);
}

async fn nobody_listens_any_more_once_the_element_is_gone<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, watching());
    process.request(&of(1)).await.unwrap();
    assert_eq!(tasks(), 1);
    let stood = pod.ours();

    drop(process);

    assert_eq!(pod.listeners(), 0);
    live(AT_ONCE).await;
    assert_eq!(tasks(), 0);
    assert_eq!(pod.ours(), stood);
}

async fn what_happens_after_the_last_claim_is_nobodys_concern<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, watching());
    process.request(&of(1)).await.unwrap();
    // A repair is about to begin.
    pod.delete_rule(&pod.our_rules()[0]);
    process.close(&of(1)).await.unwrap();
    pod.asked.take();
    pod.set_down("nsm-0");
    live(Duration::from_secs(2)).await;

    assert_eq!(pod.asked.take(), Counts::default());
    assert_eq!((process.namespaces_held(), tasks()), (0, 0));
    assert_eq!(pod.ours(), [""; 0]);
}

/// How often the namespace was looked at.
fn looks(asked: &Counts) -> usize {
    asked.of(OpKind::DumpLinks)
}

/// How many tasks the runtime has.
fn tasks() -> usize {
    let runtime = tokio::runtime::Handle::current();
    runtime.metrics().num_alive_tasks()
}
