//! A kernel in memory that answers like the real one, what it refuses and what it forgets to tell
//! included.
//!
//! The suite in `tests/kernel` runs every behaviour, and random lists of operations, on this kernel
//! and on the real one, and compares. What the test *asks* of the kernel goes through
//! [`Kernel`] and is written down in a [`Journal`]; what the rest of the world does
//! meanwhile goes through the methods of [`FakeNamespace`] and is not.
//!
//! Not modelled: VRFs, next-hop objects, encapsulation, routes by source (`from` in a route) and IPv6
//! next hops of IPv4 routes, which are refused with EOPNOTSUPP; link-local addresses that nobody gave;
//! carriers; the choice among legs; conditions of a rule on tunnels and groups, in lookups.
//!
//! ```
//! use nsm_netlink::fake::FakeNamespace;
//! use nsm_netlink::{Family, Kernel, Namespace, Op, Rule, Selector};
//!
//! let pod = FakeNamespace::new();
//! let rule = Rule::lookup(30000, Selector::any(Family::V4), 20000, 78);
//!
//! let mut kernel = pod.open()?;
//! kernel.execute(&[Op::AddRule(rule.clone())])?;
//!
//! assert!(pod.rules(Family::V4).contains(&rule));
//! assert_eq!(pod.journal().writes().len(), 1);
//! # Ok::<(), nsm_netlink::KernelError>(())
//! ```

mod control;
mod fib4;
mod fib6;
mod interfaces;
mod journal;
mod links;
mod listeners;
mod lookup;
mod nexthop4;
mod nexthop6;
mod request;
mod rules;
mod state;
#[cfg(test)]
mod tests;

pub use journal::{Journal, Write};
pub use listeners::FakeNotifications;
pub use lookup::{Flow, Way};

use crate::{
    Dump, Errno, Family, Kernel, KernelError, Link, Namespace, NetnsId, Op, OpKind, Refusal, Route,
    Rule,
};
use state::State;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The netlink port of the rest of the world, which comes through the methods of [`FakeNamespace`].
pub const OTHERS: u32 = 1;

/// A network namespace of the fake kernel. Clones are the same namespace.
#[derive(Debug, Clone)]
pub struct FakeNamespace {
    shared: Arc<Shared>,
}

