//! Many connections at once in one namespace.

use crate::cases;
use nsm_api::connection::Connection;
use nsm_chain::{Call, Error, ErrorKind};
use nsm_netlink::OpKind;
use policyroute_suite::{Draft, Machine, Pod, Process, close, connection, policy, request, rule};
use std::collections::BTreeSet;

cases![
    no_two_of_many_parallel_connections_share_a_table,
    rules_of_others_that_come_meanwhile_are_left_alone,
    two_processes_of_one_owner_share_no_table,
    parallel_refreshes_of_one_connection_are_one,
    parallel_requests_and_closes_end_with_what_is_left,
    many_namespaces_are_served_at_once,
];

const POLICIES: usize = 4;

async fn no_two_of_many_parallel_connections_share_a_table<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let mut process = Process::start(&pod);

    for round in 0..20 {
        if round % 2 == 1 {
            process = Process::start(&pod);
        }
        all(32, |asked| process.call(request(asked, &pod))).await;
        each_has_its_table(&pod, 32);
        if round % 4 == 3 {
            all(32, |asked| process.call(close(asked, &pod))).await;
            assert_eq!(pod.ours(), [""; 0]);
            assert_eq!(process.namespaces_held(), 0);
        }
    }
}

async fn rules_of_others_that_come_meanwhile_are_left_alone<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    // Onto the tables that are taken next.
    let theirs = |i: u32| rule(1000 + i, "10.7.0.0/16", 20000 + 5 * i, 4);
    for i in 0..8 {
        let world = pod.clone();
        let add = move || world.add_rule(&theirs(i));
        pod.faults
            .meanwhile(OpKind::AddRoute, 1 + 4 * i as usize, add);
    }

    let process = Process::start(&pod);
    all(8, |asked| process.call(request(asked, &pod))).await;

    each_has_its_table(&pod, 8);
    let rules = pod.snapshot().rules;
    assert!((0..8).all(|i| rules.contains(&theirs(i))));
}

/// They cannot wait for each other, so a request may have to be repeated.
async fn two_processes_of_one_owner_share_no_table<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let processes = [Process::start(&pod), Process::start(&pod)];

    let requests: Vec<_> = (0..8)
        .map(|i| {
            let (asked, pod) = (numbered(i), pod.clone());
            let process = processes[i % 2].clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    match process.call(request(&asked, &pod)).await {
                        Ok(_) => return,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
                    }
                }
                panic!("always too slow");
            })
        })
        .collect();
    for request in requests {
        request.await.unwrap();
    }
    // Each has seen what the other made last.
    for i in 0..8 {
        processes[i % 2].request(&numbered(i)).await.unwrap();
    }

    each_has_its_table(&pod, 8);
}

async fn parallel_refreshes_of_one_connection_are_one<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);

    let refreshes: Vec<_> = (0..10)
        .map(|_| tokio::spawn(process.call(request(&numbered(0), &pod))))
        .collect();
    for refresh in refreshes {
        refresh.await.unwrap().unwrap();
    }

    each_has_its_table(&pod, 1);
    assert_eq!(pod.watch.writes().len(), 2 * POLICIES);
}

async fn parallel_requests_and_closes_end_with_what_is_left<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod).below_begin();
    let mut calls = Vec::new();
    for _ in 0..5 {
        for i in 0..8 {
            calls.push(tokio::spawn(process.call(request(&numbered(i), &pod))));
            calls.push(tokio::spawn(process.call(close(&numbered(i), &pod))));
        }
    }
    for i in 0..4 {
        calls.push(tokio::spawn(process.call(request(&numbered(i), &pod))));
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }

    each_has_its_table(&pod, 4);
}

async fn many_namespaces_are_served_at_once<M: Machine>(pod: Pod<M>) {
    let pods: Vec<Pod<M>> = (0..24).map(|_| Pod::boot()).collect();
    let process = Process::start(&pod);
    pods.iter().for_each(|pod| pod.add_link("nsm-0"));
    let calls = |call: fn(&Connection, &Pod<M>) -> Call| {
        let numbered_pods = pods.iter().enumerate();
        let spawn = |(i, pod)| tokio::spawn(process.call(call(&numbered(i), pod)));
        numbered_pods.map(spawn).collect::<Vec<_>>()
    };

    for request in calls(request) {
        request.await.unwrap().unwrap();
    }
    assert_eq!(process.namespaces_held(), 24);
    assert!(pods.iter().all(|pod| pod.our_rules().len() == POLICIES));

    for close in calls(close) {
        close.await.unwrap().unwrap();
    }
    assert_eq!(process.namespaces_held(), 0);
    assert!(pods.iter().all(|pod| pod.our_rules().is_empty()));
}

fn numbered(i: usize) -> Draft {
    let policies = (1..=POLICIES).map(|j| {
        let policy = policy().from(&format!("10.1.{i}.{j}"));
        policy.via(&format!("172.16.{i}.{j}"))
    });
    connection(&format!("c{i}")).policies(policies)
}

/// Makes the call for all connections at once.
async fn all<F>(count: usize, call: impl Fn(&Draft) -> F)
where
    F: Future<Output = Result<Connection, Error>> + Send + 'static,
{
    let calls: Vec<_> = (0..count)
        .rev()
        .map(|i| tokio::spawn(call(&numbered(i))))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

#[track_caller]
fn each_has_its_table<M: Machine>(pod: &Pod<M>, connections: usize) {
    let rules = pod.our_rules();
    let tables: BTreeSet<u32> = rules.iter().map(|rule| rule.table).collect();
    let lines = pod.ours();
    assert_eq!(rules.len(), connections * POLICIES);
    assert_eq!(tables.len(), rules.len());
    assert_eq!(lines.len(), rules.len());
    for line in &lines {
        let (_, from) = line.split_once("from 10.1.").unwrap();
        let (of, rest) = from.split_once(' ').unwrap();
        let leads = format!(": default via 172.16.{of} dev nsm-0");
        assert!(rest.ends_with(&leads), "{line}");
    }
}
