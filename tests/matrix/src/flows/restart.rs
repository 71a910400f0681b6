//! A connection is requested again, by a process that knows nothing.

use super::{DUAL, c, dual};
use crate::flow::{Act, Call, Flow};
use policyroute_suite::{Draft, policy};

pub(super) fn flows() -> Vec<Flow> {
    let restart = |name, old: Draft, then: &[Act], after| {
        let made = [
            Act::Link("nsm-0"),
            Act::Call(Call::request(old.clone())),
            Act::Restart,
        ];
        Flow::new(name, [&made, then].concat(), Call::request(old), after)
    };
    let lost = &[Act::LoseRule("10.1.0.1"), Act::LoseRule("2001:db8::1")];
    let misplaced = &[Act::Misplace("10.1.0.1"), Act::Misplace("2001:db8::1")];
    let double = &[Act::Double("10.1.0.1"), Act::Double("2001:db8::1")];
    let shared = &[
        Act::Share("10.1.0.2", "10.1.0.1"),
        Act::Share("2001:db8::2", "2001:db8::1"),
    ];
    vec![
        restart("restart, nothing lost", dual(), &[], DUAL),
        restart("restart, link lost", dual(), &[Act::Relink("nsm-0")], DUAL),
        restart("restart, rules lost", dual(), lost, DUAL),
        restart(
            "restart, rules at a wrong priority",
            dual(),
            misplaced,
            DUAL,
        ),
        restart("restart, rules doubled", dual(), double, DUAL),
        restart("restart, tables shared", two_of_each(), shared, TWO_OF_EACH),
        restart(
            "restart, tables shared and link lost",
            two_of_each(),
            &[&shared[..], &[Act::Relink("nsm-0")]].concat(),
            TWO_OF_EACH,
        ),
    ]
}

fn two_of_each() -> Draft {
    c([
        policy().from("10.1.0.1").via("172.16.1.1"),
        policy().from("10.1.0.2").via("172.16.1.2"),
        policy().from("2001:db8::1").via("fe80::1"),
        policy().from("2001:db8::2").via("fe80::2"),
    ])
}

const TWO_OF_EACH: &[&str] = &[
    "30017: from 2001:db8::1 -> default via fe80::1 dev nsm-0",
    "30017: from 2001:db8::2 -> default via fe80::2 dev nsm-0",
    "31745: from 10.1.0.1 -> default via 172.16.1.1 dev nsm-0",
    "31745: from 10.1.0.2 -> default via 172.16.1.2 dev nsm-0",
];
