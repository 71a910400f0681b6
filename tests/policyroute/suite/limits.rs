//! Settings: small ranges of tables, and policies that refuse what they cannot lead.

use crate::cases;
use nsm_chain::ErrorKind;
use nsm_netlink::{Op, Owner, RouteKind};
use nsm_policyroute::{Band, Config};
use policyroute_suite::{
    Draft, Machine, OWNER, Pod, PolicyDraft, Process, assert_fails, config, connection, policy,
    rule,
};

cases![
    more_policies_than_tables_are_refused_with_the_range_and_its_size,
    tables_that_others_use_count_as_used,
    the_tables_of_a_small_range_are_never_the_kernels_own,
    another_band_moves_all_rules,
    a_twin_refuses_what_its_route_no_longer_takes,
    a_rule_that_is_lost_while_its_interface_is_gone_is_back_on_its_twin,
    twins_are_made_first_and_deleted_last,
    twins_follow_what_is_wanted,
    twins_come_and_go_with_the_setting,
];

async fn more_policies_than_tables_are_refused_with_the_range_and_its_size<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let before = pod.snapshot();
    let process = Process::start_with(&pod, small());
    let half_v6 = connection("c")
        .policies(many(130, "10.1.0."))
        .policies(many(130, "2001:db8::"));

    let answer = process.request(&half_v6).await;

    assert_fails(answer, ErrorKind::ResourceExhausted, &["252", "1-252"]);
    assert_eq!(pod.snapshot(), before);
    assert_eq!(process.namespaces_held(), 0);
    process
        .request(&connection("c").policies(many(252, "10.1.0.")))
        .await
        .unwrap();
    let answer = process
        .request(&connection("d").policy(policy().from("10.2.0.1")))
        .await;
    assert_fails(
        answer,
        ErrorKind::ResourceExhausted,
        &["policy 0", "252", "1-252"],
    );
}

async fn tables_that_others_use_count_as_used<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    for table in 1..=250 {
        pod.add_rule(&rule(100, "10.7.0.0/16", table, 4));
    }
    let process = Process::start_with(&pod, small());

    let answer = process
        .request(&connection("c").policies(many(3, "10.1.0.")))
        .await;
    assert_fails(answer, ErrorKind::ResourceExhausted, &["policy 2"]);

    process
        .request(&connection("c").policies(many(2, "10.1.0.")))
        .await
        .unwrap();
    let tables: Vec<u32> = rules_of(&pod, small().owner);
    assert_eq!(tables, [251, 252]);
}

async fn the_tables_of_a_small_range_are_never_the_kernels_own<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, small());

    process
        .request(&connection("c").policies(many(252, "2001:db8::")))
        .await
        .unwrap();

    let tables = rules_of(&pod, small().owner);
    assert!(tables.into_iter().eq(1..=252));
}

async fn another_band_moves_all_rules<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let asked = connection("c").policies(many(3, "10.1.0."));
    Process::start(&pod).request(&asked).await.unwrap();

    let lower = Config {
        priorities: Band::new(1000).unwrap(),
        ..config()
    };
    Process::start_with(&pod, lower)
        .request(&asked)
        .await
        .unwrap();

    let rules = pod.our_rules();
    assert_eq!(rules.len(), 3);
    assert!(rules.iter().all(|rule| rule.priority == 2745));
}

async fn a_twin_refuses_what_its_route_no_longer_takes<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, closed());

    process.request(&both()).await.unwrap();
    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-0, unreachable default",
            "30017: from 2001:db8::1 -> 20001: default via fe80::1 dev nsm-0, unreachable default",
        ]
    );
    let twins = pod
        .our_routes()
        .into_iter()
        .filter(|r| r.kind == RouteKind::Unreachable);
    assert!(twins.clone().count() == 2 && twins.into_iter().all(|r| r.metric == u32::MAX));

    let whole = pod.ours();
    pod.delete_link("nsm-0");
    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.1.0.1 -> 20000: unreachable default",
            "30017: from 2001:db8::1 -> 20001: unreachable default",
        ]
    );
    pod.add_link("nsm-0");
    process.request(&both()).await.unwrap();
    assert_eq!(pod.ours(), whole);
    process.close(&both()).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
}

