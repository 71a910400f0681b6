//! Which way a packet goes.

use crate::World;
use crate::objects::{OURS, TABLE, address, exclusive, neighbour, net, of, on_link, ports, via};
use crate::world::{V0, V1, own};
use nsm_netlink::fake::{Flow, Way};
use nsm_netlink::{Action, Errno, Family, Op, Route, RouteKind, Rule, Selector};

crate::behaviours!(
    a_rule_leads_its_traffic_to_its_table,
    a_rule_whose_table_knows_no_way_is_passed_over,
    a_rule_asks_for_all_that_it_says,
    the_longest_prefix_and_then_the_lowest_metric_is_taken,
    an_unreachable_twin_refuses_what_the_table_would_let_through,
    routes_that_refuse_have_an_error_each,
    rules_that_refuse_have_an_error_each,
    a_rule_that_suppresses_the_default_route_lets_longer_prefixes_win,
    an_inverted_rule_leads_all_other_traffic,
    until_a_first_ipv6_rule_is_added_lookups_ask_main_whatever_was_deleted,
    no_route_at_all_is_unreachable,
);

/// A pod whose main table leads by `v1`, and whose table 20000 by `v0`.
fn two_ways<W: World>(family: Family) -> W {
    let world = W::pod();
    let main = Route {
        table: 254,
        ..via(family, V1, neighbour(family, 2, 1))
    };
    world.must([
        exclusive(&main),
        exclusive(&via(family, V0, neighbour(family, 1, 1))),
    ]);
    world
}

fn far(family: Family) -> Flow {
    Flow::to(address(of(family, "198.18.0.1", "2001:db8::1")))
}

/// From the pod's own address on `v0`.
fn from_own(family: Family) -> Flow {
    Flow {
        from: Some(own(family, 1).addr()),
        ..far(family)
    }
}

fn by_table(family: Family) -> Way {
    Way {
        table: TABLE,
        dev: V0,
        via: Some(neighbour(family, 1, 1)),
    }
}

fn by_main(family: Family) -> Way {
    Way {
        table: 254,
        dev: V1,
        via: Some(neighbour(family, 2, 1)),
    }
}

fn source(family: Family) -> Selector {
    let from = net(&format!("{}/{}", own(family, 1).addr(), family.host_len()));
    Selector {
        from: Some(from),
        ..Selector::any(family)
    }
}

fn leads(family: Family) -> Rule {
    Rule::lookup(100, source(family), TABLE, OURS)
}

fn a_rule_leads_its_traffic_to_its_table<W: World>() {
    for family in Family::ALL {
        let world = two_ways::<W>(family);
        assert_eq!(world.lookup(&from_own(family)), Ok(by_main(family)));

        world.must([Op::AddRule(leads(family))]);

        assert_eq!(world.lookup(&from_own(family)), Ok(by_table(family)));
        // A source that is not chosen yet is no source.
        assert_eq!(world.lookup(&far(family)), Ok(by_main(family)));
    }
}

fn a_rule_whose_table_knows_no_way_is_passed_over<W: World>() {
    for family in Family::ALL {
        let world = two_ways::<W>(family);
        world.must([Op::AddRule(Rule {
            table: TABLE + 1,
            ..leads(family)
        })]);
        assert_eq!(world.lookup(&from_own(family)), Ok(by_main(family)));

        let prefix = net(of(family, "10.0.0.0/8", "fd99::/16"));
        world.must([exclusive(&Route {
            table: TABLE + 1,
            prefix,
            ..on_link(family, V0)
        })]);

        assert_eq!(world.lookup(&from_own(family)), Ok(by_main(family)));
    }
}

fn a_rule_asks_for_all_that_it_says<W: World>() {
    for family in Family::ALL {
        let world = two_ways::<W>(family);
        let mut rule = leads(family);
        rule.selector.proto = Some(6);
        rule.selector.dport = ports(80, 90);
        rule.rest = [(10, 5_u32.to_ne_bytes().to_vec())].into_iter().collect();
        world.must([Op::AddRule(rule)]);

        let right = Flow {
            proto: Some(6),
            dport: Some(85),
            mark: 5,
            ..from_own(family)
        };
        assert_eq!(world.lookup(&right), Ok(by_table(family)));
        for wrong in [
            Flow {
                proto: Some(17),
                ..right
            },
            Flow {
                dport: Some(91),
                ..right
            },
            Flow { mark: 4, ..right },
            Flow {
                from: Some(own(family, 2).addr()),
                ..right
            },
        ] {
            assert_eq!(world.lookup(&wrong), Ok(by_main(family)), "{wrong:?}");
        }
    }
}

