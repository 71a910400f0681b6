//! Counts what is asked of any kernel.

use crate::{
    Dump, Family, Kernel, KernelError, Link, Namespace, NetnsId, Op, OpKind, Refusal, Route, Rule,
};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often a namespace was opened.
    pub opens: usize,
    /// How often it was listened to.
    pub listens: usize,
    /// How many bursts were sent.
    pub bursts: usize,
    /// Operations and dumps, by their kind.
    pub operations: BTreeMap<OpKind, usize>,
}

impl Counts {
    /// How many operations or dumps of a kind there were.
    pub fn of(&self, kind: OpKind) -> usize {
        self.operations.get(&kind).copied().unwrap_or(0)
    }

    /// How many operations there were that write, refused ones too.
    pub fn writes(&self) -> usize {
        [
            OpKind::AddRule,
            OpKind::DelRule,
            OpKind::AddRoute,
            OpKind::DelRoute,
        ]
        .into_iter()
        .map(|kind| self.of(kind))
        .sum()
    }

    /// How many dumps there were.
    pub fn dumps(&self) -> usize {
        self.operations.values().sum::<usize>() - self.writes()
    }
}

/// The counts of the namespaces that were wrapped with it. Clones are the same counts.
#[derive(Debug, Clone, Default)]
pub struct Counter {
    counts: Arc<Mutex<Counts>>,
}

impl Counter {
    /// A counter at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the counts and begins at zero again.
    pub fn take(&self) -> Counts {
        std::mem::take(&mut self.lock())
    }

    fn count(&self, kind: OpKind) {
        *self.lock().operations.entry(kind).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A namespace that counts what is asked of its kernel.
#[derive(Debug, Clone)]
pub struct Counted<N> {
    inner: N,
    counter: Counter,
}

impl<N> Counted<N> {
    /// Wraps a namespace. One counter may serve several namespaces.
    pub fn new(inner: N, counter: Counter) -> Self {
        Self { inner, counter }
    }

    /// The namespace inside.
    pub fn inner(&self) -> &N {
        &self.inner
    }
}

impl<N: Namespace> Namespace for Counted<N> {
    type Kernel = CountedKernel<N::Kernel>;
    type Notifications = N::Notifications;

    fn id(&self) -> NetnsId {
        self.inner.id()
    }

    fn open(&self) -> Result<Self::Kernel, KernelError> {
        self.counter.lock().opens += 1;
        Ok(CountedKernel {
            inner: self.inner.open()?,
            counter: self.counter.clone(),
        })
    }

    fn listen(&self) -> Result<N::Notifications, KernelError> {
        self.counter.lock().listens += 1;
        self.inner.listen()
    }
}

/// An opened [`Counted`].
#[derive(Debug)]
pub struct CountedKernel<K> {
    inner: K,
    counter: Counter,
}

impl<K: Kernel> Kernel for CountedKernel<K> {
    fn execute(&mut self, burst: &[Op]) -> Result<Vec<Result<(), Refusal>>, KernelError> {
        self.counter.lock().bursts += 1;
        for op in burst {
            self.counter.count(op.kind());
        }
        self.inner.execute(burst)
    }

    fn rules(&mut self, family: Family) -> Result<Dump<Rule>, KernelError> {
        self.counter.count(OpKind::DumpRules);
        self.inner.rules(family)
    }

    fn routes(
        &mut self,
        family: Family,
        tables: RangeInclusive<u32>,
    ) -> Result<Dump<Route>, KernelError> {
        self.counter.count(OpKind::DumpRoutes);
        self.inner.routes(family, tables)
    }

    fn links(&mut self) -> Result<Vec<Link>, KernelError> {
        self.counter.count(OpKind::DumpLinks);
        self.inner.links()
    }

    fn port(&self) -> u32 {
        self.inner.port()
    }
}
