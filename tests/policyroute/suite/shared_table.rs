//! Rules of ours that look up one table, as a former process or another one leaves them.

use crate::cases;
use nsm_netlink::{Change, Object};
use policyroute_suite::{Draft, Machine, Pod, Process, connection, policy, request, rule};

cases![
    a_table_that_two_rules_share_is_split_whoever_comes_first,
    a_table_that_two_rules_share_is_split_in_parallel,
    policies_of_one_connection_that_share_a_table_are_split,
];

async fn a_table_that_two_rules_share_is_split_whoever_comes_first<M: Machine>(pod: Pod<M>) {
    let [c1, c2] = sharers();
    for order in [[&c2, &c1], [&c1, &c2]] {
        shared_table(&pod);
        let process = Process::start(&pod);

        for asked in order {
            process.request(asked).await.unwrap();
        }

        shared_table_is_split(&pod);
        process.close(&c1).await.unwrap();
        process.close(&c2).await.unwrap();
        assert_eq!(pod.ours(), [""; 0]);
        pod.delete_link("nsm-0");
        pod.delete_link("nsm-1");
    }
}

async fn a_table_that_two_rules_share_is_split_in_parallel<M: Machine>(pod: Pod<M>) {
    shared_table(&pod);
    let process = Process::start(&pod);

    let requests = sharers().map(|asked| tokio::spawn(process.call(request(&asked, &pod))));
    for request in requests {
        request.await.unwrap().unwrap();
    }

    shared_table_is_split(&pod);
}

/// As somebody leaves it who has one table for each interface.
async fn policies_of_one_connection_that_share_a_table_are_split<M: Machine>(pod: Pod<M>) {
    shared_table(&pod);
    let of = |from: &str| policy().from(from).via("172.16.1.254");
    let both = connection("c").by("nsm-1");
    let both = both.policies([of("10.1.0.1"), of("10.1.0.2")]);

    Process::start(&pod).request(&both).await.unwrap();

    let mut lines = pod.ours();
    lines.sort();
    assert_eq!(
        lines[..2],
        [
            "31745: from 10.1.0.1 -> 20001: default via 172.16.1.254 dev nsm-1",
            "31745: from 10.1.0.2 -> 20000: default via 172.16.1.254 dev nsm-1",
        ]
    );
}

fn sharers() -> [Draft; 2] {
    let of = |from: &str| policy().from(from).via("172.16.1.254");
    [
        connection("c1").policies([of("10.1.0.1"), of("10.2.0.1")]),
        connection("c2").by("nsm-1").policy(of("10.1.0.2")),
    ]
}

/// Two rules look up the table of one connection, a third an empty one.
fn shared_table<M: Machine>(pod: &Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    for (from, table) in [
        ("10.1.0.1/32", 20001),
        ("10.1.0.2/32", 20001),
        ("10.2.0.1/32", 20002),
    ] {
        pod.add_rule(&rule(31745, from, table, 78));
    }
    let default = pod.foreign_default(20001, "nsm-1", "172.16.1.254");
    pod.add_route(&nsm_netlink::Route {
        protocol: 78,
        ..default
    });
    pod.events();
}

#[track_caller]
fn shared_table_is_split<M: Machine>(pod: &Pod<M>) {
    let mut lines = pod.ours();
    lines.sort();
    assert_eq!(
        lines,
        [
            "31745: from 10.1.0.1 -> 20000: default via 172.16.1.254 dev nsm-0",
            "31745: from 10.1.0.2 -> 20001: default via 172.16.1.254 dev nsm-1",
            "31745: from 10.2.0.1 -> 20002: default via 172.16.1.254 dev nsm-0",
        ]
    );
    // The live connection's route has stood throughout.
    let went = pod
        .events()
        .into_iter()
        .filter_map(|event| match event.object {
            Object::Route(route) if event.change == Change::Removed => Some(route),
            _ => None,
        });
    assert_eq!(went.collect::<Vec<_>>(), []);
}
