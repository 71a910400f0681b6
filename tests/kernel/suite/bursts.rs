//! Several operations in one call.

use crate::World;
use crate::objects::{OURS, TABLE, address, exclusive, neighbour, of, rule, via};
use crate::world::V0;
use nsm_netlink::{Errno, Family, Kernel, Op, Route, Rule, Selector};

crate::behaviours!(
    a_refusal_in_the_middle_stops_nothing,
    operations_are_done_in_order,
    a_burst_of_two_thousand_is_answered_completely,
    an_empty_burst_is_nothing,
);

fn a_refusal_in_the_middle_stops_nothing<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let lost = Route {
            onlink: false,
            ..via(family, V0, address(of(family, "192.0.2.1", "2001:db8::1")))
        };
        let burst = [
            Op::AddRule(rule(family, 100, TABLE)),
            Op::AddRule(rule(family, 100, TABLE)),
            Op::AddRule(rule(family, 101, TABLE)),
            exclusive(&lost),
            Op::DelRule(rule(family, 999, TABLE)),
            exclusive(&via(family, V0, neighbour(family, 1, 1))),
        ];

        let outcomes = world.kernel().execute(&burst).unwrap();

        let errnos: Vec<_> = outcomes
            .into_iter()
            .map(|it| it.map_err(|it| it.errno))
            .collect();
        let unreachable = match family {
            Family::V4 => Errno::ENETUNREACH,
            Family::V6 => Errno::EHOSTUNREACH,
        };
        assert_eq!(
            errnos,
            [
                Ok(()),
                Err(Errno::EEXIST),
                Ok(()),
                Err(unreachable),
                Err(Errno::ENOENT),
                Ok(())
            ]
        );
        assert_eq!(world.made_rules(family).len(), 2);
        assert_eq!(world.made_routes(family).len(), 1);
    }
}

fn operations_are_done_in_order<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let rule = rule(family, 100, TABLE);
        let burst = [
            Op::DelRule(rule.clone()),
            Op::AddRule(rule.clone()),
            Op::DelRule(rule.clone()),
            Op::AddRule(rule.clone()),
        ];

        let outcomes = world.kernel().execute(&burst).unwrap();

        assert_eq!(
            outcomes[0].as_ref().map_err(|it| it.errno),
            Err(Errno::ENOENT)
        );
        assert!(outcomes[1..].iter().all(Result::is_ok));
        assert_eq!(world.made_rules(family), [rule]);
    }
}

/// More answers than a socket's buffer holds by default, and every third is a refusal.
fn a_burst_of_two_thousand_is_answered_completely<W: World>() {
    let world = W::fresh();
    let op = |n: u32| {
        let number = if n % 3 == 2 { 1000 + n - 1 } else { 1000 + n };
        Op::AddRule(Rule::lookup(number, Selector::any(Family::V4), TABLE, OURS))
    };
    let burst: Vec<_> = (0..2000).map(op).collect();

    let outcomes = world.kernel().execute(&burst).unwrap();

    assert_eq!(outcomes.len(), 2000);
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let expected = if n % 3 == 2 {
            Err(Errno::EEXIST)
        } else {
            Ok(())
        };
        assert_eq!(outcome.map_err(|it| it.errno), expected, "operation {n}");
    }
    assert_eq!(world.made_rules(Family::V4).len(), 1334);
}

fn an_empty_burst_is_nothing<W: World>() {
    let world = W::fresh();

    assert_eq!(world.kernel().execute(&[]).unwrap(), []);
}
