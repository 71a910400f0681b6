//! A connection is closed.

use super::{dual, dual_via};
use crate::flow::{Act, Call, Flow};
use policyroute_suite::{connection, policy};

pub(super) fn flows() -> Vec<Flow> {
    let close = |name, then: &[Act], after| {
        let made = [
            Act::Link("nsm-0"),
            Act::Link("nsm-1"),
            Act::Call(Call::request(dual())),
        ];
        Flow::new(name, [&made, then].concat(), Call::close(dual()), after)
    };
    let elder = connection("elder").by("nsm-1").policies([
        policy().from("10.1.0.1").via("172.16.2.1"),
        policy().from("2001:db8::1").via("fe80::2"),
    ]);
    let held = [
        Act::Call(Call::request(elder)),
        Act::Call(Call::request(dual_via("172.16.1.9", "fe80::9"))),
    ];
    vec![
        close("close", &[], &[]),
        close("close, fail closed", &[], &[]).fail_closed(),
        close("close, link gone", &[Act::Unlink("nsm-0")], &[]),
        close(
            "close, rules gone",
            &[Act::LoseRule("10.1.0.1"), Act::LoseRule("2001:db8::1")],
            &[],
        ),
        close(
            "close of a connection that is not known",
            &[Act::Restart],
            super::DUAL,
        ),
        Flow::new(
            "close of the one that holds what two want",
            [&[Act::Link("nsm-0"), Act::Link("nsm-1")], &held[..]].concat(),
            Call::close(dual_via("172.16.1.9", "fe80::9")),
            ELDER,
        ),
        close(
            "close beside a leg of others",
            &[Act::ForeignLeg("2001:db8::1", "fe80::9")],
            &[],
        ),
    ]
}

const ELDER: &[&str] = &[
    "30017: from 2001:db8::1 -> default via fe80::2 dev nsm-1",
    "31745: from 10.1.0.1 -> default via 172.16.2.1 dev nsm-1",
];
