//! Which rule a delete takes: the first that agrees in what is given.

use crate::World;
use crate::objects::{TABLE, THEIRS, host, iif, mark, net, of, ports, rule, suppress};
use nsm_netlink::{Action, Errno, Family, Op, Rule, Selector};

crate::behaviours!(
    a_delete_by_all_fields_takes_that_rule_and_no_other,
    a_delete_with_our_protocol_spares_a_foreign_rule,
    a_delete_takes_fields_that_are_not_given_for_any,
    a_delete_compares_the_fields_that_are_given,
    a_delete_takes_the_first_that_agrees,
    a_delete_does_not_look_at_the_inversion,
    a_delete_with_number_zero_takes_the_kernels_own_rule,
    a_delete_of_a_rule_that_is_gone_says_enoent,
);

fn a_delete_by_all_fields_takes_that_rule_and_no_other<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let foreign = Rule {
            protocol: THEIRS,
            ..rule(family, 100, TABLE)
        };
        let ours = rule(family, 200, TABLE);
        let other = rule(family, 200, TABLE + 1);
        world.must([&foreign, &ours, &other].map(|rule| Op::AddRule(rule.clone())));

        world.must([Op::DelRule(ours)]);

        assert_eq!(world.made_rules(family), [foreign, other]);
    }
}

fn a_delete_with_our_protocol_spares_a_foreign_rule<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let foreign = Rule {
            protocol: THEIRS,
            ..rule(family, 100, TABLE)
        };
        world.must([Op::AddRule(foreign.clone())]);

        assert_eq!(
            world.errno(Op::DelRule(rule(family, 100, TABLE))),
            Errno::ENOENT
        );
        assert_eq!(world.made_rules(family), [foreign]);
    }
}

/// So that a delete that names less than all takes a foreign rule.
fn a_delete_takes_fields_that_are_not_given_for_any<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let mut rich = rule(family, 100, TABLE);
        rich.selector.proto = Some(17);
        rich.selector.sport = ports(53, 53);
        rich.selector.dport = ports(80, 90);
        rich.tos = 8;
        rich.rest = mark(5, Some(0xff));
        rich.protocol = THEIRS;
        let bare = Rule::lookup(100, Selector::any(family), 0, 0);
        let by_table = Rule {
            table: TABLE,
            ..bare.clone()
        };
        let by_source = Rule {
            selector: Selector {
                from: Some(host(family)),
                ..bare.selector.clone()
            },
            ..bare.clone()
        };
        let by_protocol = Rule {
            protocol: THEIRS,
            action: Action::Other(0),
            ..bare.clone()
        };

        for like in [bare, by_table, by_source, by_protocol] {
            world.must([Op::AddRule(rich.clone()), Op::DelRule(like)]);
            assert_eq!(world.made_rules(family), []);
        }
    }
}

fn a_delete_compares_the_fields_that_are_given<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let mut rule = rule(family, 100, TABLE);
        rule.selector.from = Some(net(of(family, "10.1.1.0/24", "fd00::/64")));
        rule.selector.dport = ports(80, 90);
        rule.rest = mark(5, Some(0xff));
        world.must([Op::AddRule(rule.clone())]);
        let with = |change: &dyn Fn(&mut Rule)| {
            let mut rule = rule.clone();
            change(&mut rule);
            Op::DelRule(rule)
        };

        for like in [
            with(&|rule| rule.priority = 101),
            with(&|rule| rule.priority = 0),
            with(&|rule| rule.table = TABLE + 1),
            with(&|rule| rule.action = Action::Other(7)),
            with(&|rule| rule.protocol = THEIRS),
            with(&|rule| rule.tos = 8),
            with(&|rule| rule.selector.from = Some(host(family))),
            with(&|rule| rule.selector.proto = Some(6)),
            with(&|rule| rule.selector.sport = ports(53, 53)),
            with(&|rule| rule.selector.dport = ports(80, 80)),
            with(&|rule| rule.rest = mark(5, None)),
            with(&|rule| rule.rest = mark(6, Some(0xff))),
            with(&|rule| rule.rest = iif("lo")),
            with(&|rule| rule.rest = suppress(0)),
        ] {
            assert_eq!(world.errno(like), Errno::ENOENT);
        }

        world.must([with(&|_| {})]);
    }
}

/// Of two rules of ours, one with a further condition: the one that is meant only by its place.
fn a_delete_takes_the_first_that_agrees<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let plain = rule(family, 100, TABLE);
        let mut narrow = plain.clone();
        narrow.selector.dport = ports(53, 53);
        world.must([Op::AddRule(narrow), Op::AddRule(plain.clone())]);

        world.must([Op::DelRule(plain.clone())]);

        assert_eq!(world.made_rules(family), std::slice::from_ref(&plain));
        world.must([Op::DelRule(plain)]);
    }
}

fn a_delete_does_not_look_at_the_inversion<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let plain = rule(family, 100, TABLE);
        world.must([Op::AddRule(Rule {
            invert: true,
            ..plain.clone()
        })]);

        world.must([Op::DelRule(plain)]);

        assert_eq!(world.made_rules(family), []);
    }
}

fn a_delete_with_number_zero_takes_the_kernels_own_rule<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let empty = Rule {
            action: Action::Other(0),
            ..Rule::lookup(0, Selector::any(family), 0, 0)
        };

        world.must([Op::DelRule(empty)]);

        assert_eq!(world.all_rules(family)[0].table, 254);
    }
}

fn a_delete_of_a_rule_that_is_gone_says_enoent<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let rule = rule(family, 100, TABLE);
        world.must([Op::AddRule(rule.clone()), Op::DelRule(rule.clone())]);

        assert_eq!(world.errno(Op::DelRule(rule)), Errno::ENOENT);
    }
}
