//! Random rules.

use super::dice::Dice;
use super::step::Step;
use crate::objects::{net, ports, to};
use nsm_netlink::fake::FakeNamespace;
use nsm_netlink::{Action, Attributes, Family, Op, Rule, Selector};

pub(super) fn roll(dice: &mut Dice, family: Family, fake: &FakeNamespace) -> Step {
    let standing = fake.rules(family);
    match dice.below(10) {
        0..=4 => Step::Do(Op::AddRule(rule(dice, family))),
        5 if !standing.is_empty() => {
            let mut rule = dice.pick(&standing);
            blur(dice, &mut rule);
            Step::Do(Op::AddRule(rule))
        }
        6 if dice.one_in(3) => {
            let rule = rule(dice, family);
            let plain = rule.is_plain() && rule.action == Action::Lookup && rule.table != 0;
            if plain {
                Step::Unnumbered(rule)
            } else {
                Step::Do(Op::AddRule(rule))
            }
        }
        7..=8 if !standing.is_empty() => {
            let mut rule = dice.pick(&standing);
            blur(dice, &mut rule);
            Step::Do(Op::DelRule(rule))
        }
        _ => Step::Do(Op::DelRule(rule(dice, family))),
    }
}

pub(super) fn rule(dice: &mut Dice, family: Family) -> Rule {
    let from: &[Option<&str>] = match family {
        Family::V4 => &[
            None,
            Some("10.1.0.1/32"),
            Some("10.1.0.0/16"),
            Some("10.1.0.9/16"),
            Some("0.0.0.0/0"),
        ],
        Family::V6 => &[
            None,
            Some("fd00::1/128"),
            Some("fd00::/16"),
            Some("fd00::9/16"),
            Some("::/0"),
        ],
    };
    let selector = Selector {
        family,
        from: dice.pick(from).map(net),
        proto: dice.pick(&[None, None, Some(6), Some(17), Some(0)]),
        sport: dice.pick(&[None, None, None, ports(53, 53)]),
        dport: dice.pick(&[
            None,
            None,
            ports(80, 80),
            ports(80, 90),
            ports(0, 5),
            ports(9, 65535),
        ]),
    };
    let mut rule = Rule::lookup(
        dice.pick(&[0, 100, 100, 100, 200, 40000]),
        selector,
        dice.pick(&[1000, 1000, 1001, 254, 0]),
        dice.pick(&[78, 78, 4, 0]),
    );
    blur(dice, &mut rule);
    rule
}

/// Changes a field, or none.
fn blur(dice: &mut Dice, rule: &mut Rule) {
    match dice.below(24) {
        0 => rule.selector.from = None,
        1 => rule.selector.proto = None,
        2 => rule.selector.dport = None,
        3 => rule.protocol = dice.pick(&[0, 4, 78]),
        4 => rule.table = 0,
        5 => rule.invert = !rule.invert,
        6 => rule.tos = dice.pick(&[0, 8, 9]),
        7 => rule.rest = conditions(dice),
        8 => rule.priority = dice.pick(&[0, 100]),
        9 => {
            rule.action = dice.pick(&[
                Action::Nop,
                Action::Other(7),
                Action::Other(0),
                Action::Lookup,
            ]);
        }
        10 => {
            rule.action = Action::Other(2);
            let target: u32 = dice.pick(&[32766, 100]);
            rule.rest = [(4, target.to_ne_bytes().to_vec())].into_iter().collect();
        }
        11 => rule.rest = to(rule.family()),
        _ => {}
    }
}

fn conditions(dice: &mut Dice) -> Attributes {
    let number = |kind, value: u32| (kind, value.to_ne_bytes().to_vec());
    let choices: [Vec<(u16, Vec<u8>)>; 11] = [
        vec![],
        vec![number(10, 5)],
        vec![number(10, 5), number(16, 0xff)],
        vec![number(16, 0xff)],
        vec![number(14, 0)],
        vec![(3, b"v0\0".to_vec())],
        vec![(3, b"lo\0".to_vec())],
        vec![(17, b"v1\0".to_vec())],
        vec![number(4, 32766)],
        vec![number(4, 100)],
        vec![(3, b"sixteen-letters!\0".to_vec())],
    ];
    dice.pick(&choices).into_iter().collect()
}
