//! Rules: what makes two of them one, and where a new one goes.

use crate::World;
use crate::objects::{OURS, TABLE, THEIRS, iif, mark, ports, rule, suppress, to};
use nsm_netlink::{Action, Errno, Family, Op, Rule, Selector};

crate::behaviours!(
    a_new_namespace_has_the_kernels_own_rules,
    an_equal_rule_is_refused,
    without_excl_an_equal_rule_stands_beside_the_first,
    a_rule_that_differs_in_any_field_is_another_rule,
    a_rule_without_a_source_is_refused_where_one_with_a_source_stands,
    the_inversion_is_no_part_of_a_rules_identity,
    a_rule_without_a_number_goes_in_front_of_all_but_the_first,
    numbers_that_the_kernel_chooses_end_at_zero,
    a_place_that_became_free_is_not_filled_again,
    rules_of_one_number_are_asked_in_the_order_of_age,
);

fn a_new_namespace_has_the_kernels_own_rules<W: World>() {
    let world = W::fresh();
    let tables = |family| -> Vec<_> {
        let rules = world.all_rules(family);
        rules
            .iter()
            .map(|rule| (rule.priority, rule.table, rule.protocol))
            .collect()
    };

    assert_eq!(
        tables(Family::V4),
        [(0, 255, 2), (32766, 254, 2), (32767, 253, 2)]
    );
    assert_eq!(tables(Family::V6), [(0, 255, 2), (32766, 254, 2)]);
}

fn an_equal_rule_is_refused<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let rule = rule(family, 100, TABLE);
        world.must([Op::AddRule(rule.clone())]);

        assert_eq!(world.errno(Op::AddRule(rule.clone())), Errno::EEXIST);
        assert_eq!(world.made_rules(family), [rule]);
    }
}

fn without_excl_an_equal_rule_stands_beside_the_first<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let rule = rule(family, 100, TABLE);
        world.must([Op::AddRule(rule.clone())]);

        world.restore_rules(family);

        assert_eq!(world.made_rules(family), [rule.clone(), rule]);
    }
}

fn a_rule_that_differs_in_any_field_is_another_rule<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let plain = rule(family, 100, TABLE);
        let with = |change: &dyn Fn(&mut Rule)| {
            let mut rule = plain.clone();
            change(&mut rule);
            rule
        };
        let rules = [
            with(&|rule| rule.selector.from = None),
            plain.clone(),
            with(&|rule| rule.protocol = THEIRS),
            with(&|rule| rule.protocol = 0),
            with(&|rule| rule.table = TABLE + 1),
            with(&|rule| rule.action = Action::Other(7)),
            with(&|rule| rule.tos = 8),
            with(&|rule| rule.selector.proto = Some(6)),
            with(&|rule| rule.selector.sport = ports(80, 80)),
            with(&|rule| rule.selector.dport = ports(80, 80)),
            with(&|rule| rule.selector.dport = ports(80, 90)),
            with(&|rule| rule.rest = suppress(0)),
            with(&|rule| rule.rest = mark(5, None)),
            with(&|rule| rule.rest = mark(5, Some(0xff))),
            with(&|rule| rule.rest = iif("lo")),
        ];

        world.must(rules.iter().cloned().map(Op::AddRule));

        assert_eq!(world.made_rules(family), rules);
        for rule in rules {
            assert_eq!(world.errno(Op::AddRule(rule)), Errno::EEXIST);
        }
    }
}

/// What the new one does not have is not compared, where it is source, destination or type of
/// service: `from all` then counts as there, although nothing leads the other sources.
fn a_rule_without_a_source_is_refused_where_one_with_a_source_stands<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let bare = Rule::lookup(100, Selector::any(family), TABLE, OURS);
        let from = rule(family, 100, TABLE);
        let tos = Rule {
            tos: 8,
            ..bare.clone()
        };
        let to = Rule {
            rest: to(family),
            ..bare.clone()
        };
        for narrow in [from, tos, to] {
            world.must([Op::AddRule(narrow.clone())]);
            assert_eq!(world.errno(Op::AddRule(bare.clone())), Errno::EEXIST);

            world.must([Op::DelRule(narrow.clone()), Op::AddRule(bare.clone())]);
            world.must([Op::AddRule(narrow.clone()), Op::DelRule(narrow)]);
            world.must([Op::DelRule(bare.clone())]);
        }
    }
}

fn the_inversion_is_no_part_of_a_rules_identity<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let plain = rule(family, 100, TABLE);
        world.must([Op::AddRule(plain.clone())]);

        let inverted = Rule {
            invert: true,
            ..plain
        };

        assert_eq!(world.errno(Op::AddRule(inverted)), Errno::EEXIST);
    }
}

fn a_rule_without_a_number_goes_in_front_of_all_but_the_first<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        for _ in 0..3 {
            world.add_rule_unnumbered(&rule(family, 0, TABLE));
        }

        // One rule three times: EXCL does not see it, because each has a number of its own.
        assert_eq!(numbers(&world, family), [32763, 32764, 32765]);
    }
}

fn numbers_that_the_kernel_chooses_end_at_zero<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        world.must([Op::AddRule(rule(family, 2, TABLE))]);

        for table in 1..=4 {
            world.add_rule_unnumbered(&rule(family, 0, TABLE + table));
        }

        assert_eq!(numbers(&world, family), [0, 0, 0, 1, 2]);
        let tables: Vec<_> = world
            .made_rules(family)
            .iter()
            .map(|rule| rule.table)
            .collect();
        assert_eq!(tables, [TABLE + 2, TABLE + 3, TABLE + 4, TABLE + 1, TABLE]);
    }
}

fn a_place_that_became_free_is_not_filled_again<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        for table in 0..3 {
            world.add_rule_unnumbered(&rule(family, 0, TABLE + table));
        }
        world.must([Op::DelRule(rule(family, 32764, TABLE + 1))]);

        world.add_rule_unnumbered(&rule(family, 0, TABLE + 1));

        assert_eq!(numbers(&world, family), [32762, 32763, 32765]);
    }
}

fn rules_of_one_number_are_asked_in_the_order_of_age<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        world.must([30, 10, 20].map(|n| Op::AddRule(rule(family, 100, TABLE + n))));

        let tables: Vec<_> = world
            .made_rules(family)
            .iter()
            .map(|rule| rule.table)
            .collect();
        assert_eq!(tables, [TABLE + 30, TABLE + 10, TABLE + 20]);
    }
}

fn numbers<W: World>(world: &W, family: Family) -> Vec<u32> {
    world
        .made_rules(family)
        .iter()
        .map(|rule| rule.priority)
        .collect()
}
