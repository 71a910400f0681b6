//! A connection is requested for the first time.

use super::{DUAL, dual, ipv4, ipv6};
use crate::flow::{Act, Call, Flow};
use nsm_chain::ErrorKind;
use policyroute_suite::{Draft, connection, policy};

pub(super) fn flows() -> Vec<Flow> {
    let request = |name, connection, after| {
        Flow::new(
            name,
            vec![Act::Link("nsm-0")],
            Call::request(connection),
            after,
        )
    };
    let off = vec![Act::Link("nsm-0"), Act::ForbidIpv6("nsm-0")];
    vec![
        request("first request, IPv4", ipv4(), IPV4),
        request("first request, IPv6", ipv6(), IPV6),
        request("first request, dual", dual(), DUAL),
        request("first request, IPv4, fail closed", ipv4(), IPV4_CLOSED).fail_closed(),
        request("first request, IPv6, fail closed", ipv6(), IPV6_CLOSED).fail_closed(),
        request("first request, dual, fail closed", dual(), DUAL_CLOSED).fail_closed(),
        Flow::new(
            "first request by an interface without IPv6",
            off,
            Call::request(dual()),
            &[],
        )
        .fails(ErrorKind::FailedPrecondition),
        Flow::new(
            "first request beside a broken connection",
            vec![
                Act::Link("nsm-0"),
                Act::Link("nsm-1"),
                Act::Call(Call::request(other())),
                Act::LoseRule("10.3.0.1"),
                Act::LoseRoutes("2001:db8:3::1"),
            ],
            Call::request(dual()),
            BESIDE,
        ),
    ]
}

fn other() -> Draft {
    connection("other").by("nsm-1").policies([
        policy().from("10.3.0.1").via("172.16.2.1"),
        policy().from("2001:db8:3::1").via("fe80::2"),
    ])
}

const IPV4: &[&str] = &[
    "31734: from 10.1.0.2 ipproto tcp dport 443 -> default via 172.16.1.1 dev nsm-0",
    "31745: from 10.1.0.1 -> 10.9.0.0/16 dev nsm-0, default via 172.16.1.1 dev nsm-0",
];
const IPV6: &[&str] = &[
    "30017: from 2001:db8::1 -> 2001:db8:9::/48 dev nsm-0, default via fe80::1 dev nsm-0",
    "30017: from 2001:db8::2 -> default dev nsm-0",
];
const IPV4_CLOSED: &[&str] = &[
    "31734: from 10.1.0.2 ipproto tcp dport 443 -> default via 172.16.1.1 dev nsm-0, unreachable default",
    "31745: from 10.1.0.1 -> 10.9.0.0/16 dev nsm-0, default via 172.16.1.1 dev nsm-0, unreachable 10.9.0.0/16, unreachable default",
];
const IPV6_CLOSED: &[&str] = &[
    "30017: from 2001:db8::1 -> 2001:db8:9::/48 dev nsm-0, default via fe80::1 dev nsm-0, unreachable 2001:db8:9::/48, unreachable default",
    "30017: from 2001:db8::2 -> default dev nsm-0, unreachable default",
];
const DUAL_CLOSED: &[&str] = &[
    "30017: from 2001:db8::1 -> default via fe80::1 dev nsm-0, unreachable default",
    "31745: from 10.1.0.1 -> default via 172.16.1.1 dev nsm-0, unreachable default",
];
const BESIDE: &[&str] = &[
    "30017: from 2001:db8:3::1 -> default via fe80::2 dev nsm-1",
    "30017: from 2001:db8::1 -> default via fe80::1 dev nsm-0",
    "31745: from 10.1.0.1 -> default via 172.16.1.1 dev nsm-0",
    "31745: from 10.3.0.1 -> default via 172.16.2.1 dev nsm-1",
];