struct Shared {
    id: NetnsId,
    state: Mutex<State>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panics while it holds the lock has failed already.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl FakeNamespace {
    /// A namespace as it is born: with the kernel's own rules, and with `lo` up.
    pub fn new() -> Self {
        // No namespace of the real kernel lies on a device of this number.
        const DEV: u64 = u64::MAX;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NetnsId {
            dev: DEV,
            ino: NEXT.fetch_add(1, Ordering::Relaxed),
        };
        Self {
            shared: Arc::new(Shared {
                id,
                state: Mutex::new(State::fresh()),
            }),
        }
    }

    /// What came in through the [`Kernel`] trait.
    pub fn journal(&self) -> Journal {
        Journal {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Default for FakeNamespace {
    fn default() -> Self {
        Self::new()
    }
}

impl Namespace for FakeNamespace {
    type Kernel = FakeKernel;
    type Notifications = FakeNotifications;

    fn id(&self) -> NetnsId {
        self.shared.id
    }

    fn open(&self) -> Result<FakeKernel, KernelError> {
        let mut state = self.shared.lock();
        state.journal.opens += 1;
        self.check(&state)?;
        // The first that is given here, one above [`OTHERS`].
        static NEXT: AtomicU32 = AtomicU32::new(OTHERS + 1);
        Ok(FakeKernel {
            shared: Arc::clone(&self.shared),
            port: NEXT.fetch_add(1, Ordering::Relaxed),
        })
    }

    fn listen(&self) -> Result<FakeNotifications, KernelError> {
        let mut state = self.shared.lock();
        self.check(&state)?;
        Ok(state.listeners.add())
    }
}

impl FakeNamespace {
    fn check(&self, state: &State) -> Result<(), KernelError> {
        if state.destroyed {
            let source = io::Error::from(Errno::ENOENT);
            return Err(KernelError::Open {
                netns: self.shared.id,
                source,
            });
        }
        Ok(())
    }
}

/// An opened [`FakeNamespace`].
#[derive(Debug)]
pub struct FakeKernel {
    shared: Arc<Shared>,
    port: u32,
}

impl Kernel for FakeKernel {
    fn execute(&mut self, burst: &[Op]) -> Result<Vec<Result<(), Refusal>>, KernelError> {
        let mut state = self.shared.lock();
        state.port = self.port;
        let write = |op: &Op| Write {
            op: op.clone(),
            outcome: state.apply(op),
        };
        let writes: Vec<_> = burst.iter().map(write).collect();
        state.port = 0;
        let outcomes = writes.iter().map(|write| write.outcome.clone()).collect();
        state.journal.bursts.push(writes);
        Ok(outcomes)
    }

    /// The rules are walked by index from one read to the next, as in the real kernel: what is
    /// deleted meanwhile makes others missing, what is added shows them twice.
    fn rules(&mut self, family: Family) -> Result<Dump<Rule>, KernelError> {
        let chunk = self.count_dump(OpKind::DumpRules);
        let mut items = Vec::new();
        let mut reads = 0;
        loop {
            let state = self.shared.lock();
            let rules = state.rules(family).list();
            let seen = items.len();
            items.extend(rules.iter().skip(seen).take(chunk).cloned());
            reads += 1;
            if items.len() >= rules.len() {
                return Ok(Dump { items, reads });
            }
            drop(state);
            self.between_reads();
        }
    }

    fn routes(
        &mut self,
        family: Family,
        tables: RangeInclusive<u32>,
    ) -> Result<Dump<Route>, KernelError> {
        let chunk = self.count_dump(OpKind::DumpRoutes);
        let routes = self.shared.lock().routes(family);
        // The whole dump is read, whatever part of it is wanted.
        let reads = u32::try_from(routes.len().div_ceil(chunk).max(1)).unwrap_or(u32::MAX);
        let items = routes
            .into_iter()
            .filter(|route| tables.contains(&route.table))
            .collect();
        Ok(Dump { items, reads })
    }

    fn links(&mut self) -> Result<Vec<Link>, KernelError> {
        self.count_dump(OpKind::DumpLinks);
        Ok(self.shared.lock().links.all().cloned().collect())
    }

    fn port(&self) -> u32 {
        self.port
    }
}

impl FakeKernel {
    fn count_dump(&self, kind: OpKind) -> usize {
        let mut state = self.shared.lock();
        *state.journal.dumps.entry(kind).or_default() += 1;
        state.chunk
    }

    fn between_reads(&self) {
        let mut state = self.shared.lock();
        if state.between_reads.is_empty() {
            return;
        }
        let meanwhile = state.between_reads.remove(0);
        drop(state);
        meanwhile();
    }
}

/// One leg of a route in a table.
#[derive(Debug, Clone)]
struct Leg {
    route: Route,
    /// Its interface went down or lost its last address, and the route lives on by its other legs.
    dead: bool,
}

impl Leg {
    fn alive(route: Route) -> Self {
        Self { route, dead: false }
    }
}

/// Where a route goes among others of its prefix and metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nowhere (`NLM_F_CREATE | NLM_F_EXCL`).
    Exclusive,
    /// Behind them (`NLM_F_CREATE | NLM_F_APPEND`).
    Append,
    /// In front of them, in IPv6 behind them (`NLM_F_CREATE`).
    Prepend,
    /// In the place of the first (`NLM_F_CREATE | NLM_F_REPLACE`).
    Replace,
}

fn refuse(errno: Errno, message: &str) -> Refusal {
    Refusal {
        errno,
        message: Some(message.to_owned()),
    }
}
