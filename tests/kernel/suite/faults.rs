//! Faults and counts over either kernel.

use crate::World;
use crate::objects::{TABLE, exclusive, on_link, rule};
use crate::world::V0;
use nsm_netlink::counted::{Counted, Counter};
use nsm_netlink::fault::{Effect, Fault, Faults, Faulty};
use nsm_netlink::{Errno, Family, Kernel, KernelError, Namespace, Op, OpKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

crate::behaviours!(
    a_refused_operation_is_not_passed_on_and_those_behind_it_run,
    a_fault_counts_from_when_it_is_set,
    a_fault_forever_hits_all_that_follow,
    a_lost_answer_leaves_all_done,
    an_answer_out_of_time_leaves_all_done,
    a_kill_before_leaves_nothing_done_and_nothing_alive,
    a_kill_after_leaves_all_done_and_nothing_alive,
    what_was_opened_before_a_kill_stays_dead,
    a_dead_socket_stays_dead_and_another_can_be_opened,
    a_refused_dump_is_an_error,
    a_torn_dump_misses_an_entry_and_took_several_reads,
    a_fault_that_fits_no_operation_is_never_hit,
    somebody_can_be_faster,
    operations_are_counted_by_kind,
);

const V4: Family = Family::V4;

fn faulty<W: World>() -> (Faulty<W>, Faults) {
    let faults = Faults::new();
    (Faulty::new(W::pod(), faults.clone()), faults)
}

fn rules(numbers: std::ops::Range<u32>) -> Vec<Op> {
    numbers
        .map(|number| Op::AddRule(rule(V4, number, TABLE)))
        .collect()
}

fn numbers<W: World>(pod: &Faulty<W>) -> Vec<u32> {
    pod.inner()
        .made_rules(V4)
        .iter()
        .map(|rule| rule.priority)
        .collect()
}

fn a_refused_operation_is_not_passed_on_and_those_behind_it_run<W: World>() {
    let (pod, faults) = faulty::<W>();
    faults.set(Fault::once(OpKind::AddRule, 2, Effect::Errno(Errno::EPERM)));

    let outcomes = pod.open().unwrap().execute(&rules(1..4)).unwrap();

    assert_eq!(outcomes, [Ok(()), Err(Errno::EPERM.into()), Ok(())]);
    assert_eq!(numbers(&pod), [1, 3]);
    assert_eq!(faults.unconsumed(), []);
}

fn a_fault_counts_from_when_it_is_set<W: World>() {
    let (pod, faults) = faulty::<W>();
    let mut kernel = pod.open().unwrap();
    kernel.execute(&rules(1..3)).unwrap();
    let fault = Fault::once(OpKind::AddRule, 2, Effect::Errno(Errno::EPERM));
    faults.set(fault);

    kernel.execute(&[exclusive(&on_link(V4, V0))]).unwrap();
    kernel.execute(&rules(3..4)).unwrap();
    assert_eq!(faults.unconsumed(), [fault]);

    let outcomes = kernel.execute(&rules(4..6)).unwrap();
    assert_eq!(outcomes, [Err(Errno::EPERM.into()), Ok(())]);
}

fn a_fault_forever_hits_all_that_follow<W: World>() {
    let (pod, faults) = faulty::<W>();
    faults.set(Fault::forever(
        OpKind::AddRule,
        2,
        Effect::Errno(Errno::ENOBUFS),
    ));
    let mut kernel = pod.open().unwrap();

    kernel.execute(&rules(1..4)).unwrap();
    kernel.execute(&rules(4..6)).unwrap();
    assert_eq!(numbers(&pod), [1]);

    faults.clear();
    kernel.execute(&rules(6..7)).unwrap();
    assert_eq!(numbers(&pod), [1, 6]);
}

fn a_lost_answer_leaves_all_done<W: World>() {
    let (pod, faults) = faulty::<W>();
    faults.set(Fault::once(OpKind::AddRule, 1, Effect::LostAck));

    let outcome = pod.open().unwrap().execute(&rules(1..4));

    assert!(matches!(outcome, Err(KernelError::AnswersLost)));
    assert_eq!(numbers(&pod), [1, 2, 3]);
}

fn an_answer_out_of_time_leaves_all_done<W: World>() {
    let (pod, faults) = faulty::<W>();
    faults.set(Fault::once(OpKind::AddRule, 1, Effect::TimedOut));

    let outcome = pod.open().unwrap().execute(&rules(1..4));

    assert!(matches!(outcome, Err(KernelError::TimedOut)));
    assert_eq!(numbers(&pod), [1, 2, 3]);
}

fn a_kill_before_leaves_nothing_done_and_nothing_alive<W: World>() {
    let (pod, faults) = faulty::<W>();
    faults.set(Fault::once(OpKind::AddRule, 2, Effect::KillBefore));
    let mut kernel = pod.open().unwrap();

    assert!(kernel.execute(&rules(1..4)).is_err());

    assert!(faults.is_killed());
    assert!(kernel.rules(V4).is_err());
    assert!(pod.open().is_err());
    assert_eq!(numbers(&pod), []);
}

fn a_kill_after_leaves_all_done_and_nothing_alive<W: World>() {
    let (pod, faults) = faulty::<W>();
    faults.set(Fault::once(OpKind::AddRule, 2, Effect::KillAfter));
    let mut kernel = pod.open().unwrap();

    assert!(kernel.execute(&rules(1..4)).is_err());

    assert!(kernel.execute(&rules(4..5)).is_err());
    assert_eq!(numbers(&pod), [1, 2, 3]);
}

fn what_was_opened_before_a_kill_stays_dead<W: World>() {
    let (pod, faults) = faulty::<W>();
    faults.set(Fault::once(OpKind::AddRule, 1, Effect::KillAfter));
    let mut old = pod.open().unwrap();
    assert!(old.execute(&rules(1..2)).is_err());

    faults.revive();

    assert!(old.links().is_err());
    assert!(pod.open().unwrap().execute(&rules(2..3)).is_ok());
    assert_eq!(numbers(&pod), [1, 2]);
}

fn a_dead_socket_stays_dead_and_another_can_be_opened<W: World>() {
    let (pod, faults) = faulty::<W>();
    faults.set(Fault::once(OpKind::AddRule, 1, Effect::DeadSocket));
    let mut kernel = pod.open().unwrap();

    let outcome = kernel.execute(&rules(1..2));

    assert!(outcome.is_err_and(|error| error.is_transient()));
    assert!(kernel.rules(V4).is_err());
    assert!(pod.open().unwrap().execute(&rules(2..3)).is_ok());
    assert_eq!(numbers(&pod), [2]);
}

fn a_refused_dump_is_an_error<W: World>() {
    let (pod, faults) = faulty::<W>();
    for kind in [OpKind::DumpRules, OpKind::DumpRoutes, OpKind::DumpLinks] {
        faults.set(Fault::once(kind, 1, Effect::Errno(Errno::EPERM)));
    }
    let mut kernel = pod.open().unwrap();

    let errors = [
        kernel.rules(V4).err(),
        kernel.routes(V4, crate::world::ALL).err(),
        kernel.links().err(),
    ];

    assert!(
        errors
            .iter()
            .flatten()
            .all(|error| error.errno() == Some(Errno::EPERM))
    );
    assert_eq!(faults.unconsumed(), []);
}

fn a_torn_dump_misses_an_entry_and_took_several_reads<W: World>() {
    let (pod, faults) = faulty::<W>();
    faults.set(Fault::once(OpKind::DumpRules, 1, Effect::TornDump(1)));
    let mut kernel = pod.open().unwrap();

    let torn = kernel.rules(V4).unwrap();
    let whole = kernel.rules(V4).unwrap();

    assert_eq!(torn.reads, 2);
    assert_eq!(torn.items, [whole.items[0].clone(), whole.items[2].clone()]);
}

fn a_fault_that_fits_no_operation_is_never_hit<W: World>() {
    let (pod, faults) = faulty::<W>();
    let fault = Fault::once(OpKind::AddRule, 1, Effect::TornDump(0));
    faults.set(fault);

    assert!(pod.open().unwrap().execute(&rules(1..2)).unwrap()[0].is_ok());

    assert_eq!(faults.unconsumed(), [fault]);
}

fn somebody_can_be_faster<W: World>() {
    let faults = Faults::new();
    let world = Arc::new(W::pod());
    let pod = Faulty::new(Shared(Arc::clone(&world)), faults.clone());
    let was_first = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&was_first);
    faults.meanwhile(OpKind::AddRule, 2, move || {
        world.must(rules(2..3));
        flag.store(true, Ordering::Relaxed);
    });

    let outcomes = pod.open().unwrap().execute(&rules(1..4)).unwrap();

    assert!(was_first.load(Ordering::Relaxed));
    assert_eq!(
        outcomes[1].as_ref().map_err(|it| it.errno),
        Err(Errno::EEXIST)
    );
}

