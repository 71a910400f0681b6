use super::*;
use crate::demo::state::PROTOCOL;
use nsm_netlink::{Family, Rule, Selector};

fn row(table: u32) -> Row {
    Row {
        rule: Rule::lookup(31745, Selector::any(Family::V4), table, PROTOCOL),
        route: "default dev nsm-0".to_owned(),
    }
}

/// Makes something wrong.
type Wrong = fn(&mut Findings);

fn all_well() -> Findings {
    let served = Sums {
        asked: 10,
        right: 10,
        ..Sums::default()
    };
    let rows: Vec<_> = (20000..20004).map(row).collect();
    Findings {
        before: rows.clone(),
        after: rows,
        strayed: 0,
        returns: vec![SOON; 20],
        rule_events: 0,
        // Nobody answers while the forwarder is away.
        killed: Sums {
            refused: 3,
            by_node: 2,
            right: 5,
            ..served
        },
        rolled: served,
        rolled_events: 0,
        left: 0,
        ends: Vec::new(),
    }
}

#[test]
fn gaps_while_the_forwarder_is_away_are_no_fault() {
    assert_eq!(all_well().faults(), [""; 0]);
}

#[test]
fn everything_that_is_not_as_it_should_be_is_a_fault() {
    let wrongs: [(&str, Wrong); 12] = [
        ("3 rules at first", |it| {
            it.before.pop();
        }),
        ("other rules after 1 restarts", |it| it.strayed = 1),
        ("other rules than before", |it| it.after[0].rule.table = 1),
        ("other rules than before", |it| it.after[0].route.clear()),
        ("2 rule events", |it| it.rule_events = 2),
        ("back after 1.001s", |it| {
            it.returns[7] += Duration::from_millis(1);
        }),
        ("1 answers by another", |it| it.killed.wrong = 1),
        ("1 lost and 0 refused", |it| it.rolled.asked += 1),
        ("0 lost and 1 refused", |it| it.rolled.refused = 1),
        ("no traffic in the roll-out", |it| {
            it.rolled = Sums::default();
        }),
        ("1 events in the roll-out", |it| it.rolled_events = 1),
        ("1 rules and interfaces left", |it| it.left = 1),
    ];
    for (words, wrong) in wrongs {
        let mut findings = all_well();
        wrong(&mut findings);
        let faults = findings.faults();
        assert!(
            faults.iter().any(|it| it.contains(words)),
            "{words}: {faults:?}"
        );
    }
}
