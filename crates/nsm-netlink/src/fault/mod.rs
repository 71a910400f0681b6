//! Faults over any kernel: operations that are refused, answers that are lost, processes that are
//! killed, and dumps that miss an entry.
//!
//! The [`Faults`] handle is the script; it is set from the test while the code under test holds
//! the [`Faulty`] namespace.
//!
//! ```
//! use nsm_netlink::fake::FakeNamespace;
//! use nsm_netlink::fault::{Effect, Fault, Faults, Faulty};
//! use nsm_netlink::{Errno, Family, Kernel, Namespace, Op, OpKind, Rule, Selector};
//!
//! let faults = Faults::new();
//! let pod = Faulty::new(FakeNamespace::new(), faults.clone());
//! faults.set(Fault::once(OpKind::AddRule, 2, Effect::Errno(Errno::EPERM)));
//!
//! let rule = |priority| Op::AddRule(Rule::lookup(priority, Selector::any(Family::V4), 100, 78));
//! let outcomes = pod.open()?.execute(&[rule(1), rule(2), rule(3)])?;
//!
//! assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
//! assert_eq!(outcomes[1], Err(Errno::EPERM.into()));
//! assert!(faults.unconsumed().is_empty());
//! # Ok::<(), nsm_netlink::KernelError>(())
//! ```

mod faulty;

pub use faulty::{Faulty, FaultyKernel};

use crate::{Errno, KernelError, OpKind};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The operation is refused and does not reach the kernel; those behind it do. A dump is
    /// refused as a whole.
    Errno(Errno),
    /// All is done, and the answers are lost.
    LostAck,
    /// All is done, and no answer comes in time.
    TimedOut,
    /// The socket is dead before anything is sent, and stays so; another can be opened.
    DeadSocket,
    /// The process is killed before the burst is sent. Nothing of it is done, because a burst is
    /// one `sendmsg`, which a signal does not cut short.
    KillBefore,
    /// The process is killed after the burst is sent. All of it is done.
    KillAfter,
    /// The dump takes several reads and misses the entry of this number, counted from 0.
    TornDump(usize),
}

impl Effect {
    /// A fault of a write on a dump, or the reverse, would go unnoticed: it is never hit.
    fn concerns(self, op: OpKind) -> bool {
        !matches!(self, Self::TornDump(_)) || is_dump(op)
    }
}

fn is_dump(op: OpKind) -> bool {
    !matches!(
        op,
        OpKind::AddRule | OpKind::DelRule | OpKind::AddRoute | OpKind::DelRoute
    )
}

/// How often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// At the operation that was named.
    Once,
    /// At it, and at every one of its kind behind it.
    Forever,
}

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// At which kind of operation.
    pub op: OpKind,
    /// At which of them, counted from 1 and from when the fault is set, in all namespaces together.
    pub nth: usize,
    /// How often.
    pub times: Times,
    /// What goes wrong.
    pub effect: Effect,
}

impl Fault {
    /// A fault at the `nth` operation of a kind.
    pub fn once(op: OpKind, nth: usize, effect: Effect) -> Self {
        Self {
            op,
            nth,
            times: Times::Once,
            effect,
        }
    }

    /// A fault at the `nth` operation of a kind and at all that follow.
    pub fn forever(op: OpKind, nth: usize, effect: Effect) -> Self {
        Self {
            op,
            nth,
            times: Times::Forever,
            effect,
        }
    }
}

/// Something that the rest of the world does, and when.
struct Meanwhile {
    op: OpKind,
    left: usize,
    act: Box<dyn FnOnce() + Send>,
}

#[derive(Debug)]
struct Pending {
    fault: Fault,
    seen: usize,
    hit: bool,
}

#[derive(Default)]
struct Script {
    pending: Vec<Pending>,
    meanwhile: Vec<Meanwhile>,
    killed: bool,
    /// Counts the lives of the process: what was opened in a former one is gone for good.
    life: usize,
}

/// The script of what goes wrong. Clones are the same script.
#[derive(Clone, Default)]
pub struct Faults {
    script: Arc<Mutex<Script>>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("unconsumed", &self.unconsumed())
            .finish_non_exhaustive()
    }
}

impl Faults {
    /// A script in which nothing goes wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a fault. Where several meet at one operation, the one that was set first is taken.
    pub fn set(&self, fault: Fault) {
        self.lock().pending.push(Pending {
            fault,
            seen: 0,
            hit: false,
        });
    }

    /// Does something right before the call that brings the `nth` operation of a kind: somebody
    /// else is faster.
    pub fn meanwhile(&self, op: OpKind, nth: usize, act: impl FnOnce() + Send + 'static) {
        self.lock().meanwhile.push(Meanwhile {
            op,
            left: nth,
            act: Box::new(act),
        });
    }

    /// Forgets all faults, hit or not.
    pub fn clear(&self) {
        let mut script = self.lock();
        script.pending.clear();
        script.meanwhile.clear();
    }

    /// The faults that were never hit: a test that set them has not tested what it says.
    pub fn unconsumed(&self) -> Vec<Fault> {
        let script = self.lock();
        script
            .pending
            .iter()
            .filter(|it| !it.hit)
            .map(|it| it.fault)
            .collect()
    }

    /// Whether the process was killed and not started again.
    pub fn is_killed(&self) -> bool {
        self.lock().killed
    }

    /// Starts the process again. What was opened before stays dead.
    pub fn revive(&self) {
        self.lock().killed = false;
    }

    fn kill(&self) -> KernelError {
        let mut script = self.lock();
        script.killed = true;
        script.life += 1;
        KernelError::Receive(gone())
    }

    /// Counts one operation, and tells what goes wrong with it.
    fn strike(&self, op: OpKind) -> Option<Effect> {
        let mut script = self.lock();
        let mut effect = None;
        for pending in script.pending.iter_mut().filter(|it| it.fault.op == op) {
            pending.seen += 1;
            let due = match pending.fault.times {
                Times::Once => pending.seen == pending.fault.nth,
                Times::Forever => pending.seen >= pending.fault.nth,
            };
            if due && effect.is_none() && pending.fault.effect.concerns(op) {
                pending.hit = true;
                effect = Some(pending.fault.effect);
            }
        }
        effect
    }

    /// Does what was to be done before operations of these kinds. Without the lock: what is done
    /// may well set another fault.
    fn run_meanwhile(&self, ops: impl Iterator<Item = OpKind>) {
        let mut due = Vec::new();
        let mut script = self.lock();
        for op in ops {
            for meanwhile in script.meanwhile.iter_mut().filter(|it| it.op == op) {
                meanwhile.left = meanwhile.left.saturating_sub(1);
            }
            due.extend(script.meanwhile.extract_if(.., |it| it.left == 0));
        }
        drop(script);
        for meanwhile in due {
            (meanwhile.act)();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone() -> io::Error {
    io::Error::from(Errno::ESHUTDOWN)
}
