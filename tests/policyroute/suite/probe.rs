//! IPv6 sockets that have fallen to the main table look again only when an IPv6 rule changes.

use crate::cases;
use nsm_netlink::fake::Write;
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Action, Errno, Family, Op, OpKind, Rule};
use policyroute_suite::{Draft, Machine, Pod, Process, connection, policy};

cases![
    a_repair_behind_a_standing_ipv6_rule_ends_with_one_probe,
    a_route_less_behind_a_standing_ipv6_rule_ends_with_one_probe,
    a_plan_with_an_ipv6_rule_needs_no_probe,
    a_plan_whose_ipv6_rule_is_refused_ends_with_one_probe,
    a_plan_without_ipv6_routes_needs_no_probe,
    an_unchanged_refresh_needs_no_probe,
];

async fn a_repair_behind_a_standing_ipv6_rule_ends_with_one_probe<M: Machine>(pod: Pod<M>) {
    let process = requested(&pod).await;

    for restart in [false, true] {
        pod.remake_link("nsm-0");
        pod.watch.bursts();
        match restart {
            false => process.request(&both()).await.unwrap(),
            true => Process::start(&pod).request(&both()).await.unwrap(),
        };

        let bursts = pod.watch.bursts();
        let [
            Write {
                op: Op::AddRule(added),
                ..
            },
            Write {
                op: Op::DelRule(deleted),
                ..
            },
        ] = &bursts.last().unwrap()[..]
        else {
            panic!("{bursts:?}");
        };
        assert_eq!(added, deleted);
        assert!(is_probe(added));
        assert_eq!(
            (added.priority, added.table, added.protocol),
            (32321, 0, 78)
        );
        assert_eq!(added.selector.to_string(), "from 100::/64");
        assert!(!pod.snapshot().rules.iter().any(is_probe));
    }
    process.request(&by("fe80::2")).await.unwrap();
    assert_eq!(probes(&pod), 1);
    process.request(&by("fe80::2")).await.unwrap();
    assert_eq!(probes(&pod), 0);
}

async fn a_route_less_behind_a_standing_ipv6_rule_ends_with_one_probe<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let one = || policy().from("2001:db8::1").via("fe80::1");
    let more = one().route("2001:db8:9::/48", "");
    process
        .request(&connection("c").policy(more))
        .await
        .unwrap();
    assert_eq!(probes(&pod), 0);

    process
        .request(&connection("c").policy(one()))
        .await
        .unwrap();

    assert_eq!(probes(&pod), 1);
}

async fn a_plan_with_an_ipv6_rule_needs_no_probe<M: Machine>(pod: Pod<M>) {
    let process = requested(&pod).await;
    assert_eq!(probes(&pod), 0);
    pod.remake_link("nsm-0");

    let more = both().policy(policy().from("2001:db8::2"));
    process.request(&more).await.unwrap();
    assert_eq!(probes(&pod), 0);

    pod.remake_link("nsm-0");
    process.request(&both()).await.unwrap();
    assert_eq!(probes(&pod), 0);

    process.close(&both()).await.unwrap();
    assert_eq!(probes(&pod), 0);
}

async fn a_plan_whose_ipv6_rule_is_refused_ends_with_one_probe<M: Machine>(pod: Pod<M>) {
    let process = requested(&pod).await;
    let other = connection("d").policy(policy().from("2001:db8::2"));
    process.request(&other).await.unwrap();
    pod.remake_link("nsm-0");
    pod.delete_rule(&pod.our_rules()[2]);
    pod.watch.bursts();
    let refused = Effect::Errno(Errno::EPERM);
    pod.faults.set(Fault::once(OpKind::AddRule, 1, refused));

    process.request(&both()).await.unwrap();

    assert!(pod.faults.unconsumed().is_empty());
    assert_eq!(pod.our_routes().len(), 2);
    assert_eq!(probes(&pod), 1);
}

async fn a_plan_without_ipv6_routes_needs_no_probe<M: Machine>(pod: Pod<M>) {
    let process = requested(&pod).await;
    pod.delete_route(&pod.our_routes()[0]);
    assert_eq!(pod.our_routes()[0].family(), Family::V6);

    process.request(&both()).await.unwrap();

    assert_eq!(pod.our_routes().len(), 2);
    assert_eq!(probes(&pod), 0);
}

async fn an_unchanged_refresh_needs_no_probe<M: Machine>(pod: Pod<M>) {
    let process = requested(&pod).await;

    process.request(&both()).await.unwrap();
    Process::start(&pod).request(&both()).await.unwrap();

    assert_eq!(probes(&pod), 0);
}

fn by(via: &str) -> Draft {
    connection("c").policies([
        policy().from("10.1.0.1"),
        policy().from("2001:db8::1").via(via),
    ])
}

fn both() -> Draft {
    by("fe80::1")
}

async fn requested<M: Machine>(pod: &Pod<M>) -> Process<M> {
    pod.add_link("nsm-0");
    let process = Process::start(pod);
    process.request(&both()).await.unwrap();
    process
}

fn is_probe(rule: &Rule) -> bool {
    rule.action == Action::Nop
}

/// How many probes have been made since the last look.
fn probes<M: Machine>(pod: &Pod<M>) -> usize {
    let writes = pod.watch.writes().into_iter();
    writes
        .filter(|write| matches!(&write.op, Op::AddRule(rule) if is_probe(rule)))
        .count()
}
