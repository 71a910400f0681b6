//! What becomes of rules and routes when a connection wants something else.

use crate::cases;
use nsm_netlink::{Change, Event, Object};
use policyroute_suite::{Draft, Machine, Pod, PolicyDraft, Process, connection, policy};

cases![
    another_next_hop_is_appended_before_the_old_one_goes_and_the_rule_stays,
    a_route_more_or_less_leaves_the_others_and_the_rule,
    another_selector_is_made_before_the_old_one_goes,
    ids_of_tables_are_used_again,
    policies_may_be_dropped_added_and_reordered,
    a_policy_that_is_given_twice_is_one_with_the_routes_of_both,
    another_policy_leaves_those_that_stand,
    the_narrower_policy_is_asked_first_whatever_the_order,
    overlapping_ranges_of_ports_are_reported_once,
    an_overlap_is_not_reported_again_because_others_have_called,
    of_two_that_overlap_the_older_is_said_to_take_the_traffic,
    a_crowd_of_overlaps_is_a_warning_for_each_policy,
    an_input_that_is_not_understood_any_more_leaves_what_stands,
];

async fn another_next_hop_is_appended_before_the_old_one_goes_and_the_rule_stays<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    for (from, before, after) in [
        ("10.1.0.1", "172.16.1.1", "172.16.1.2"),
        ("2001:db8::1", "fe80::1", "fe80::2"),
        ("10.1.0.2", "172.16.1.1", "0.0.0.0"),
        ("2001:db8::2", "fe80::1", "::"),
        ("2001:db8::3", "::", "fe80::1"),
    ] {
        let via = |via: &str| {
            let default = if from.contains(':') {
                "::/0"
            } else {
                "0.0.0.0/0"
            };
            connection("c").policy(policy().from(from).route(default, via))
        };
        let process = Process::start(&pod);
        process.request(&via(before)).await.unwrap();
        pod.events();
        pod.watch.bursts();

        process.request(&via(after)).await.unwrap();

        let mut events = pod.events().into_iter();
        let added = events.next().unwrap();
        assert_eq!(added.change, Change::Added);
        assert!(matches!(added.object, Object::Route(_)));
        assert_eq!(pod.our_routes().len(), 1, "{from}");
        assert!(events.all(|event| matches!(event.object, Object::Route(_))));
        process.close(&via(after)).await.unwrap();
        assert_eq!(pod.ours(), [""; 0], "{from}");
    }
}

async fn a_route_more_or_less_leaves_the_others_and_the_rule<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let one = || policy().from("10.1.0.1").via("172.16.1.1");
    let two = || one().route("10.9.0.0/16", "");
    process.request(&only(one())).await.unwrap();
    let before = pod.snapshot();
    pod.events();

    process.request(&only(two())).await.unwrap();

    let [Event { change, object }] = <[_; 1]>::try_from(pod.events()).unwrap();
    assert!(change == Change::Added && matches!(object, Object::Route(_)));
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-0, 10.9.0.0/16 dev nsm-0"]
    );

    process.request(&only(one())).await.unwrap();

    let [Event { change, object }] = <[_; 1]>::try_from(pod.events()).unwrap();
    assert!(change == Change::Removed && matches!(object, Object::Route(_)));
    assert_eq!(pod.snapshot(), before);
}

async fn another_selector_is_made_before_the_old_one_goes<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let on_port = |port| only(policy().from("10.1.0.1").tcp(port));
    process.request(&on_port(80)).await.unwrap();
    pod.events();
    pod.watch.bursts();

    process.request(&on_port(81)).await.unwrap();

    let order: Vec<_> = pod.events().iter().map(kind).collect();
    assert_eq!(
        order,
        [
            (Change::Added, "route"),
            (Change::Added, "rule"),
            (Change::Removed, "rule"),
            (Change::Removed, "route"),
        ]
    );
    assert_eq!(pod.watch.bursts().len(), 4);
    assert_eq!(
        pod.ours(),
        ["31734: from 10.1.0.1 ipproto tcp dport 81 -> 20001: default dev nsm-0"]
    );
}

/// Each IPv6 table that ever was costs on every later change of a rule.
async fn ids_of_tables_are_used_again<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let mut tables = Vec::new();

    for i in 1..=6 {
        let asked = only(policy().from(&format!("2001:db8::{i}")));
        process.request(&asked).await.unwrap();
        tables.push(pod.our_rules()[0].table);
    }

    assert_eq!(tables, [20000, 20001, 20000, 20001, 20000, 20001]);
}

async fn policies_may_be_dropped_added_and_reordered<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let of =
        |policies: &[&str]| connection("c").policies(policies.iter().map(|f| policy().from(f)));
    let [a, b, c, d] = [
        "10.0.0.1",
        "2001:db8::1",
        "10.0.0.16/28",
        "2001:db8::10/124",
    ];
    process.request(&of(&[a, b, c, d])).await.unwrap();
    let all = pod.our_rules();
    pod.events();

    process.request(&of(&[d, c, b, a])).await.unwrap();
    assert_eq!(pod.events(), []);

    process.request(&of(&[b, c, d])).await.unwrap();
    assert_eq!(pod.our_rules(), all[1..]);

    process.request(&of(&[b, c, d, a])).await.unwrap();
    assert_eq!(pod.our_rules(), all);
}

