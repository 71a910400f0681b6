//! What the element asks of the kernel, one asking after the other.

use crate::twist::{Side, Twist, Twists};
use nsm_netlink::fault::Times;
use nsm_netlink::{
    Dump, Family, Kernel, KernelError, Link, Namespace, NetnsId, Op, OpKind, Refusal, Route, Rule,
};
use policyroute_suite::OWNER;
use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One asking.
#[derive(Debug, Clone)]
pub enum Asking {
    /// The namespace is opened.
    Open,
    /// Something is read.
    Dump {
        /// What.
        kind: OpKind,
        /// Of which family; links have none.
        family: Option<Family>,
        /// The entries that matter to the element, with their places in the dump.
        shown: Vec<(usize, String)>,
    },
    /// Operations are sent as one message. Each with whether the kernel did it.
    Burst(Vec<(Op, bool)>),
}

impl Asking {
    /// Whether it is sent to the kernel.
    pub fn is_sent(&self) -> bool {
        !matches!(self, Self::Open)
    }
}

#[derive(Debug, Default)]
struct State {
    asked: Vec<(usize, Asking)>,
    opened: usize,
    twists: Twists,
}

/// The journal of one world. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<State>>);

impl Journal {
    /// What was asked since the last call, with the number of the pod.
    pub fn take(&self) -> Vec<(usize, Asking)> {
        std::mem::take(&mut self.state().asked)
    }

    /// How many sockets are open.
    pub fn opened(&self) -> usize {
        self.state().opened
    }

    /// Lets something happen at the `nth` asking of its kind in a pod, counted from now.
    pub fn twist(&self, pod: usize, nth: usize, times: Times, twist: Twist) {
        self.state().twists.add(pod, nth, times, twist);
    }

    /// The twists that nobody has met.
    pub fn unmet(&self) -> Vec<Twist> {
        self.state().twists.unmet()
    }

    /// Forgets all twists.
    pub fn untwist(&self) {
        self.state().twists.clear();
    }

    /// Kills this process at the `nth` send, counted from now.
    pub fn die_at(&self, nth: usize, side: Side) {
        self.state().twists.die_at(nth, side);
    }

    fn ask(&self, pod: usize, asking: Asking) {
        self.state().asked.push((pod, asking));
    }

    /// Sends something, unless the process dies over it.
    fn send<T>(&self, send: impl FnOnce() -> T) -> T {
        self.state().twists.before_a_send();
        let answer = send();
        self.state().twists.after_a_send();
        answer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A namespace of which a journal is kept.
#[derive(Debug)]
pub struct Journalled<N> {
    inner: Arc<N>,
    journal: Journal,
    pod: usize,
}

impl<N> Journalled<N> {
    /// Keeps a journal of a namespace: that of the pod of this number.
    pub fn new(inner: Arc<N>, journal: Journal, pod: usize) -> Self {
        Self {
            inner,
            journal,
            pod,
        }
    }
}

impl<N: Namespace> Namespace for Journalled<N> {
    type Kernel = JournalledKernel<N::Kernel>;
    type Notifications = N::Notifications;

    fn id(&self) -> NetnsId {
        self.inner.id()
    }

    fn open(&self) -> Result<Self::Kernel, KernelError> {
        self.journal.ask(self.pod, Asking::Open);
        let closed = self.journal.state().twists.closed(self.pod);
        if let Some(errno) = closed {
            let (netns, source) = (self.id(), io::Error::from(errno));
            return Err(KernelError::Open { netns, source });
        }
        let inner = self.inner.open()?;
        self.journal.state().opened += 1;
        Ok(JournalledKernel {
            inner,
            journal: self.journal.clone(),
            pod: self.pod,
        })
    }

    fn listen(&self) -> Result<N::Notifications, KernelError> {
        self.inner.listen()
    }
}

/// An opened [`Journalled`].
#[derive(Debug)]
pub struct JournalledKernel<K> {
    inner: K,
    journal: Journal,
    pod: usize,
}

impl<K> Drop for JournalledKernel<K> {
    fn drop(&mut self) {
        self.journal.state().opened -= 1;
    }
}

impl<K: Kernel> JournalledKernel<K> {
    fn dump<T>(
        &mut self,
        kind: OpKind,
        family: Option<Family>,
        ask: impl FnOnce(&mut K) -> Result<T, KernelError>,
        shown: impl FnOnce(&T) -> Vec<(usize, String)>,
        repeat: impl FnOnce(&mut T, usize),
    ) -> Result<T, KernelError> {
        let mut answer = self.journal.send(|| ask(&mut self.inner));
        let shown = answer.as_ref().map(shown).unwrap_or_default();
        let asking = Asking::Dump {
            kind,
            family,
            shown,
        };
        self.journal.ask(self.pod, asking);
        let twice = self.journal.state().twists.twice(self.pod, kind);
        if let (Ok(dump), Some(at)) = (&mut answer, twice) {
            repeat(dump, at);
        }
        answer
    }
}

impl<K: Kernel> Kernel for JournalledKernel<K> {
    fn execute(&mut self, burst: &[Op]) -> Result<Vec<Result<(), Refusal>>, KernelError> {
        let answer = self.journal.send(|| self.inner.execute(burst));
        let done = |at: usize| answer.as_ref().is_ok_and(|outcomes| outcomes[at].is_ok());
        let ops = burst
            .iter()
            .enumerate()
            .map(|(at, op)| (op.clone(), done(at)));
        let asking = Asking::Burst(ops.collect());
        self.journal.ask(self.pod, asking);
        answer
    }

    fn rules(&mut self, family: Family) -> Result<Dump<Rule>, KernelError> {
        let matters = |rule: &Rule| {
            rule.protocol == OWNER.protocol.get() || OWNER.tables.contains(rule.table)
        };
        self.dump(
            OpKind::DumpRules,
            Some(family),
            |kernel| kernel.rules(family),
            |dump| shown(&dump.items, matters, Rule::to_string),
            repeat,
        )
    }

    fn routes(
        &mut self,
        family: Family,
        tables: RangeInclusive<u32>,
    ) -> Result<Dump<Route>, KernelError> {
        self.dump(
            OpKind::DumpRoutes,
            Some(family),
            |kernel| kernel.routes(family, tables),
            |dump| {
                shown(
                    &dump.items,
                    |_| true,
                    |route| route.display(|_| None).to_string(),
                )
            },
            repeat,
        )
    }

    fn links(&mut self) -> Result<Vec<Link>, KernelError> {
        self.dump(
            OpKind::DumpLinks,
            None,
            |kernel| kernel.links(),
            |links| shown(links, |_| true, |link| link.name.clone()),
            |links, at| {
                if let Some(link) = links.get(at).cloned() {
                    links.insert(at, link);
                }
            },
        )
    }

    fn port(&self) -> u32 {
        self.inner.port()
    }
}

fn shown<T>(
    items: &[T],
    matters: impl Fn(&T) -> bool,
    text: impl Fn(&T) -> String,
) -> Vec<(usize, String)> {
    let items = items.iter().enumerate().filter(|(_, item)| matters(item));
    items.map(|(at, item)| (at, text(item))).collect()
}

fn repeat<T: Clone>(dump: &mut Dump<T>, at: usize) {
    if let Some(item) = dump.items.get(at).cloned() {
        dump.items.insert(at, item);
    }
    dump.reads = dump.reads.max(2);
}