fn the_longest_prefix_and_then_the_lowest_metric_is_taken<W: World>() {
    for family in Family::ALL {
        let world = two_ways::<W>(family);
        let prefix = net(of(family, "198.18.0.0/16", "2001:db8::/32"));
        let route = |n, metric| Route {
            prefix,
            metric,
            ..via(family, V0, neighbour(family, 1, n))
        };
        world.must([Op::AddRule(leads(family))]);
        world.must([exclusive(&route(7, 3000)), exclusive(&route(8, 2000))]);

        let way = Way {
            via: Some(neighbour(family, 1, 8)),
            ..by_table(family)
        };
        assert_eq!(world.lookup(&from_own(family)), Ok(way));
    }
}

fn an_unreachable_twin_refuses_what_the_table_would_let_through<W: World>() {
    for family in Family::ALL {
        let world = two_ways::<W>(family);
        let twin = Route::unreachable(TABLE, family.default_prefix(), OURS);
        world.must([Op::AddRule(leads(family)), exclusive(&twin)]);
        assert_eq!(world.lookup(&from_own(family)), Ok(by_table(family)));

        world.must([Op::DelRoute(via(family, V0, neighbour(family, 1, 1)))]);

        assert_eq!(world.lookup(&from_own(family)), Err(Errno::EHOSTUNREACH));
    }
}

fn routes_that_refuse_have_an_error_each<W: World>() {
    for family in Family::ALL {
        let world = two_ways::<W>(family);
        world.must([Op::AddRule(Rule {
            table: TABLE + 1,
            ..leads(family)
        })]);
        let refusing = Route::unreachable(TABLE + 1, family.default_prefix(), OURS);
        for (kind, answer) in [
            (6, Err(Errno::EINVAL)),
            (7, Err(Errno::EHOSTUNREACH)),
            (8, Err(Errno::EACCES)),
            (9, Ok(by_main(family))),
        ] {
            let kind = if kind == 7 {
                RouteKind::Unreachable
            } else {
                RouteKind::Other(kind)
            };
            let route = Route {
                kind,
                ..refusing.clone()
            };
            world.must([exclusive(&route)]);

            assert_eq!(world.lookup(&from_own(family)), answer);

            world.must([Op::DelRoute(route)]);
        }
    }
}

fn rules_that_refuse_have_an_error_each<W: World>() {
    for family in Family::ALL {
        let world = two_ways::<W>(family);
        for (action, answer) in [
            (Action::Other(6), Err(Errno::EINVAL)),
            (Action::Other(7), Err(Errno::ENETUNREACH)),
            (Action::Other(8), Err(Errno::EACCES)),
            (Action::Nop, Ok(by_main(family))),
        ] {
            let rule = Rule {
                action,
                table: 0,
                ..leads(family)
            };
            world.must([Op::AddRule(rule.clone())]);

            assert_eq!(world.lookup(&from_own(family)), answer);

            world.must([Op::DelRule(rule)]);
        }
    }
}

fn a_rule_that_suppresses_the_default_route_lets_longer_prefixes_win<W: World>() {
    for family in Family::ALL {
        let world = two_ways::<W>(family);
        let rest = [(14, 0_u32.to_ne_bytes().to_vec())].into_iter().collect();
        let main_first = Rule {
            rest,
            table: 254,
            priority: 90,
            ..leads(family)
        };
        world.must([Op::AddRule(main_first), Op::AddRule(leads(family))]);

        assert_eq!(world.lookup(&from_own(family)), Ok(by_table(family)));
        let near = Flow {
            to: neighbour(family, 2, 9),
            ..from_own(family)
        };
        assert_eq!(
            world.lookup(&near),
            Ok(Way {
                table: 254,
                dev: V1,
                via: None
            })
        );
    }
}

fn an_inverted_rule_leads_all_other_traffic<W: World>() {
    for family in Family::ALL {
        let world = two_ways::<W>(family);
        world.must([Op::AddRule(Rule {
            invert: true,
            ..leads(family)
        })]);

        assert_eq!(world.lookup(&from_own(family)), Ok(by_main(family)));
        let other = Flow {
            from: Some(own(family, 2).addr()),
            ..far(family)
        };
        assert_eq!(world.lookup(&other), Ok(by_table(family)));
    }
}

fn until_a_first_ipv6_rule_is_added_lookups_ask_main_whatever_was_deleted<W: World>() {
    for family in Family::ALL {
        let world = two_ways::<W>(family);
        let main = world
            .all_rules(family)
            .into_iter()
            .find(|rule| rule.table == 254)
            .unwrap();
        world.must([Op::DelRule(main)]);

        let without_rules = world.lookup(&from_own(family));
        match family {
            Family::V4 => assert_eq!(without_rules, Err(Errno::ENETUNREACH)),
            Family::V6 => assert_eq!(without_rules, Ok(by_main(family))),
        }

        world.must([Op::AddRule(Rule {
            table: TABLE + 1,
            ..leads(family)
        })]);
        assert_eq!(world.lookup(&from_own(family)), Err(Errno::ENETUNREACH));
    }
}

fn no_route_at_all_is_unreachable<W: World>() {
    for family in Family::ALL {
        let world = W::pod();

        assert_eq!(world.lookup(&from_own(family)), Err(Errno::ENETUNREACH));
    }
}
