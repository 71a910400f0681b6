//! Somebody else is faster.

use crate::cases;
use nsm_chain::ErrorKind;
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, Op, OpKind, Route};
use policyroute_suite::{
    Draft, Machine, Pod, Process, assert_fails, connection, policy, request, rule,
};

cases![
    a_table_that_somebody_takes_meanwhile_is_left_to_him,
    what_another_process_of_ours_puts_into_it_stays_too,
    a_repair_that_another_process_was_faster_with_is_not_taken_back,
    a_table_that_another_process_takes_up_is_not_emptied_by_a_request_that_fails,
    a_rule_of_somebody_on_the_table_that_was_free_is_left_alone,
    whoever_is_slower_many_times_gets_his_tables,
    whoever_is_always_slower_gives_up_and_leaves_nothing,
    a_rule_that_another_process_of_ours_adds_meanwhile_is_not_doubled,
    two_processes_of_ours_that_pick_one_table_end_on_two,
    an_interface_that_goes_meanwhile_fails_the_request_and_leaves_nothing,
    a_foreign_rule_that_comes_and_goes_meanwhile_changes_nothing,
];

async fn a_table_that_somebody_takes_meanwhile_is_left_to_him<M: Machine>(pod: Pod<M>) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    let theirs = pod.foreign_default(20000, "eth0", "");
    let world = pod.clone();
    let route = theirs.clone();
    pod.faults
        .meanwhile(OpKind::AddRoute, 1, move || world.add_route(&route));

    let process = Process::start(&pod);
    process.call(request(&two(), &pod)).await.unwrap();

    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.1.0.1 -> 20001: default dev nsm-0",
            "31745: from 10.1.0.2 -> 20002: default dev nsm-0",
        ]
    );
    process.close(&two()).await.unwrap();
    assert!(pod.snapshot().routes.contains(&theirs));
}

/// It looks just like what is written here.
async fn what_another_process_of_ours_puts_into_it_stays_too<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let world = pod.clone();
    pod.faults.meanwhile(OpKind::AddRoute, 1, move || {
        world.add_route(&ours(&world, 20000));
        world.add_rule(&rule(31745, "10.3.0.1/32", 20000, 78));
    });

    Process::start(&pod)
        .call(request(&two(), &pod))
        .await
        .unwrap();

    assert_eq!(
        pod.ours(),
        [
            THEIRS,
            "31745: from 10.1.0.1 -> 20001: default dev nsm-0",
            "31745: from 10.1.0.2 -> 20002: default dev nsm-0",
        ]
    );
}

async fn a_repair_that_another_process_was_faster_with_is_not_taken_back<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let first = connection("c").policy(policy().from("10.1.0.1"));
    process.request(&first).await.unwrap();
    let before = pod.snapshot();
    pod.delete_route(&pod.our_routes()[0]);
    let world = pod.clone();
    pod.faults.meanwhile(OpKind::AddRoute, 1, move || {
        world.add_route(&ours(&world, 20000));
    });
    pod.faults
        .set(Fault::once(OpKind::AddRule, 1, Effect::Errno(Errno::EPERM)));

    let answer = process.call(request(&two(), &pod)).await;

    assert_fails(answer, ErrorKind::PermissionDenied, &["policy 1"]);
    assert_eq!(pod.faults.unconsumed(), []);
    assert_eq!(pod.snapshot(), before);
}

/// Routes without a rule look like left ones to another process, which may want just these.
async fn a_table_that_another_process_takes_up_is_not_emptied_by_a_request_that_fails<
    M: Machine,
>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    for from in ["10.3.0.1", "10.1.0.1"] {
        let (world, theirs) = (pod.clone(), rule(31745, &format!("{from}/32"), 20000, 78));
        pod.faults
            .meanwhile(OpKind::AddRule, 1, move || world.add_rule(&theirs));
        pod.faults
            .set(Fault::once(OpKind::AddRule, 2, Effect::Errno(Errno::EPERM)));
        let process = Process::start(&pod);

        let answer = process.call(request(&two(), &pod)).await;

        assert_fails(answer, ErrorKind::PermissionDenied, &["policy 1"]);
        assert_eq!(pod.faults.unconsumed(), []);
        let theirs = format!("31745: from {from} -> 20000: default dev nsm-0");
        assert_eq!(pod.ours(), [theirs.as_str()]);
        process.request(&two()).await.unwrap();
        assert!(pod.ours().contains(&theirs), "{:?}", pod.ours());
        process.close(&two()).await.unwrap();
        for rule in pod.our_rules() {
            pod.delete_rule(&rule);
            pod.delete_route(&pod.our_routes()[0]);
        }
        assert_eq!(pod.ours(), [""; 0]);
    }
}

async fn a_rule_of_somebody_on_the_table_that_was_free_is_left_alone<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let theirs = rule(31745, "10.1.0.1/32", 20000, 4);
    let (world, rule) = (pod.clone(), theirs.clone());
    pod.faults
        .meanwhile(OpKind::AddRule, 1, move || world.add_rule(&rule));

    let process = Process::start(&pod);
    process.call(request(&two(), &pod)).await.unwrap();

    assert_eq!(pod.our_rules().len(), 2);
    process.close(&two()).await.unwrap();
    assert!(pod.snapshot().rules.contains(&theirs));
}

