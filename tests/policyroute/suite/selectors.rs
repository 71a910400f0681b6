//! What policies select, and in which family.

use crate::cases;
use nsm_netlink::{Family, PortRange, Rule, Selector};
use policyroute_suite::{Machine, Pod, PolicyDraft, Process, connection, policy, rule};

cases![
    a_rule_has_its_fields_its_table_and_our_mark_and_nothing_else,
    every_policy_of_a_dual_stack_connection_is_installed,
    a_policy_without_any_selector_stands_for_each_source_address,
    a_policy_of_ports_alone_has_one_table_id_in_both_families,
    a_source_of_length_0_selects_nothing_and_tells_the_family,
    where_the_id_is_taken_in_the_other_family_the_later_rule_has_its_own,
];

async fn a_rule_has_its_fields_its_table_and_our_mark_and_nothing_else<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let all_fields = policy()
        .from("10.1.0.1")
        .proto("tcp")
        .sport("1024-2047")
        .dport("443");

    let asked = connection("c").source("172.16.1.2/24").policies([
        policy().udp(53),
        policy().from("2001:db8::/64"),
        policy().from("10.1.0.77/24"),
        all_fields,
    ]);
    Process::start(&pod).request(&asked).await.unwrap();

    let ports = |start, end| Some(PortRange::new(start, end).unwrap());
    let any = Selector::any(Family::V4);
    let mut v4 = rule(30000 + 18 * 96 + 3, "10.1.0.1/32", 20003, 78);
    v4.selector.proto = Some(6);
    v4.selector.sport = ports(1024, 2047);
    v4.selector.dport = ports(443, 443);
    let udp = Selector {
        proto: Some(17),
        dport: ports(53, 53),
        ..any
    };
    assert_eq!(
        pod.our_rules(),
        [
            v4,
            rule(30000 + 18 * 104 + 17, "10.1.0.0/24", 20002, 78),
            Rule::lookup(30000 + 18 * 128 + 6, udp, 20000, 78),
            rule(30000 + 18 * 64 + 17, "2001:db8::/64", 20001, 78),
        ]
    );
}

async fn every_policy_of_a_dual_stack_connection_is_installed<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");

    let asked = connection("c").policies([
        from("10.0.0.1/32"),
        from("2001:db8::1/128").via("fe80::1"),
        from("10.0.0.16/28"),
        from("2001:db8::10/124"),
    ]);
    Process::start(&pod).request(&asked).await.unwrap();

    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.0.0.1 -> 20000: default dev nsm-0",
            "31817: from 10.0.0.16/28 -> 20002: default dev nsm-0",
            "30017: from 2001:db8::1 -> 20001: default via fe80::1 dev nsm-0",
            "30089: from 2001:db8::10/124 -> 20003: default dev nsm-0",
        ]
    );
}

/// Without this the rule would take the traffic of the whole pod.
async fn a_policy_without_any_selector_stands_for_each_source_address<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");

    let asked = connection("c")
        .source("172.16.1.2/24")
        .source("2001:db8::2/64")
        .source("10.1.0.1/32")
        .policy(policy());
    Process::start(&pod).request(&asked).await.unwrap();

    let rules = pod.our_rules().into_iter();
    let selectors: Vec<String> = rules.map(|rule| rule.selector.to_string()).collect();
    assert_eq!(
        selectors,
        ["from 10.1.0.1", "from 172.16.1.2", "from 2001:db8::2"]
    );
}

/// NSM's end-to-end examples have such policies.
async fn a_policy_of_ports_alone_has_one_table_id_in_both_families<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");

    let asked = connection("c")
        .source("172.16.1.2/32")
        .source("2001:db8::2/128")
        .policies([policy().udp(6666), policy().from("10.1.0.1")]);
    Process::start(&pod).request(&asked).await.unwrap();

    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.1.0.1 -> 20001: default dev nsm-0",
            "32310: from all ipproto udp dport 6666 -> 20000: default dev nsm-0",
            "32310: from all ipproto udp dport 6666 -> 20000: default dev nsm-0",
        ]
    );
    assert_eq!(pod.our_rules()[2].family(), Family::V6);
}

async fn a_source_of_length_0_selects_nothing_and_tells_the_family<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");

    let asked = connection("c")
        .source("172.16.1.2/32")
        .source("2001:db8::2/128")
        .policies([from("0.0.0.0/0").udp(53), from("::/0").udp(54)]);
    Process::start(&pod).request(&asked).await.unwrap();

    assert_eq!(
        pod.ours(),
        [
            "32310: from all ipproto udp dport 53 -> 20000: default dev nsm-0",
            "32310: from all ipproto udp dport 54 -> 20001: default dev nsm-0",
        ]
    );
}

async fn where_the_id_is_taken_in_the_other_family_the_later_rule_has_its_own<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let v4 = connection("c")
        .source("172.16.1.2/32")
        .policy(policy().udp(6666));
    process.request(&v4).await.unwrap();
    pod.add_route(&pod.foreign_default(20000, "eth0", "fe80::9"));

    let both = v4.source("2001:db8::2/128");
    process.request(&both).await.unwrap();

    assert_eq!(
        pod.ours(),
        [
            "32310: from all ipproto udp dport 6666 -> 20000: default dev nsm-0",
            "32310: from all ipproto udp dport 6666 -> 20001: default dev nsm-0",
        ]
    );
}

fn from(from: &str) -> PolicyDraft {
    policy().from(from)
}
