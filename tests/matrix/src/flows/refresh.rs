//! A connection is requested again, by the process that knows it.

use super::{DUAL, c, dual, dual_via, ipv4};
use crate::flow::{Act, Call, Flow};
use policyroute_suite::{Draft, policy};

pub(super) fn flows() -> Vec<Flow> {
    let change = |name, old: Draft, call, after| Flow::new(name, standing(old, &[]), call, after);
    let same = || Call::request(dual());
    let probe = [Act::LoseRoutes("2001:db8::1")];
    let leg = [Act::ForeignLeg("2001:db8::1", "fe80::9")];
    vec![
        change("refresh, unchanged", dual(), same(), DUAL),
        change(
            "refresh, next hop changed",
            dual(),
            Call::request(dual_via("172.16.1.2", "fe80::2")),
            NEXT_HOP,
        ),
        change(
            "refresh, next hop changed, fail closed",
            dual(),
            Call::request(dual_via("172.16.1.2", "fe80::2")),
            NEXT_HOP_CLOSED,
        )
        .fail_closed(),
        change(
            "refresh, route added",
            dual(),
            Call::request(more_routes()),
            MORE_ROUTES,
        ),
        change("refresh, route removed", more_routes(), same(), DUAL),
        change(
            "refresh, policy added",
            dual(),
            Call::request(more_policies()),
            MORE_POLICIES,
        ),
        change("refresh, policy removed", more_policies(), same(), DUAL),
        change(
            "refresh, selector changed",
            dual(),
            Call::request(other_selectors()),
            SELECTORS,
        ),
        change(
            "refresh, interface changed",
            dual(),
            Call::request(dual().by("nsm-1")),
            INTERFACE,
        ),
        change(
            "refresh, moved to another pod",
            dual(),
            same().in_pod(1),
            MOVED,
        ),
        change(
            "refresh, answered without policies",
            ipv4(),
            Call::answered(ipv4(), c([])),
            &[],
        ),
        Flow::new(
            "refresh, IPv6 routes lost, so with a probe",
            standing(dual(), &probe),
            same(),
            DUAL,
        ),
        Flow::new(
            "refresh, next hop changed beside a leg of others",
            standing(dual(), &leg),
            Call::request(dual_via("172.16.1.1", "fe80::2")),
            LEG,
        ),
    ]
}

fn standing(old: Draft, then: &[Act]) -> Vec<Act> {
    let links = [Act::Link("nsm-0"), Act::Link("nsm-1")];
    [&links[..], &[Act::Call(Call::request(old))], then].concat()
}

fn more_routes() -> Draft {
    c([
        policy()
            .from("10.1.0.1")
            .via("172.16.1.1")
            .route("10.9.0.0/16", ""),
        policy()
            .from("2001:db8::1")
            .via("fe80::1")
            .route("2001:db8:9::/48", ""),
    ])
}

fn more_policies() -> Draft {
    dual().policies([
        policy().from("10.1.0.3").udp(53),
        policy().from("2001:db8::3").via("fe80::1"),
    ])
}

fn other_selectors() -> Draft {
    c([
        policy().from("10.1.0.3").via("172.16.1.1"),
        policy().from("2001:db8::3").via("fe80::1"),
    ])
}

const NEXT_HOP: &[&str] = &[
    "30017: from 2001:db8::1 -> default via fe80::2 dev nsm-0",
    "31745: from 10.1.0.1 -> default via 172.16.1.2 dev nsm-0",
];
const NEXT_HOP_CLOSED: &[&str] = &[
    "30017: from 2001:db8::1 -> default via fe80::2 dev nsm-0, unreachable default",
    "31745: from 10.1.0.1 -> default via 172.16.1.2 dev nsm-0, unreachable default",
];
const MORE_ROUTES: &[&str] = &[
    "30017: from 2001:db8::1 -> 2001:db8:9::/48 dev nsm-0, default via fe80::1 dev nsm-0",
    "31745: from 10.1.0.1 -> 10.9.0.0/16 dev nsm-0, default via 172.16.1.1 dev nsm-0",
];
const MORE_POLICIES: &[&str] = &[
    "30017: from 2001:db8::1 -> default via fe80::1 dev nsm-0",
    "30017: from 2001:db8::3 -> default via fe80::1 dev nsm-0",
    "31734: from 10.1.0.3 ipproto udp dport 53 -> default dev nsm-0",
    "31745: from 10.1.0.1 -> default via 172.16.1.1 dev nsm-0",
];
const SELECTORS: &[&str] = &[
    "30017: from 2001:db8::3 -> default via fe80::1 dev nsm-0",
    "31745: from 10.1.0.3 -> default via 172.16.1.1 dev nsm-0",
];
const INTERFACE: &[&str] = &[
    "30017: from 2001:db8::1 -> default via fe80::1 dev nsm-1",
    "31745: from 10.1.0.1 -> default via 172.16.1.1 dev nsm-1",
];
const MOVED: &[&str] = &[
    "elsewhere: 30017: from 2001:db8::1 -> default via fe80::1 dev nsm-0",
    "elsewhere: 31745: from 10.1.0.1 -> default via 172.16.1.1 dev nsm-0",
];
const LEG: &[&str] = &[
    "30017: from 2001:db8::1 -> default via fe80::2 dev nsm-0",
    "31745: from 10.1.0.1 -> default via 172.16.1.1 dev nsm-0",
];
