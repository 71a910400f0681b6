//! What a field of a rule may hold, and how it is stored.

use crate::World;
use crate::objects::{OURS, TABLE, address, iif, net, of, ports, rest, rule};
use nsm_netlink::{Action, Errno, Family, Op, Rule, Selector};

crate::behaviours!(
    the_lowest_and_the_highest_number_are_allowed,
    a_rule_may_name_an_interface_that_does_not_exist,
    an_interfaces_name_has_at_most_fifteen_bytes,
    a_jump_goes_forward_only,
    a_source_keeps_its_host_bits,
    protocol_zero_means_any_protocol,
    every_table_number_is_allowed,
    a_lookup_without_a_table_gets_a_free_one_in_ipv4_and_is_refused_in_ipv6,
    ports_zero_and_65535_are_refused,
    a_type_of_service_with_ecn_bits_is_refused,
    a_rule_that_does_nothing_needs_no_table,
);

fn the_lowest_and_the_highest_number_are_allowed<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        world.must([0, u32::MAX].map(|number| Op::AddRule(rule(family, number, TABLE))));

        let rules = world.all_rules(family);
        assert_eq!(rules[1].priority, 0);
        assert_eq!(rules.last().unwrap().priority, u32::MAX);
    }
}

fn a_rule_may_name_an_interface_that_does_not_exist<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let rule = Rule {
            rest: iif("nowhere"),
            ..rule(family, 100, TABLE)
        };

        world.must([Op::AddRule(rule.clone())]);

        assert_eq!(world.made_rules(family), [rule]);
    }
}

fn an_interfaces_name_has_at_most_fifteen_bytes<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let named = |name| {
            Op::AddRule(Rule {
                rest: iif(name),
                ..rule(family, 100, TABLE)
            })
        };

        assert_eq!(world.errno(named("sixteen-letters!")), Errno::ERANGE);
        world.must([named("fifteen-letters")]);
    }
}

fn a_jump_goes_forward_only<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let jump = |to: u32| Rule {
            action: Action::Other(2),
            rest: rest(&[(4, &to.to_ne_bytes())]),
            ..rule(family, 100, 0)
        };

        assert_eq!(world.errno(Op::AddRule(jump(100))), Errno::EINVAL);
        world.must([Op::AddRule(jump(32766))]);

        assert_eq!(world.made_rules(family), [jump(32766)]);
    }
}

fn a_source_keeps_its_host_bits<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let [one, other] = [
            net(of(family, "10.3.3.4/24", "fd00::4/64")),
            net(of(family, "10.3.3.0/24", "fd00::/64")),
        ]
        .map(|from| {
            let selector = Selector {
                from: Some(from),
                ..Selector::any(family)
            };
            Rule::lookup(100, selector, TABLE, OURS)
        });

        world.must([Op::AddRule(one.clone()), Op::AddRule(other.clone())]);
        assert_eq!(world.made_rules(family), [one.clone(), other.clone()]);

        world.must([Op::DelRule(other)]);
        assert_eq!(world.made_rules(family), [one]);
    }
}

fn protocol_zero_means_any_protocol<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let plain = rule(family, 100, TABLE);
        let mut zero = plain.clone();
        zero.selector.proto = Some(0);

        world.must([Op::AddRule(zero.clone())]);

        assert_eq!(world.made_rules(family), std::slice::from_ref(&plain));
        assert_eq!(world.errno(Op::AddRule(plain)), Errno::EEXIST);
    }
}

fn every_table_number_is_allowed<W: World>() {
    let world = W::fresh();
    let tables = [
        1,
        252,
        255,
        256,
        1000,
        0x4e53_4d01,
        0x7fff_ffff,
        0x8000_0000,
        u32::MAX,
    ];
    for family in Family::ALL {
        let rules = tables.map(|table| rule(family, 100, table));

        world.must(rules.clone().map(Op::AddRule));

        assert_eq!(world.made_rules(family), rules);
    }
}

fn a_lookup_without_a_table_gets_a_free_one_in_ipv4_and_is_refused_in_ipv6<W: World>() {
    let world = W::fresh();
    world.must([1, 2].map(|number| Op::AddRule(rule(Family::V4, number, 0))));
    let tables: Vec<_> = world
        .made_rules(Family::V4)
        .iter()
        .map(|rule| rule.table)
        .collect();
    assert_eq!(tables, [1, 2]);

    assert_eq!(
        world.errno(Op::AddRule(rule(Family::V6, 1, 0))),
        Errno::EINVAL
    );
}

fn ports_zero_and_65535_are_refused<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let mut rule = rule(family, 100, TABLE);
        for (start, end) in [
            (0, 0),
            (0, 80),
            (80, 0),
            (90, 80),
            (1, 65535),
            (65535, 65535),
        ] {
            rule.selector.dport = ports(start, end);
            assert_eq!(world.errno(Op::AddRule(rule.clone())), Errno::EINVAL);
        }
        rule.selector.dport = ports(1, 65534);

        world.must([Op::AddRule(rule.clone())]);

        assert_eq!(world.made_rules(family), [rule]);
    }
}

fn a_type_of_service_with_ecn_bits_is_refused<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let rule = Rule {
            tos: 9,
            ..rule(family, 100, TABLE)
        };

        assert_eq!(world.errno(Op::AddRule(rule)), Errno::EINVAL);
    }
}

/// The probe that makes IPv6 sockets look anew.
fn a_rule_that_does_nothing_needs_no_table<W: World>() {
    let world = W::fresh();
    let from = ipnet::IpNet::new_assert(address("100::"), 64);
    let selector = Selector {
        from: Some(from),
        ..Selector::any(Family::V6)
    };
    let probe = Rule {
        action: Action::Nop,
        ..Rule::lookup(32321, selector, 0, OURS)
    };

    world.must([Op::AddRule(probe.clone())]);
    assert_eq!(world.made_rules(Family::V6), std::slice::from_ref(&probe));

    world.must([Op::DelRule(probe)]);
    assert_eq!(world.made_rules(Family::V6), []);
}