/// Two processes of one owner that start at once pick the same tables again and again.
async fn whoever_is_slower_many_times_gets_his_tables<M: Machine>(pod: Pod<M>) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    taken_each_time(&pod, 7);
    let process = Process::start(&pod);

    process.call(request(&two(), &pod)).await.unwrap();

    assert_eq!(pod.our_rules().len(), 2);
    assert_eq!(pod.our_routes().len(), 2);
}

/// Somebody takes the first table that an attempt has picked, so many times.
fn taken_each_time<M: Machine>(pod: &Pod<M>, times: u32) {
    // The policies are two, so each attempt brings two routes.
    for attempt in 0..times {
        let (world, table) = (pod.clone(), 20000 + attempt);
        let take = move || world.add_route(&world.foreign_default(table, "eth0", ""));
        pod.faults
            .meanwhile(OpKind::AddRoute, 1 + 2 * attempt as usize, take);
    }
}

async fn whoever_is_always_slower_gives_up_and_leaves_nothing<M: Machine>(pod: Pod<M>) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    taken_each_time(&pod, 8);
    let process = Process::start(&pod);

    let answer = process.call(request(&two(), &pod)).await;

    assert_fails(answer, ErrorKind::Unavailable, &["net:["]);
    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn a_rule_that_another_process_of_ours_adds_meanwhile_is_not_doubled<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let world = pod.clone();
    pod.faults.meanwhile(OpKind::AddRule, 1, move || {
        let route = world.foreign_default(20009, "nsm-0", "");
        world.add_route(&Route {
            protocol: 78,
            ..route
        });
        world.add_rule(&rule(31745, "10.1.0.2/32", 20009, 78));
    });

    Process::start(&pod)
        .call(request(&two(), &pod))
        .await
        .unwrap();

    assert_eq!(pod.our_rules().len(), 2);
    assert_eq!(pod.our_routes().len(), 2);
}

async fn two_processes_of_ours_that_pick_one_table_end_on_two<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let world = pod.clone();
    pod.faults.meanwhile(OpKind::AddRule, 1, move || {
        let mut route = world.foreign_default(20000, "nsm-0", "");
        route.prefix = "10.9.0.0/16".parse().unwrap();
        world.add_route(&Route {
            protocol: 78,
            ..route
        });
        world.add_rule(&rule(31745, "10.3.0.1/32", 20000, 78));
    });
    let process = Process::start(&pod);

    process.call(request(&two(), &pod)).await.unwrap();

    let rules = pod.our_rules();
    let mut tables: Vec<u32> = rules.iter().map(|rule| rule.table).collect();
    tables.sort_unstable();
    tables.dedup();
    assert_eq!((rules.len(), tables.len()), (3, 3), "{:?}", pod.ours());
}

async fn an_interface_that_goes_meanwhile_fails_the_request_and_leaves_nothing<M: Machine>(
    pod: Pod<M>,
) {
    for step in [OpKind::AddRoute, OpKind::AddRule] {
        pod.add_link("nsm-0");
        let world = pod.clone();
        pod.faults
            .meanwhile(step, 1, move || world.delete_link("nsm-0"));
        let process = Process::start(&pod);

        let answer = process.call(request(&two(), &pod)).await;

        match step {
            OpKind::AddRoute => assert_fails(answer, ErrorKind::FailedPrecondition, &["policy 0"]),
            // Too late to be seen: the next refresh says so.
            _ => drop(answer.unwrap()),
        }
        process
            .call(policyroute_suite::close(&two(), &pod))
            .await
            .unwrap();
        assert_eq!(pod.ours(), [""; 0]);
    }
}

async fn a_foreign_rule_that_comes_and_goes_meanwhile_changes_nothing<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&two()).await.unwrap();
    let before = pod.snapshot();
    let theirs = rule(5, "10.7.0.0/16", 100, 4);
    for (nth, op) in [(1, Op::AddRule(theirs.clone())), (2, Op::DelRule(theirs))] {
        let world = pod.clone();
        pod.faults
            .meanwhile(OpKind::DumpRules, nth, move || match &op {
                Op::DelRule(rule) => world.delete_rule(rule),
                Op::AddRule(rule) => world.add_rule(rule),
                _ => {}
            });
    }

    process.call(request(&two(), &pod)).await.unwrap();

    assert_eq!(pod.snapshot(), before);
}

const THEIRS: &str = "31745: from 10.3.0.1 -> 20000: default dev nsm-0";

/// A default route as the element makes it.
fn ours<M: Machine>(pod: &Pod<M>, table: u32) -> Route {
    Route {
        protocol: 78,
        ..pod.foreign_default(table, "nsm-0", "")
    }
}

fn two() -> Draft {
    connection("c").policies(["10.1.0.1", "10.1.0.2"].map(|from| policy().from(from)))
}
