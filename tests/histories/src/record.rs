//! What an element writes, and what stands after each single write.

use crate::picture::{Leg, Picture};
use nsm_netlink::{
    Dump, Family, Kernel, KernelError, Link, Namespace, NetnsId, Op, Refusal, Route, Rule,
};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An operation and what became of it.
pub type Write = (Op, Result<(), Refusal>);

/// What was written in a piece of work.
#[derive(Debug, Default)]
pub struct Record {
    /// The bursts in order.
    pub bursts: Vec<Vec<Write>>,
    /// What stood after each write that changed something.
    pub moments: Vec<Picture>,
}

impl Record {
    /// All writes in order.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        self.bursts.iter().flatten()
    }
}

/// Rules and routes at one moment.
type Moment = (Vec<Rule>, Vec<Route>);

#[derive(Debug, Default)]
struct Tape {
    bursts: Vec<Vec<Write>>,
    moments: Vec<Moment>,
}

/// What one element writes from now on. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Tape>>);

impl Recorder {
    /// What was written since the last call.
    pub fn take(&self, links: &Rc<[Link]>, foreign_legs: &Rc<BTreeSet<Leg>>) -> Record {
        let tape = std::mem::take(&mut *self.tape());
        let picture = |(rules, routes)| Picture {
            rules,
            routes,
            links: Rc::clone(links),
            foreign_legs: Rc::clone(foreign_legs),
        };
        let moments = tape.moments.into_iter().map(picture).collect();
        Record {
            bursts: tape.bursts,
            moments,
        }
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A namespace that does the operations of a burst one by one, and looks at what stands after each.
#[derive(Debug)]
pub struct Recorded<N> {
    inner: Arc<N>,
    recorder: Recorder,
    tables: RangeInclusive<u32>,
}

impl<N> Recorded<N> {
    /// Records what is written; the moments hold the routes of these tables.
    pub fn new(inner: Arc<N>, recorder: Recorder, tables: RangeInclusive<u32>) -> Self {
        Self {
            inner,
            recorder,
            tables,
        }
    }
}

impl<N> Clone for Recorded<N> {
    fn clone(&self) -> Self {
        Self::new(
            Arc::clone(&self.inner),
            self.recorder.clone(),
            self.tables.clone(),
        )
    }
}

impl<N: Namespace> Namespace for Recorded<N> {
    type Kernel = RecordedKernel<N::Kernel>;
    type Notifications = N::Notifications;

    fn id(&self) -> NetnsId {
        self.inner.id()
    }

    fn open(&self) -> Result<Self::Kernel, KernelError> {
        let inner = self.inner.open()?;
        Ok(RecordedKernel {
            inner,
            recorder: self.recorder.clone(),
            tables: self.tables.clone(),
        })
    }

    fn listen(&self) -> Result<N::Notifications, KernelError> {
        self.inner.listen()
    }
}

/// An opened [`Recorded`].
#[derive(Debug)]
pub struct RecordedKernel<K> {
    inner: K,
    recorder: Recorder,
    tables: RangeInclusive<u32>,
}

impl<K: Kernel> RecordedKernel<K> {
    fn look(&mut self) -> Result<Moment, KernelError> {
        let (mut rules, mut routes) = Moment::default();
        for family in Family::ALL {
            rules.append(&mut self.inner.rules(family)?.items);
            routes.append(&mut self.inner.routes(family, self.tables.clone())?.items);
        }
        Ok((rules, routes))
    }
}

impl<K: Kernel> Kernel for RecordedKernel<K> {
    fn execute(&mut self, burst: &[Op]) -> Result<Vec<Result<(), Refusal>>, KernelError> {
        let mut outcomes = Vec::with_capacity(burst.len());
        for op in burst {
            let outcome = self.inner.execute(std::slice::from_ref(op))?;
            if outcome.iter().all(Result::is_ok) {
                let moment = self.look()?;
                self.recorder.tape().moments.push(moment);
            }
            outcomes.extend(outcome);
        }
        if !burst.is_empty() {
            let writes = burst.iter().cloned().zip(outcomes.clone()).collect();
            self.recorder.tape().bursts.push(writes);
        }
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