async fn a_rule_that_is_lost_while_its_interface_is_gone_is_back_on_its_twin<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    pod.add_link("nsm-1");
    let process = Process::start_with(&pod, closed());
    let other = connection("d")
        .by("nsm-1")
        .policy(policy().from("10.1.0.9"));
    process.request(&both()).await.unwrap();
    process.request(&other).await.unwrap();
    pod.delete_link("nsm-0");
    let closed = pod.ours();
    let [v4, _, v6] = <[_; 3]>::try_from(pod.our_rules()).unwrap();
    pod.delete_rule(&v4);
    pod.delete_rule(&v6);

    process.request(&other).await.unwrap();

    assert_eq!(pod.ours().len(), 3);
    for line in closed {
        assert!(pod.ours().contains(&line), "{line}");
    }
    process.close(&both()).await.unwrap();
    process.close(&other).await.unwrap();
    assert_eq!(pod.ours(), [""; 0]);
}

async fn twins_are_made_first_and_deleted_last<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, closed());
    let two = policy()
        .from("10.1.0.1")
        .route("10.8.0.0/16", "")
        .route("10.9.0.0/16", "");
    let one = connection("c").policy(two);
    pod.watch.bursts();

    process.request(&one).await.unwrap();
    process.close(&one).await.unwrap();

    let writes = pod.watch.writes().into_iter();
    let routes = writes.filter_map(|write| match write.op {
        Op::AddRoute(route, _) => Some(("add", route.kind)),
        Op::DelRoute(route) => Some(("delete", route.kind)),
        _ => None,
    });
    let (route, twin) = (RouteKind::Unicast, RouteKind::Unreachable);
    let made = [twin, twin, route, route].map(|kind| ("add", kind));
    let deleted = [route, route, twin, twin].map(|kind| ("delete", kind));
    assert!(routes.eq([made, deleted].concat()));
}

async fn twins_follow_what_is_wanted<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start_with(&pod, closed());
    let to = |prefix: &str| connection("c").policy(policy().from("10.1.0.1").route(prefix, ""));
    process.request(&to("10.8.0.0/16")).await.unwrap();

    process.request(&to("10.9.0.0/16")).await.unwrap();

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: 10.9.0.0/16 dev nsm-0, unreachable 10.9.0.0/16"]
    );
}

async fn twins_come_and_go_with_the_setting<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    Process::start(&pod).request(&both()).await.unwrap();
    let open = pod.snapshot();

    Process::start_with(&pod, closed())
        .request(&both())
        .await
        .unwrap();
    assert_eq!(pod.our_routes().len(), 4);

    Process::start(&pod).request(&both()).await.unwrap();
    assert_eq!(pod.snapshot(), open);
}

fn closed() -> Config {
    Config {
        fail_closed: true,
        ..config()
    }
}

/// What NSM's own examples look for: tables from 1 on.
fn small() -> Config {
    Config::new(Owner {
        tables: "1-252".parse().unwrap(),
        ..OWNER
    })
}

fn rules_of<M: Machine>(pod: &Pod<M>, owner: Owner) -> Vec<u32> {
    let rules = pod.snapshot().rules.into_iter();
    rules
        .filter(|rule| owner.owns_rule(rule))
        .map(|rule| rule.table)
        .collect()
}

fn many(count: usize, from: &str) -> impl Iterator<Item = PolicyDraft> {
    (1..=count).map(move |i| policy().from(&format!("{from}{i}")))
}

fn both() -> Draft {
    connection("c").policies([
        policy().from("10.1.0.1").via("172.16.1.1"),
        policy().from("2001:db8::1").via("fe80::1"),
    ])
}
