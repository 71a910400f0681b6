//! What makes no sense is refused with its place, before the kernel is asked.

use crate::cases;
use nsm_chain::ErrorKind;
use nsm_policyroute::Config;
use policyroute_suite::{
    Draft, Machine, Pod, PolicyDraft, Process, assert_fails, config, connection, policy,
};

cases![
    a_field_that_makes_no_sense_is_named_with_its_policy_and_the_kernel_is_not_asked,
    more_policies_or_routes_than_the_limit_are_refused,
    more_rules_or_routes_than_the_limit_for_source_addresses_are_refused,
    a_source_that_is_not_the_connections_is_refused_where_strict,
    a_policy_that_has_no_family_or_no_source_is_refused,
    a_connection_without_an_id_is_refused,
    what_a_peer_says_it_had_is_never_an_error,
];

async fn a_field_that_makes_no_sense_is_named_with_its_policy_and_the_kernel_is_not_asked<
    M: Machine,
>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let from = || policy().from("10.1.0.1");
    let bad = [
        ("from", policy().from("10.1.0")),
        ("from", policy().from("10.1.0.1/33")),
        ("from", policy().from(" 10.1.0.1")),
        ("from", policy().from("pod")),
        ("from", policy().from("::ffff:10.1.0.1")),
        ("proto", from().proto("0")),
        ("proto", from().proto("256")),
        ("proto", from().proto("-1")),
        ("proto", from().proto("foo")),
        ("dstport", from().dport("0")),
        ("dstport", from().dport("65535")),
        ("dstport", from().dport("65536")),
        ("dstport", from().dport("9-3")),
        ("dstport", from().dport(" 80")),
        ("dstport", from().dport("1-2-3")),
        ("srcport", from().sport("0-80")),
        ("srcport", from().sport("443-65535")),
        ("srcport", from().sport("http")),
        ("routes[0].prefix", from().route("", "")),
        ("routes[0].prefix", from().route("10.9.0.0/33", "")),
        (
            "routes[1].prefix",
            from().via("172.16.1.1").route("::/0", ""),
        ),
        ("routes[0].nexthop", from().via("172.16.1")),
        ("routes[0].nexthop", from().route("0.0.0.0/0", "fe80::1")),
        ("routes[0].nexthop", from().route("0.0.0.0/0", "::")),
        (
            "routes[1].nexthop",
            from().via("172.16.1.1").via("172.16.1.2"),
        ),
        (
            "routes[0].nexthop",
            policy().from("10.2.0.1").via("172.16.1.2"),
        ),
    ];

    for (field, second) in bad {
        let good = policy().from("10.2.0.1").via("172.16.1.1");
        let asked = connection("c").policies([good, second]);
        let answer = process.request(&asked).await;
        assert_fails(answer, ErrorKind::InvalidArgument, &["policy 1: ", field]);
    }
    assert_eq!(pod.asked.take().opens, 0);
    assert_eq!(process.namespaces_held(), 0);
}

async fn more_policies_or_routes_than_the_limit_are_refused<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let small = Config {
        max_policies: 3,
        max_routes: 4,
        ..config()
    };
    let process = Process::start_with(&pod, small);
    let policies = |count| (1..=count).map(|i| policy().from(&format!("10.1.0.{i}")));
    let routes = |count| {
        let all = (1..=count).fold(policy().from("10.1.0.2"), |policy, i| {
            policy.route(&format!("10.{i}.0.0/16"), "")
        });
        connection("c").policies([policy().from("10.1.0.1"), all])
    };

    let answer = process
        .request(&connection("c").policies(policies(4)))
        .await;
    assert_fails(
        answer,
        ErrorKind::InvalidArgument,
        &["policy 3", "4", "limit of 3"],
    );
    let answer = process.request(&routes(5)).await;
    assert_fails(
        answer,
        ErrorKind::InvalidArgument,
        &["policy 1", "routes", "limit of 4"],
    );
    assert_eq!(pod.asked.take().opens, 0);

    process
        .request(&connection("c").policies(policies(3)))
        .await
        .unwrap();
    process.request(&routes(4)).await.unwrap();
}