/// A namespace that the world and the one under test hold together.
struct Shared<W>(Arc<W>);

impl<W: World> Namespace for Shared<W> {
    type Kernel = W::Kernel;
    type Notifications = W::Notifications;

    fn id(&self) -> nsm_netlink::NetnsId {
        self.0.id()
    }

    fn open(&self) -> Result<Self::Kernel, KernelError> {
        self.0.open()
    }

    fn listen(&self) -> Result<Self::Notifications, KernelError> {
        self.0.listen()
    }
}

fn operations_are_counted_by_kind<W: World>() {
    let counter = Counter::new();
    let pod = Counted::new(W::pod(), counter.clone());
    let mut kernel = pod.open().unwrap();

    kernel.execute(&rules(1..4)).unwrap();
    kernel
        .execute(&[Op::DelRule(rule(V4, 1, TABLE)), exclusive(&on_link(V4, V0))])
        .unwrap();
    kernel.rules(V4).unwrap();
    kernel.routes(V4, crate::world::ALL).unwrap();

    let counts = counter.take();
    assert_eq!((counts.opens, counts.bursts), (1, 2));
    assert_eq!((counts.writes(), counts.dumps()), (5, 2));
    assert_eq!(counts.of(OpKind::AddRule), 3);
    assert_eq!(counter.take().writes(), 0);
}
