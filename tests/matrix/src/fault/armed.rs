//! Lets a cell go wrong in a world.

use super::cell::{Cell, Wrong};
use crate::operation::What;
use crate::twist::Twist;
use crate::world::World;
use nsm_netlink::fault::{Effect, Fault};
use nsm_netlink::{Errno, Op, OpKind, Placement, Route};
use policyroute_suite::{Machine, Pod};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What was set up for a cell.
#[derive(Debug, Default)]
pub struct Armed {
    /// Whether somebody else has done what he was to do meanwhile.
    met: Option<Arc<AtomicBool>>,
    /// A fault that is met only where there is something to be taken back.
    undo: Option<Fault>,
    /// A route that somebody else adds meanwhile, and in which pod.
    pub guest: Option<(usize, Route)>,
}

impl Armed {
    /// Lets a cell go wrong from now on.
    pub fn new<M: Machine>(cell: &Cell, world: &World<M>) -> Self {
        let (number, nth, times) = (cell.operation.pod, cell.operation.nth, cell.times);
        let pod = &world.pods[number];
        let mut armed = Self::default();
        let twist = |twist| world.journal.twist(number, nth, times, twist);
        let Some(op) = cell.operation.kind() else {
            if let Wrong::Refused(errno) = cell.wrong {
                twist(Twist::Closed(errno));
            }
            return armed;
        };
        let fault = |effect| {
            pod.faults.set(Fault {
                op,
                nth,
                times,
                effect,
            })
        };
        match &cell.wrong {
            Wrong::Refused(errno) => fault(Effect::Errno(*errno)),
            Wrong::AnswersLost => fault(Effect::LostAck),
            Wrong::TimedOut => fault(Effect::TimedOut),
            Wrong::SocketDead => fault(Effect::DeadSocket),
            Wrong::Missing(at, _) => fault(Effect::TornDump(*at)),
            Wrong::Twice(at, _) => twist(Twist::Twice(op, *at)),
            Wrong::AndTheUndo(kind, effect) => {
                fault(Effect::Errno(Errno::EPERM));
                let undo = match effect {
                    Effect::Errno(_) => Fault::forever(*kind, 1, *effect),
                    _ => Fault::once(*kind, 1, *effect),
                };
                pod.faults.set(undo);
                armed.undo = Some(undo);
            }
            Wrong::Faster => {
                if let What::Write { op: write, .. } = &cell.operation.what {
                    armed.meanwhile(pod, op, nth, write.clone());
                }
            }
            Wrong::Taken => {
                if let What::Write {
                    op: Op::AddRoute(ours, _),
                    ..
                } = &cell.operation.what
                {
                    let theirs = in_the_way(pod, ours);
                    armed.guest = Some((number, theirs.clone()));
                    armed.meanwhile(pod, op, nth, Op::AddRoute(theirs, Placement::Exclusive));
                }
            }
        }
        armed
    }

    fn meanwhile<M: Machine>(&mut self, pod: &Pod<M>, kind: OpKind, nth: usize, op: Op) {
        let met = Arc::new(AtomicBool::new(false));
        self.met = Some(Arc::clone(&met));
        let there = pod.clone();
        pod.faults.meanwhile(kind, nth, move || {
            match &op {
                Op::AddRule(rule) => there.add_rule(rule),
                Op::DelRule(rule) => there.delete_rule(rule),
                Op::AddRoute(route, Placement::Exclusive) => there.add_route(route),
                Op::AddRoute(route, Placement::Append) => there.append_route(route),
                Op::DelRoute(route) => there.delete_route(route),
            }
            met.store(true, Ordering::Relaxed);
        });
    }

    /// Whether nobody has met what was set up.
    pub fn is_unmet<M: Machine>(&self, world: &World<M>) -> bool {
        let unmet = |pod: &Pod<M>| {
            let mut faults = pod.faults.unconsumed().into_iter();
            faults.any(|fault| Some(fault) != self.undo)
        };
        self.met
            .as_ref()
            .is_some_and(|met| !met.load(Ordering::Relaxed))
            || !world.journal.unmet().is_empty()
            || world.pods.iter().any(unmet)
    }
}

/// A route of somebody else that stands in the way of one of ours.
fn in_the_way<M: Machine>(pod: &Pod<M>, ours: &Route) -> Route {
    const STATIC: u8 = 4;
    let route = Route::unicast(ours.table, ours.prefix, pod.dev("eth0"), None, STATIC);
    Route {
        metric: ours.metric,
        ..route
    }
}
