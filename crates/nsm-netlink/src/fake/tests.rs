//! What only the fake kernel has. How it behaves as a kernel is proven in `tests/kernel`.

use super::{FakeNamespace, Write};
use crate::{Errno, Family, Kernel, KernelError, Namespace, Op, OpKind, Route, Rule, Selector};

fn rule(priority: u32) -> Rule {
    Rule::lookup(priority, Selector::any(Family::V4), 20000, 78)
}

fn pod_with_rules(priorities: std::ops::Range<u32>) -> FakeNamespace {
    let pod = FakeNamespace::new();
    for priority in priorities {
        pod.add_rule(rule(priority)).unwrap();
    }
    pod
}

fn read(pod: &FakeNamespace) -> (Vec<u32>, u32) {
    let dump = pod.open().unwrap().rules(Family::V4).unwrap();
    (
        dump.items.iter().map(|rule| rule.priority).collect(),
        dump.reads,
    )
}

#[test]
fn each_namespace_is_another_one_and_clones_are_the_same() {
    let (a, b) = (FakeNamespace::new(), FakeNamespace::new());

    assert_ne!(a.id(), b.id());
    assert_eq!(a.id(), a.clone().id());

    a.clone().add_rule(rule(1)).unwrap();
    assert_eq!(a.rules(Family::V4).len(), 4);
    assert_eq!(b.rules(Family::V4).len(), 3);
}

#[test]
fn the_journal_holds_what_was_asked_and_what_was_said() {
    let pod = FakeNamespace::new();
    pod.add_rule(rule(1)).unwrap();
    let mut kernel = pod.open().unwrap();

    kernel
        .execute(&[Op::AddRule(rule(1)), Op::AddRule(rule(2))])
        .unwrap();
    kernel.execute(&[Op::DelRule(rule(2))]).unwrap();
    kernel.rules(Family::V6).unwrap();

    let journal = pod.journal();
    assert_eq!(
        journal.bursts().iter().map(Vec::len).collect::<Vec<_>>(),
        [2, 1]
    );
    let refused = Write {
        op: Op::AddRule(rule(1)),
        outcome: Err(Errno::EEXIST.into()),
    };
    assert_eq!(journal.writes()[0], refused);
    assert_eq!((journal.opens(), journal.dumps(OpKind::DumpRules)), (1, 1));

    journal.clear();
    assert_eq!(journal.writes(), []);
}

#[test]
fn a_rule_that_goes_between_two_reads_makes_another_missing() {
    let pod = pod_with_rules(1..9);
    pod.limit_reads(4);
    let world = pod.clone();
    pod.between_reads(move || world.delete_rule(&rule(1)).unwrap());

    let (torn, reads) = read(&pod);

    assert_eq!(torn, [0, 1, 2, 3, 5, 6, 7, 8, 32766, 32767]);
    assert_eq!(reads, 3);
    assert_eq!(read(&pod).0, [0, 2, 3, 4, 5, 6, 7, 8, 32766, 32767]);
}

#[test]
fn a_rule_that_comes_between_two_reads_shows_another_twice() {
    let pod = pod_with_rules(2..6);
    pod.limit_reads(3);
    let world = pod.clone();
    pod.between_reads(move || world.add_rule(rule(1)).unwrap());

    assert_eq!(read(&pod).0, [0, 2, 3, 3, 4, 5, 32766, 32767]);
}

#[test]
fn a_destroyed_namespace_cannot_be_opened() {
    let pod = FakeNamespace::new();
    pod.destroy();

    assert!(matches!(pod.open(), Err(KernelError::Open { .. })));
}

#[test]
fn what_the_world_does_is_no_write_but_an_event() {
    let pod = FakeNamespace::new();
    let index = pod.add_link("nsm-0").unwrap();
    pod.set_up(index).unwrap();
    pod.drain_events();

    let prefix = Family::V4.default_prefix();
    pod.add_route(Route::unicast(20000, prefix, index, None, 4))
        .unwrap();

    assert_eq!(pod.journal().writes(), []);
    assert_eq!(pod.drain_events().len(), 1);
    assert_eq!(pod.drain_events(), []);
}
