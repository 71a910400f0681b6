//! Rules of ours that nobody claims are cleaned up.

use super::{c, dual};
use crate::flow::{Act, Call, Flow};
use policyroute_suite::{Draft, policy};

pub(super) fn flows() -> Vec<Flow> {
    let made = vec![
        Act::Link("nsm-0"),
        Act::Link("nsm-1"),
        Act::Call(Call::request(dual())),
        Act::Restart,
    ];
    let dead = [Act::Unlink("nsm-0"), Act::Call(Call::request(other()))];
    let named = [Act::Call(Call::close(dual()))];
    vec![
        Flow::new(
            "left-overs, dead, by timer",
            [&made, &dead[..]].concat(),
            Call::Wait,
            OTHER,
        ),
        Flow::new(
            "left-overs, named by a close, by timer",
            [&made, &named[..]].concat(),
            Call::Wait,
            &[],
        ),
        Flow::new(
            "left-overs, by a request that is answered otherwise",
            made,
            Call::answered(dual(), changed()),
            CHANGED,
        ),
    ]
}

fn other() -> Draft {
    policyroute_suite::connection("other")
        .by("nsm-1")
        .policies([policy().from("10.3.0.1"), policy().from("2001:db8:3::1")])
}

fn changed() -> Draft {
    c([
        policy().from("10.1.0.3").via("172.16.1.1"),
        policy().from("2001:db8::3").via("fe80::1"),
    ])
}

const OTHER: &[&str] = &[
    "30017: from 2001:db8:3::1 -> default dev nsm-1",
    "31745: from 10.3.0.1 -> default dev nsm-1",
];
const CHANGED: &[&str] = &[
    "30017: from 2001:db8::3 -> default via fe80::1 dev nsm-0",
    "31745: from 10.1.0.3 -> default via 172.16.1.1 dev nsm-0",
];