async fn a_policy_that_is_given_twice_is_one_with_the_routes_of_both<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let a = || policy().from("10.1.0.1").via("172.16.1.1");

    let asked = connection("c").policies([
        a(),
        policy().from("10.1.0.2"),
        a(),
        policy().from("10.1.0.1").route("10.9.0.0/16", ""),
    ]);
    process.request(&asked).await.unwrap();

    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-0, 10.9.0.0/16 dev nsm-0",
            "31745: from 10.1.0.2 -> 20001: default dev nsm-0",
        ]
    );

    process
        .request(&only(policy().from("10.1.0.2")))
        .await
        .unwrap();
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.2 -> 20001: default dev nsm-0"]
    );

    process.request(&connection("c")).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
    assert_eq!(process.namespaces_held(), 0);
}

async fn another_policy_leaves_those_that_stand<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start(&pod);
    let of = |count: usize| {
        let policies = ["10.1.0.1", "10.1.0.2", "10.1.0.3"][..count].iter();
        connection("c1").policies(policies.map(|from| policy().from(from)))
    };
    process.request(&of(2)).await.unwrap();
    let before = pod.ours();

    process.request(&of(3)).await.unwrap();
    let d = connection("c2")
        .by("nsm-1")
        .policy(policy().from("10.1.0.4"));
    process.request(&d).await.unwrap();

    assert_eq!(pod.ours()[..2], before);
    assert_eq!(pod.ours().len(), 4);
}

async fn the_narrower_policy_is_asked_first_whatever_the_order<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let policies = || {
        [
            policy().from("10.1.0.1").via("172.16.1.254"),
            policy().from("10.2.0.1").via("172.16.2.254"),
            policy().from("10.2.0.1").tcp(443).via("172.16.3.254"),
        ]
    };
    let right = [
        "31734: from 10.2.0.1 ipproto tcp dport 443 -> 20002: default via 172.16.3.254 dev nsm-0",
        "31745: from 10.1.0.1 -> 20000: default via 172.16.1.254 dev nsm-0",
        "31745: from 10.2.0.1 -> 20001: default via 172.16.2.254 dev nsm-0",
    ];
    let mut reversed = policies();
    reversed.reverse();
    let process = Process::start(&pod);

    for policies in [policies(), reversed.clone()] {
        process
            .request(&connection("c").policies(policies))
            .await
            .unwrap();
        assert_eq!(pod.ours(), right);
    }
    let asked = connection("c").policies(reversed);
    Process::start(&pod).request(&asked).await.unwrap();
    assert_eq!(pod.ours(), right);
}

async fn overlapping_ranges_of_ports_are_reported_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let tcp = |ports: &str| policy().from("10.1.0.1").proto("tcp").dport(ports);

    let asked = connection("c").policies([tcp("100-200"), tcp("300-400"), tcp("150-250")]);
    process.request(&asked).await.unwrap();
    process.request(&asked).await.unwrap();

    let [warning] = <[_; 1]>::try_from(policyroute_suite::warnings()).unwrap();
    assert!(warning.contains("policies 0 and 2 overlap"), "{warning}");
}

async fn an_overlap_is_not_reported_again_because_others_have_called<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let overlapping = connection("c").policies([ports("100-200"), ports("150-250")]);
    let other = connection("d").policy(policy().from("10.1.0.2"));
    process.request(&overlapping).await.unwrap();
    assert_eq!(policyroute_suite::warnings().len(), 1);

    process.request(&other).await.unwrap();
    process.request(&overlapping).await.unwrap();
    process.close(&other).await.unwrap();
    process.request(&overlapping).await.unwrap();

    assert_eq!(policyroute_suite::warnings(), [""; 0]);
}

/// The kernel asks rules of one priority in the order of their age, not in that of the list.
async fn of_two_that_overlap_the_older_is_said_to_take_the_traffic<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&only(ports("150-250"))).await.unwrap();

    let asked = connection("c").policies([ports("100-200"), ports("150-250")]);
    process.request(&asked).await.unwrap();

    let first = &pod.our_rules()[0];
    assert!(first.selector.to_string().ends_with("dport 150-250"));
    let [warning] = <[_; 1]>::try_from(policyroute_suite::warnings()).unwrap();
    assert!(warning.contains("takes policy 1 ["), "{warning}");
    process.request(&asked).await.unwrap();
    Process::start(&pod).request(&asked).await.unwrap();
    assert_eq!(policyroute_suite::warnings(), [warning]);
}

async fn a_crowd_of_overlaps_is_a_warning_for_each_policy<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let asked = connection("c").policies((1..=100).map(|end| ports(&format!("1-{}", 1000 + end))));

    Process::start(&pod).request(&asked).await.unwrap();

    assert_eq!(policyroute_suite::warnings().len(), 99);
}

async fn an_input_that_is_not_understood_any_more_leaves_what_stands<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let good = only(policy().from("10.1.0.1"));
    process.request(&good).await.unwrap();
    let before = pod.snapshot();

    let bad = only(policy().from("10.1.0.1").proto("0"));
    process.request(&bad).await.unwrap_err();

    assert_eq!(pod.snapshot(), before);
    process.close(&good).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
}

fn ports(range: &str) -> PolicyDraft {
    policy().from("10.1.0.1").proto("tcp").dport(range)
}

fn only(policy: PolicyDraft) -> Draft {
    connection("c").policy(policy)
}

fn kind(event: &Event) -> (Change, &'static str) {
    match event.object {
        Object::Rule(_) => (event.change, "rule"),
        Object::Route(_) => (event.change, "route"),
    }
}
