//! What a refresh finds, it keeps.

use crate::cases;
use nsm_netlink::counted::Counts;
use nsm_policyroute::Config;
use policyroute_suite::{Draft, Machine, Pod, Process, config, connection, policy};

cases![
    an_unchanged_refresh_writes_nothing,
    a_first_request_after_a_restart_writes_nothing_when_nothing_was_lost,
    refreshes_and_restarts_pile_nothing_up,
    another_spelling_is_no_change,
    dumps_do_not_grow_with_the_number_of_policies,
];

/// Of each kind one.
fn of_all_kinds() -> Draft {
    connection("c")
        .source("172.16.1.2/32")
        .source("2001:db8::2/128")
        .policies([
            policy()
                .from("10.1.0.1")
                .via("172.16.1.1")
                .route("10.9.0.0/16", ""),
            policy().from("10.1.0.1").tcp(443).via("172.16.1.9"),
            policy().from("10.1.1.0/24").sport("1024-2047"),
            policy()
                .from("2001:db8::1")
                .via("fe80::1")
                .route("2001:db8:9::/48", ""),
            policy().udp(6666),
        ])
}

async fn an_unchanged_refresh_writes_nothing<M: Machine>(pod: Pod<M>) {
    for config in [config(), fail_closed()] {
        pod.add_link("nsm-0");
        let process = Process::start_with(&pod, config);
        process.request(&of_all_kinds()).await.unwrap();
        let before = pod.snapshot();
        pod.asked.take();
        pod.events();

        process.request(&of_all_kinds()).await.unwrap();

        assert_eq!(pod.asked.take().writes(), 0);
        assert_eq!(pod.events(), []);
        assert_eq!(pod.snapshot(), before);
        process.close(&of_all_kinds()).await.unwrap();
        pod.delete_link("nsm-0");
    }
}

async fn a_first_request_after_a_restart_writes_nothing_when_nothing_was_lost<M: Machine>(
    pod: Pod<M>,
) {
    for config in [config(), fail_closed()] {
        pod.add_link("nsm-0");
        let process = Process::start_with(&pod, config.clone());
        process.request(&of_all_kinds()).await.unwrap();
        let before = pod.snapshot();
        pod.asked.take();
        pod.events();

        let process = Process::start_with(&pod, config);
        process.request(&of_all_kinds()).await.unwrap();

        assert_eq!(pod.asked.take().writes(), 0);
        assert_eq!(pod.events(), []);
        assert_eq!(pod.snapshot(), before);
        process.close(&of_all_kinds()).await.unwrap();
        pod.delete_link("nsm-0");
    }
}

async fn refreshes_and_restarts_pile_nothing_up<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let mut process = Process::start(&pod);
    process.request(&of_all_kinds()).await.unwrap();
    let before = pod.snapshot();
    pod.events();

    for _ in 0..20 {
        process.request(&of_all_kinds()).await.unwrap();
        process = Process::start(&pod);
    }
    let refreshes: Vec<_> = (0..10)
        .map(|_| tokio::spawn(process.call(policyroute_suite::request(&of_all_kinds(), &pod))))
        .collect();
    for refresh in refreshes {
        refresh.await.unwrap().unwrap();
    }

    assert_eq!(pod.events(), []);
    assert_eq!(pod.snapshot(), before);
}

async fn another_spelling_is_no_change<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let spelled = |policies: [[&str; 4]; 5]| {
        let policies = policies.map(|[from, proto, ports, prefix]| {
            let policy = policy().from(from).proto(proto).dport(ports);
            policy.route(prefix, "")
        });
        connection("c").policies(policies)
    };
    let first = spelled([
        ["2001:0DB8:0:0::00A1/128", "", "", "2001:db8:0::/32"],
        ["10.1.0.1", "tcp", "443", "0.0.0.0/0"],
        ["10.2.0.7/24", "", "", "10.9.8.7/16"],
        ["10.1.0.2", "17", "6666-6666", "10.9.0.1"],
        ["10.1.0.2", "UDP", "6666", "10.9.0.1/32"],
    ]);
    process.request(&first).await.unwrap();
    pod.asked.take();
    pod.events();

    let second = spelled([
        ["2001:db8::a1", "", "", "2001:db8::5/32"],
        ["10.1.0.1/32", "6", "443-443", "0.0.0.0/0"],
        ["10.2.0.0/24", "", "", "10.9.0.0/16"],
        ["10.1.0.2/32", "udp", "6666", "10.9.0.1/32"],
        ["10.1.0.2/32", "udp", "6666", "10.9.0.1/32"],
    ]);
    process.request(&second).await.unwrap();

    assert_eq!(pod.asked.take().writes(), 0);
    assert_eq!(pod.events(), []);
    assert_eq!(pod.our_rules().len(), 4);
}

async fn dumps_do_not_grow_with_the_number_of_policies<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let mut counted = Vec::new();

    for count in [4, 300] {
        let process = Process::start(&pod);
        let asked = connection("c").policies(many(count));
        pod.asked.take();
        process.request(&asked).await.unwrap();
        let first = pod.asked.take();
        process.request(&asked).await.unwrap();
        let refresh = pod.asked.take();
        process.close(&asked).await.unwrap();
        let close = pod.asked.take();

        assert_eq!(first.writes(), 2 * count);
        assert_eq!(refresh.writes(), 0);
        assert_eq!(close.writes(), 2 * count);
        let all = [first, refresh, close];
        counted.push(all.map(|counts: Counts| (counts.opens, counts.dumps(), counts.bursts)));
    }

    assert_eq!(counted[0], counted[1]);
}

fn fail_closed() -> Config {
    Config {
        fail_closed: true,
        ..config()
    }
}

fn many(count: usize) -> Vec<policyroute_suite::PolicyDraft> {
    (1..=count)
        .map(|i| policy().from(&format!("10.1.{}.{}", i / 256, i % 256)))
        .collect()
}
