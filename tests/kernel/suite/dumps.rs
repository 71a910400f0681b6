//! Dumps: complete, in order, and of the tables that are asked for.

use crate::World;
use crate::objects::{OURS, TABLE, exclusive, neighbour, on_link, rule, via};
use crate::world::{ALL, V0};
use nsm_netlink::{Family, Kernel, Op, Route, Rule, Selector};
use std::sync::atomic::{AtomicBool, Ordering};

crate::behaviours!(
    thousands_of_rules_are_dumped_completely,
    thousands_of_routes_are_dumped_completely,
    a_pods_rules_take_one_read,
    a_dump_that_misses_rules_took_several_reads,
    routes_are_dumped_by_range_of_tables,
    a_table_that_does_not_exist_is_empty,
    tables_are_dumped_by_the_low_byte_of_their_number,
);

const MANY: u32 = 3100;

fn thousands_of_rules_are_dumped_completely<W: World>() {
    let world = W::fresh();
    let rules: Vec<Rule> = (0..MANY)
        .map(|n| Rule::lookup(1000 + n, Selector::any(Family::V4), TABLE, OURS))
        .collect();
    let ops: Vec<_> = rules.iter().cloned().map(Op::AddRule).collect();

    let outcomes = world.kernel().execute(&ops).unwrap();

    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(world.made_rules(Family::V4), rules);
}

fn thousands_of_routes_are_dumped_completely<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let route = |n| {
            let prefix = match family {
                Family::V4 => format!("10.{}.{}.0/24", n / 256, n % 256),
                Family::V6 => format!("fd77:{n:x}::/32"),
            };
            Route {
                prefix: crate::objects::net(&prefix),
                ..on_link(family, V0)
            }
        };
        let routes: Vec<Route> = (0..MANY).map(route).collect();
        let ops: Vec<_> = routes.iter().map(exclusive).collect();

        let outcomes = world.kernel().execute(&ops).unwrap();

        assert!(outcomes.iter().all(Result::is_ok));
        assert_eq!(world.made_routes(family), routes);
    }
}

fn a_pods_rules_take_one_read<W: World>() {
    let world = W::fresh();
    for family in Family::ALL {
        let ops: Vec<_> = (0..100)
            .map(|n| Op::AddRule(rule(family, 100 + n, TABLE)))
            .collect();
        world.kernel().execute(&ops).unwrap();

        assert_eq!(world.kernel().rules(family).unwrap().reads, 1);
    }
}

/// So many go between two reads that nothing comes after the first.
fn a_dump_that_misses_rules_took_several_reads<W: World>() {
    let world = W::fresh();
    let stay: Vec<Rule> = (0..200)
        .map(|n| rule(Family::V4, 1000 + n, TABLE))
        .collect();
    let come_and_go: Vec<Rule> = (1..400).map(|n| rule(Family::V4, n, TABLE)).collect();
    world.must(stay.iter().cloned().map(Op::AddRule));
    let (mut writer, mut reader) = (world.kernel(), world.kernel());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let add: Vec<_> = come_and_go.iter().cloned().map(Op::AddRule).collect();
            let delete: Vec<_> = come_and_go.iter().cloned().map(Op::DelRule).collect();
            while !is_over.load(Ordering::Relaxed) {
                writer.execute(&add).unwrap();
                writer.execute(&delete).unwrap();
            }
        });
        let torn = (0..2000)
            .map(|_| reader.rules(Family::V4).unwrap())
            .find(|dump| dump.reads == 1 && !stay.iter().all(|rule| dump.items.contains(rule)));
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(torn.map(|dump| dump.items.len()), None);
    });
}

fn routes_are_dumped_by_range_of_tables<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        let route = |table| Route {
            table,
            ..via(family, V0, neighbour(family, 1, 1))
        };
        world.must([TABLE - 1, TABLE, TABLE + 5, TABLE + 6].map(|table| exclusive(&route(table))));
        let tables = |range| -> Vec<_> {
            let dump = world.kernel().routes(family, range).unwrap();
            dump.items.iter().map(|route| route.table).collect()
        };

        assert_eq!(tables(TABLE..=TABLE + 5), [TABLE, TABLE + 5]);
        assert_eq!(tables(TABLE..=TABLE), [TABLE]);
        assert!(tables(ALL).contains(&254));
    }
}

fn a_table_that_does_not_exist_is_empty<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        assert_eq!(
            world.kernel().routes(family, TABLE..=TABLE).unwrap().items,
            []
        );
    }
}

/// And the newest of one byte first.
fn tables_are_dumped_by_the_low_byte_of_their_number<W: World>() {
    let world = W::pod();
    for family in Family::ALL {
        for table in [20, 10, 256 + 10, 512 + 5] {
            world.must([exclusive(&Route {
                table,
                ..on_link(family, V0)
            })]);
        }

        let tables: Vec<_> = world
            .made_routes(family)
            .iter()
            .map(|route| route.table)
            .collect();
        assert_eq!(tables, [517, 266, 10, 20]);
    }
}
