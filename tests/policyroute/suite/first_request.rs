//! What a first request makes of policies.

use crate::cases;
use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::test_util::{FailOn, Recorder, echo};
use nsm_chain::{Call, Error, ErrorKind};
use nsm_netlink::{Change, Object, Route};
use policyroute_suite::{
    Machine, Pod, PolicyDraft, Process, assert_fails, config, connection, policy, rule,
};
use tower::{Layer, service_fn};

cases![
    a_first_request_puts_the_routes_before_the_rule,
    tables_are_the_lowest_free_ones_in_list_order,
    routes_are_on_link_or_by_a_next_hop_that_is_taken_as_on_link,
    a_connection_without_policies_needs_no_namespace,
    an_answer_passes_as_it_came_whatever_its_policies_leave_out,
    what_is_answered_is_installed_not_what_was_asked,
    a_request_that_fails_behind_the_element_touches_nothing,
];

async fn a_first_request_puts_the_routes_before_the_rule<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let two_routes = policy()
        .from("10.1.0.1")
        .via("172.16.1.1")
        .route("10.9.0.0/16", "");
    let process = Process::start(&pod);
    pod.events();

    let asked = connection("c").policy(two_routes);
    let answer = process.request(&asked).await.unwrap();

    assert_eq!(answer, *asked);
    let order = pod.events().into_iter().map(|event| match event.object {
        Object::Rule(_) => (event.change, "rule"),
        Object::Route(_) => (event.change, "route"),
    });
    let routes_first = ["route", "route", "rule"].map(|what| (Change::Added, what));
    assert!(order.eq(routes_first));
    assert_eq!(pod.watch.bursts().len(), 2);
    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.1 -> 20000: default via 172.16.1.1 dev nsm-0, 10.9.0.0/16 dev nsm-0"]
    );
}

async fn tables_are_the_lowest_free_ones_in_list_order<M: Machine>(pod: Pod<M>) {
    pod.add_link("eth0");
    pod.add_link("nsm-0");
    // Where somebody has a rule or a route, in either family, the table is not free.
    pod.add_rule(&rule(7, "fd00::9/128", 20001, 4));
    pod.add_route(&pod.foreign_default(20003, "eth0", ""));

    let asked = connection("c").policies(["10.1.0.3", "10.1.0.1", "10.1.0.2"].map(from));
    Process::start(&pod).request(&asked).await.unwrap();

    assert_eq!(
        pod.ours(),
        [
            "31745: from 10.1.0.3 -> 20000: default dev nsm-0",
            "31745: from 10.1.0.1 -> 20002: default dev nsm-0",
            "31745: from 10.1.0.2 -> 20004: default dev nsm-0",
        ]
    );
}

async fn routes_are_on_link_or_by_a_next_hop_that_is_taken_as_on_link<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let v4 = policy()
        .from("10.1.0.1")
        .route("10.8.0.9/16", "172.16.1.1")
        .route("10.9.0.0/16", "0.0.0.0")
        .route("0.0.0.0/0", "");
    let v6 = policy()
        .from("2001:db8::1")
        .route("2001:db8:8::9/64", "fe80::1")
        .route("2001:db8:9::/64", "::");

    let asked = connection("c").policies([v4, v6]);
    Process::start(&pod).request(&asked).await.unwrap();

    let dev = pod.dev("nsm-0");
    let route = |table, prefix: &str, via: Option<&str>| {
        let via = via.map(|via| via.parse().unwrap());
        Route::unicast(table, prefix.parse().unwrap(), dev, via, 78)
    };
    let mut routes = pod.our_routes();
    routes.sort_by_key(|route| (route.table, route.prefix));
    assert_eq!(
        routes,
        [
            route(20000, "0.0.0.0/0", None),
            route(20000, "10.8.0.0/16", Some("172.16.1.1")),
            route(20000, "10.9.0.0/16", None),
            route(20001, "2001:db8:8::/64", Some("fe80::1")),
            route(20001, "2001:db8:9::/64", None),
        ]
    );
}

async fn a_connection_without_policies_needs_no_namespace<M: Machine>(pod: Pod<M>) {
    let process = Process::start(&pod);
    let without_context = Connection {
        id: "c".to_owned(),
        ..Connection::default()
    };
    let without_ip = Connection {
        context: Some(Default::default()),
        ..without_context.clone()
    };

    for asked in [without_context, without_ip, (*connection("c")).clone()] {
        let request = NetworkServiceRequest {
            connection: Some(asked.clone()),
            ..NetworkServiceRequest::default()
        };
        let answer = process.call(Call::request(request)).await.unwrap();
        assert_eq!(answer, asked);
        process.call(Call::close(asked)).await.unwrap();
    }

    assert_eq!(pod.asked.take().opens, 0);
    assert_eq!(process.namespaces_held(), 0);
}

/// What a policy leaves out is worked out here, and nobody else hears of it.
async fn an_answer_passes_as_it_came_whatever_its_policies_leave_out<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let asked = connection("c").policy(from("10.1.0.9"));
    let sourced = connection("c")
        .source("10.1.0.1/32")
        .source("2001:db8::1/128");
    let below = Recorder::new();

    for answered in [
        sourced.clone().policy(from("10.1.0.1")),
        sourced.clone().policy(from("2001:db8::1")),
        sourced.clone().policy(policy()),
        sourced.clone().policy(policy().tcp(443)),
        sourced
            .clone()
            .policies([from("10.1.0.7/24"), from("10.1.0.0/24")]),
        sourced.policy(from("10.1.0.1").route("10.9.8.7/16", "0.0.0.0")),
    ] {
        let end = {
            let answered: Connection = (*answered).clone();
            service_fn(move |_| {
                let answered = answered.clone();
                async move { Ok::<_, Error>(answered) }
            })
        };
        let process = Process::above(&pod, config(), below.layer(end));
        for _ in ["first", "refresh"] {
            let answer = process.request(&asked).await.unwrap();
            assert_eq!(answer, *answered);
            assert_eq!(*below.last().connection(), *asked);
            assert_ne!(pod.ours(), [""; 0]);
        }
        process.close(&answered).await.unwrap();
        assert_eq!(*below.last().connection(), *answered);
    }
}

async fn what_is_answered_is_installed_not_what_was_asked<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let process = Process::start(&pod);
    let answered = connection("c").policy(from("10.1.0.2"));

    process
        .request_answered(&connection("c").policy(from("10.1.0.1")), &answered)
        .await
        .unwrap();

    assert_eq!(
        pod.ours(),
        ["31745: from 10.1.0.2 -> 20000: default dev nsm-0"]
    );
}

async fn a_request_that_fails_behind_the_element_touches_nothing<M: Machine>(pod: Pod<M>) {
    pod.add_link("nsm-0");
    let end = FailOn::request(1).layer(echo());
    let process = Process::above(&pod, config(), end);

    let answer = process
        .request(&connection("c").policy(from("10.1.0.1")))
        .await;

    assert_fails(answer, ErrorKind::Unavailable, &["injected"]);
    assert_eq!(pod.asked.take().opens, 0);
}

fn from(from: &str) -> PolicyDraft {
    policy().from(from)
}