/// A policy that selects nothing stands for each source address.
async fn more_rules_or_routes_than_the_limit_for_source_addresses_are_refused<M: Machine>(
    pod: Pod<M>,
) {
    pod.add_link("nsm-0");
    let small = Config {
        max_policies: 3,
        max_routes: 4,
        ..config()
    };
    let process = Process::start_with(&pod, small);
    let from = |count: usize, policy: PolicyDraft| {
        (1..=count)
            .fold(connection("c"), |draft, i| {
                let both = draft.source(&format!("10.1.0.{i}"));
                both.source(&format!("2001:db8::{i}"))
            })
            .policy(policy)
    };
    let two_routes = || policy().via("172.16.1.1").route("10.9.0.0/16", "");

    for (asked, says) in [
        (from(4, policy()), ["policy 0", "4", "limit of 3"]),
        (from(3, two_routes()), ["policy 0", "6", "limit of 4"]),
    ] {
        let answer = process.request(&asked).await;
        assert_fails(answer, ErrorKind::InvalidArgument, &says);
    }
    assert_eq!(pod.ours(), [""; 0]);

    process.request(&from(3, policy())).await.unwrap();
    assert_eq!(pod.our_rules().len(), 6);
    process.request(&from(2, two_routes())).await.unwrap();
    assert_eq!(pod.our_routes().len(), 4);
}

async fn a_source_that_is_not_the_connections_is_refused_where_strict<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let strict = Config {
        strict: true,
        ..config()
    };
    let process = Process::start_with(&pod, strict);
    let of = |from: &str| {
        let source = connection("c").source("10.1.0.1/32").source("10.2.0.1/24");
        source.policies([policy().udp(53), policy().from(from)])
    };

    for within in ["10.1.0.1", "10.2.0.0/24", "10.2.0.99", ""] {
        process.request(&of(within)).await.unwrap();
    }
    process.close(&of("")).await.unwrap();
    pod.asked.take();
    for outside in ["10.1.0.2", "10.2.0.0/23", "2001:db8::1"] {
        let answer = process.request(&of(outside)).await;
        assert_fails(
            answer,
            ErrorKind::InvalidArgument,
            &["policy 1", "from", outside],
        );
    }
    assert_eq!(pod.asked.take().opens, 0);
}

async fn a_policy_that_has_no_family_or_no_source_is_refused<M: Machine>(pod: Pod<M>) {
    let process = Process::start(&pod);
    for bad in [
        connection("c").policy(policy().udp(53)),
        connection("c").policy(policy()),
        connection("c")
            .source("10.1.0.1/32")
            .policy(policy().from("::/0")),
        connection("c")
            .source("10.1.0.1/32")
            .policy(policy().route("::/0", "")),
    ] {
        let answer = process.request(&bad).await;
        assert_fails(answer, ErrorKind::InvalidArgument, &["policy 0"]);
    }
}

async fn a_connection_without_an_id_is_refused<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let nameless = connection("").policy(policy().from("10.1.0.1"));

    let answer = Process::start(&pod).request(&nameless).await;

    assert_fails(answer, ErrorKind::InvalidArgument, &[]);
    assert_eq!(pod.asked.take().opens, 0);
}

/// Nothing is installed from it.
async fn what_a_peer_says_it_had_is_never_an_error<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let nonsense = one().policies([policy().from("pod"), policy().from("10.1.0.2")]);
    process
        .request(&one().policy(policy().from("10.1.0.2")))
        .await
        .unwrap();

    let process_after = Process::start(&pod);
    process_after
        .request_answered(&nonsense, &one())
        .await
        .unwrap();

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default dev nsm-0"]
    );
    Process::start(&pod).close(&nonsense).await.unwrap();
}

fn one() -> Draft {
    connection("c").policy(PolicyDraft::from(policy(), "10.1.0.1"))
}
