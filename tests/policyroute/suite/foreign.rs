//! What others have made stays as it is. That is held against the kernel at each request and close of
//! the whole suite too.

use crate::{GRACE, cases, pass};
use nsm_netlink::{Action, Attributes, Op, Route, Rule};
use policyroute_suite::{Draft, Machine, Pod, Process, connection, policy, rule};

cases![
    a_namespace_full_of_others_rules_is_the_same_after_a_whole_life,
    the_element_works_without_the_rules_of_the_kernel,
    rules_of_others_around_our_priority_keep_their_places,
    a_rule_that_looks_like_ours_is_no_rule_of_ours,
    a_route_with_our_mark_in_a_table_of_others_is_no_route_of_ours,
    a_route_of_others_in_our_table_stays_and_keeps_the_table_from_being_given_again,
    a_rule_of_others_on_our_table_keeps_it_from_being_given_again,
    big_tables_of_others_are_not_mistaken_for_small_ones,
    what_a_former_process_left_by_a_probe_is_removed,
];

const FRA_IIFNAME: u16 = 3;

const FRA_GOTO: u16 = 4;

const FRA_FWMARK: u16 = 10;

const FRA_FWMASK: u16 = 16;

const FR_ACT_GOTO: u8 = 2;

async fn a_namespace_full_of_others_rules_is_the_same_after_a_whole_life<M: Machine>(pod: Pod<M>) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    pod.add_address("eth0", "10.200.0.2/24");
    others_rules(&pod);
    let before = pod.snapshot();
    let asked = connection("c").policies([policy().from("10.1.0.5"), policy().from("10.8.8.8")]);

    for _ in 0..2 {
        let process = Process::start(&pod);
        process.request(&asked).await.unwrap();
        process.request(&asked).await.unwrap();
        assert_eq!(pod.our_rules().len(), 2);
    }
    let process = Process::start(&pod);
    process.request(&asked).await.unwrap();
    process.close(&asked).await.unwrap();

    assert_eq!(pod.snapshot(), before);
}

async fn the_element_works_without_the_rules_of_the_kernel<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    pod.delete_rule(&rule(32767, "", 253, 2));
    pod.delete_rule(&rule(32766, "", 254, 2));
    let before = pod.snapshot();
    let process = Process::start(&pod);

    process.request(&one()).await.unwrap();
    process.request(&one()).await.unwrap();
    assert_eq!(pod.ours(), ONE);
    process.close(&one()).await.unwrap();

    assert_eq!(pod.snapshot(), before);
}

async fn rules_of_others_around_our_priority_keep_their_places<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    for priority in [31744, 31745, 31746] {
        pod.add_rule(&rule(priority, "10.7.0.0/16", 100, 4));
    }
    let before = pod.snapshot();

    let process = Process::start(&pod);
    process.request(&one()).await.unwrap();
    pod.add_rule(&rule(31745, "10.6.0.0/16", 100, 4));
    process.close(&one()).await.unwrap();
    pod.delete_rule(&rule(31745, "10.6.0.0/16", 100, 4));

    assert_eq!(pod.snapshot(), before);
}

async fn a_rule_that_looks_like_ours_is_no_rule_of_ours<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    // Without a mark, with another mark, with our mark in front of another's table, and with
    // something in it that no policy has.
    pod.add_rule(&rule(31745, "10.1.0.1/32", 20000, 0));
    pod.add_rule(&rule(31745, "10.1.0.1/32", 20001, 79));
    pod.add_rule(&rule(31745, "10.1.0.1/32", 100, 78));
    pod.add_rule(&rule(31745, "10.1.0.7/24", 20002, 79));
    let before = pod.snapshot();

    let process = Process::start(&pod);
    process.request(&one()).await.unwrap();
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20003: default dev nsm-0"]
    );
    process.close(&one()).await.unwrap();

    assert_eq!(pod.snapshot(), before);
}

/// Somebody else's tables are not ours, whatever number its routes carry.
async fn a_route_with_our_mark_in_a_table_of_others_is_no_route_of_ours<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    for table in [100, 254, 19_999, 25_000] {
        for via in ["", "fe80::1"] {
            pod.add_route(&Route {
                protocol: 78,
                ..pod.foreign_default(table, "nsm-0", via)
            });
        }
    }
    let before = pod.snapshot();
    let both = one().policy(policy().from("2001:db8::1").via("fe80::1"));

    let process = Process::start(&pod);
    process.request(&both).await.unwrap();
    pod.delete_rule(&pod.our_rules()[0]);
    let process = Process::start(&pod);
    process.request(&both).await.unwrap();
    pass(2 * GRACE).await;
    process.close(&both).await.unwrap();
    pass(2 * GRACE).await;

    assert_eq!(pod.snapshot(), before);
}

