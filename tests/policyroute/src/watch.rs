use nsm_netlink::fake::Write;
use nsm_netlink::{
    Dump, Errno, Family, Kernel, KernelError, Link, Namespace, NetnsId, Op, Refusal, Route, Rule,
};
use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has reached the kernel of a [`Watched`] namespace, and what is wrong with that kernel.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bursts: Vec<Vec<Write>>,
    forget: Option<fn(&mut Rule)>,
    locked: Option<Errno>,
    deaf: Option<Errno>,
}

impl Watch {
    /// The bursts since the last call, with what became of each operation.
    pub fn bursts(&self) -> Vec<Vec<Write>> {
        std::mem::take(&mut self.state().bursts)
    }

    /// The operations since the last call.
    pub fn writes(&self) -> Vec<Write> {
        self.bursts().into_iter().flatten().collect()
    }

    /// The kernel is older than some field of rules: it does not see it in what it is sent.
    pub fn forget(&self, field: fn(&mut Rule)) {
        self.state().forget = Some(field);
    }

    /// The namespace cannot be opened any more.
    pub fn lock_out(&self, errno: Errno) {
        self.state().locked = Some(errno);
    }

    /// The namespace can be opened again.
    pub fn let_in(&self) {
        self.state().locked = None;
    }

    /// The namespace gives nobody notifications any more who has none yet.
    pub fn deafen(&self, errno: Errno) {
        self.state().deaf = Some(errno);
    }

    /// The namespace gives notifications again.
    pub fn let_hear(&self) {
        self.state().deaf = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A namespace with a [`Watch`] right above its kernel.
#[derive(Debug)]
pub struct Watched<N> {
    inner: Arc<N>,
    watch: Watch,
}

impl<N> Watched<N> {
    /// Watches a namespace.
    pub fn new(inner: Arc<N>, watch: Watch) -> Self {
        Self { inner, watch }
    }
}

impl<N: Namespace> Namespace for Watched<N> {
    type Kernel = WatchedKernel<N::Kernel>;
    type Notifications = N::Notifications;

    fn id(&self) -> NetnsId {
        self.inner.id()
    }

    fn open(&self) -> Result<Self::Kernel, KernelError> {
        self.check(None)?;
        Ok(WatchedKernel {
            inner: self.inner.open()?,
            watch: self.watch.clone(),
        })
    }

    fn listen(&self) -> Result<N::Notifications, KernelError> {
        let deaf = self.watch.state().deaf;
        self.check(deaf)?;
        self.inner.listen()
    }
}

impl<N: Namespace> Watched<N> {
    fn check(&self, reason: Option<Errno>) -> Result<(), KernelError> {
        if let Some(errno) = self.watch.state().locked.or(reason) {
            return Err(KernelError::Open {
                netns: self.inner.id(),
                source: io::Error::from(errno),
            });
        }
        Ok(())
    }
}

/// An opened [`Watched`].
#[derive(Debug)]
pub struct WatchedKernel<K> {
    inner: K,
    watch: Watch,
}

impl<K: Kernel> Kernel for WatchedKernel<K> {
    fn execute(&mut self, burst: &[Op]) -> Result<Vec<Result<(), Refusal>>, KernelError> {
        let mut seen = burst.to_vec();
        if let Some(forget) = self.watch.state().forget {
            for op in &mut seen {
                if let Op::AddRule(rule) | Op::DelRule(rule) = op {
                    forget(rule);
                }
            }
        }
        let outcomes = self.inner.execute(&seen)?;
        let writes = seen.into_iter().zip(outcomes.clone());
        let writes = writes.map(|(op, outcome)| Write { op, outcome });
        self.watch.state().bursts.push(writes.collect());
        Ok(outcomes)
    }

    fn rules(&mut self, family: Family) -> Result<Dump<Rule>, KernelError> {
        self.inner.rules(family)
    }

    fn routes(
        &mut self,
        family: Family,
        tables: RangeInclusive<u32>,
    ) -> Result<Dump<Route>, KernelError> {
        self.inner.routes(family, tables)
    }

    fn links(&mut self) -> Result<Vec<Link>, KernelError> {
        self.inner.links()
    }

    fn port(&self) -> u32 {
        self.inner.port()
    }
}
