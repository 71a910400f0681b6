//! Rules and routes of others that take a policy's traffic first are told of, once.

use crate::cases;
use policyroute_suite::{Draft, Machine, Pod, Process, connection, policy, rule, warnings};

cases![
    a_rule_of_others_that_takes_our_traffic_first_is_reported_once,
    a_rule_that_comes_in_front_later_is_reported_at_the_next_refresh,
    a_rule_of_others_that_takes_no_policy_whole_is_not_reported,
    a_route_of_others_that_is_taken_before_ours_is_reported_once,
    a_route_of_others_with_a_lower_metric_is_reported_once,
];

const FRA_FWMARK: u16 = 10;

async fn a_rule_of_others_that_takes_our_traffic_first_is_reported_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let older = rule(31745, "10.1.0.1/32", 20009, 0);
    pod.add_rule(&older);

    process.request(&one()).await.unwrap();
    let [warning] = <[_; 1]>::try_from(warnings()).unwrap();
    for words in [
        "from 10.1.0.1",
        "lookup 20009",
        "close its connections before",
    ] {
        assert!(warning.contains(words), "{warning}");
    }
    process.request(&one()).await.unwrap();
    assert_eq!(warnings(), [""; 0]);

    pod.delete_rule(&older);
    process.request(&one()).await.unwrap();
    assert_eq!(warnings(), [""; 0]);
    pod.add_rule(&rule(300, "10.1.0.0/16", 100, 4));
    process.request(&one()).await.unwrap();
    assert_eq!(warnings().len(), 1);
}

/// The kernel puts every rule without a number there.
async fn a_rule_that_comes_in_front_later_is_reported_at_the_next_refresh<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&one()).await.unwrap();

    pod.add_rule(&rule(31744, "", 100, 3));
    process.request(&one()).await.unwrap();

    let [warning] = <[_; 1]>::try_from(warnings()).unwrap();
    assert!(warning.contains("from all lookup 100"), "{warning}");
    assert_eq!(pod.ours(), ONE);
}

async fn a_rule_of_others_that_takes_no_policy_whole_is_not_reported<M: Machine>(pod: Pod<M>) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    let mut marked = rule(300, "", 100, 4);
    marked.rest.insert(FRA_FWMARK, &5u32.to_ne_bytes());
    let mut narrower = rule(301, "10.1.0.1/32", 100, 4);
    narrower.selector.proto = Some(6);
    for other in [
        marked,
        narrower,
        rule(302, "10.1.0.2/32", 100, 4),
        rule(32000, "", 100, 4),
    ] {
        pod.add_rule(&other);
    }

    Process::start(&pod).request(&one()).await.unwrap();

    assert_eq!(warnings(), [""; 0]);
}

async fn a_route_of_others_that_is_taken_before_ours_is_reported_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    process.request(&one()).await.unwrap();
    pod.set_down("nsm-0");
    pod.add_route(&pod.foreign_default(20000, "eth0", ""));
    pod.set_up("nsm-0");

    process.request(&one()).await.unwrap();
    process.request(&one()).await.unwrap();

    let [warning] = <[_; 1]>::try_from(warnings()).unwrap();
    assert!(warning.contains("table 20000 protocol 4"), "{warning}");
    assert_eq!(pod.ours(), ONE);
}

async fn a_route_of_others_with_a_lower_metric_is_reported_once<M: Machine>(pod: Pod<M>) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let asked = connection("c").policy(policy().from("2001:db8::1").via("fe80::1"));
    process.request(&asked).await.unwrap();
    let mut theirs = pod.foreign_default(20000, "eth0", "fe80::9");
    theirs.metric = 10;
    pod.add_route(&theirs);

    process.request(&asked).await.unwrap();
    process.request(&asked).await.unwrap();

    let [warning] = <[_; 1]>::try_from(warnings()).unwrap();
    assert!(warning.contains("metric 10 table 20000"), "{warning}");
    assert!(pod.snapshot().routes.contains(&theirs));
}

const ONE: [&str; 1] = ["31745: from 10.1.0.1 -> 20000: default dev nsm-0"];

fn one() -> Draft {
    connection("c").policy(policy().from("10.1.0.1"))
}