async fn a_route_of_others_in_our_table_stays_and_keeps_the_table_from_being_given_again<
    M: Machine,
>(
    pod: Pod<M>,
) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&one()).await.unwrap();
    let mut theirs = pod.foreign_default(20000, "eth0", "");
    theirs.prefix = "10.99.0.0/16".parse().unwrap();
    pod.add_route(&theirs);
    pod.asked.take();

    process.request(&one()).await.unwrap();
    Process::start(&pod).request(&one()).await.unwrap();
    assert_eq!(pod.asked.take().writes(), 0);
    assert_eq!(pod.ours(), ONE);

    process.close(&one()).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
    process.request(&one()).await.unwrap();
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20001: default dev nsm-0"]
    );
    process.close(&one()).await.unwrap();

    pod.delete_route(&theirs);
    process.request(&one()).await.unwrap();
    assert_eq!(pod.ours(), ONE);
}

async fn a_rule_of_others_on_our_table_keeps_it_from_being_given_again<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&one()).await.unwrap();
    pod.add_rule(&rule(9, "10.4.0.0/16", 20000, 4));
    process.close(&one()).await.unwrap();

    process.request(&one()).await.unwrap();

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20001: default dev nsm-0"]
    );
}

/// The head of a message has room for 8 bits of a table's number.
async fn big_tables_of_others_are_not_mistaken_for_small_ones<M: Machine>(pod: Pod<M>) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    pod.add_rule(&rule(50, "10.1.0.9/32", 51820, 4));
    pod.add_route(&pod.foreign_default(51820, "eth0", ""));
    pod.add_route(&pod.foreign_default(4_000_000_000, "eth0", ""));
    let small = nsm_policyroute::Config::new(nsm_netlink::Owner {
        tables: "252-252".parse().unwrap(),
        ..policyroute_suite::OWNER
    });

    let process = Process::start_with(&pod, small.clone());
    process.request(&one()).await.unwrap();

    assert_eq!(
        pod.of(small.owner),
        ["31745: from 10.1.0.1 -> 252: default dev nsm-0"]
    );
    process.close(&one()).await.unwrap();
    assert_eq!(pod.of(small.owner), [""; 0]);
}

async fn what_a_former_process_left_by_a_probe_is_removed<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let mut probe = rule(32321, "100::/64", 0, 78);
    probe.action = Action::Nop;
    pod.add_rule(&probe);
    let process = Process::start(&pod);

    process
        .call(policyroute_suite::request(&one(), &pod))
        .await
        .unwrap();

    assert!(!pod.snapshot().rules.contains(&probe));
    let removals = pod
        .watch
        .writes()
        .into_iter()
        .filter(|write| write.op == Op::DelRule(probe.clone()));
    assert_eq!(removals.count(), 1);
}

const ONE: [&str; 1] = ["31745: from 10.1.0.1 -> 20000: default dev nsm-0"];

fn one() -> Draft {
    connection("c").policy(policy().from("10.1.0.1"))
}

/// As a node's other software leaves them.
fn others_rules<M: Machine>(pod: &Pod<M>) {
    let with = |mut rule: Rule, fields: &[(u16, &[u8])]| {
        rule.rest = fields
            .iter()
            .map(|(kind, payload)| (*kind, payload.to_vec()))
            .collect::<Attributes>();
        rule
    };
    let mark = 0x200u32.to_ne_bytes();
    let mask = 0xf00u32.to_ne_bytes();
    let mut jump = with(
        rule(700, "10.8.8.8/32", 0, 0),
        &[(FRA_GOTO, &32766u32.to_ne_bytes())],
    );
    jump.action = Action::Other(FR_ACT_GOTO);
    let mut not = rule(710, "10.3.0.0/16", 100, 4);
    not.invert = true;
    let mut bands = rule(720, "10.3.0.0/16", 100, 4);
    bands.tos = 0x10;
    for rule in [
        with(
            rule(9, "", 2004, 0),
            &[(FRA_FWMARK, &mark), (FRA_FWMASK, &mask)],
        ),
        rule(50, "10.1.0.1/32", 100, 4),
        with(rule(60, "", 101, 0), &[(FRA_IIFNAME, b"eth0\0")]),
        with(rule(5210, "", 254, 0), &[(FRA_FWMARK, &mark)]),
        jump,
        not,
        bands,
        rule(800, "fd00::1/128", 101, 4),
        rule(30000, "10.5.0.0/16", 20000, 4),
    ] {
        pod.add_rule(&rule);
    }
    for table in [100, 101, 2004] {
        pod.add_route(&pod.foreign_default(table, "eth0", ""));
        pod.add_route(&pod.foreign_default(table, "eth0", "fe80::9"));
    }
}
