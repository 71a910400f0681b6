use super::{Effect, Faults, gone};
use crate::{
    Dump, Errno, Family, Kernel, KernelError, Link, Namespace, NetnsId, Op, OpKind, Refusal, Route,
    Rule,
};
use std::ops::RangeInclusive;

/// A namespace whose kernel fails as a script says.
#[derive(Debug, Clone)]
pub struct Faulty<N> {
    inner: N,
    faults: Faults,
}

impl<N> Faulty<N> {
    /// Wraps a namespace. One script may serve several namespaces.
    pub fn new(inner: N, faults: Faults) -> Self {
        Self { inner, faults }
    }

    /// The namespace inside.
    pub fn inner(&self) -> &N {
        &self.inner
    }
}

impl<N: Namespace> Namespace for Faulty<N> {
    type Kernel = FaultyKernel<N::Kernel>;
    type Notifications = N::Notifications;

    fn id(&self) -> NetnsId {
        self.inner.id()
    }

    fn open(&self) -> Result<Self::Kernel, KernelError> {
        let life = self.life()?;
        let inner = self.inner.open()?;
        Ok(FaultyKernel {
            inner,
            faults: self.faults.clone(),
            life,
            dead: false,
        })
    }

    /// What was opened before a kill goes on: a process that is gone reads nothing.
    fn listen(&self) -> Result<N::Notifications, KernelError> {
        self.life()?;
        self.inner.listen()
    }
}

impl<N: Namespace> Faulty<N> {
    /// The life that the process is in.
    fn life(&self) -> Result<usize, KernelError> {
        let script = self.faults.lock();
        if script.killed {
            return Err(KernelError::Open {
                netns: self.inner.id(),
                source: gone(),
            });
        }
        Ok(script.life)
    }
}

/// An opened [`Faulty`].
#[derive(Debug)]
pub struct FaultyKernel<K> {
    inner: K,
    faults: Faults,
    life: usize,
    dead: bool,
}

impl<K: Kernel> FaultyKernel<K> {
    fn check(&self) -> Result<(), KernelError> {
        let script = self.faults.lock();
        if self.dead || script.killed || script.life != self.life {
            return Err(KernelError::Send(gone()));
        }
        Ok(())
    }

    /// Asks the kernel under an effect that is not about a single operation.
    fn ask<T>(
        &mut self,
        effect: Option<Effect>,
        ask: impl FnOnce(&mut K) -> Result<T, KernelError>,
    ) -> Result<T, KernelError> {
        match effect {
            Some(Effect::KillBefore) => return Err(self.faults.kill()),
            Some(Effect::DeadSocket) => {
                self.dead = true;
                return Err(KernelError::Send(gone()));
            }
            _ => {}
        }
        let answer = ask(&mut self.inner)?;
        match effect {
            Some(Effect::KillAfter) => Err(self.faults.kill()),
            Some(Effect::LostAck) => Err(KernelError::AnswersLost),
            Some(Effect::TimedOut) => Err(KernelError::TimedOut),
            _ => Ok(answer),
        }
    }

    fn dump<T>(
        &mut self,
        op: OpKind,
        ask: impl FnOnce(&mut K) -> Result<T, KernelError>,
        tear: impl FnOnce(&mut T, usize),
    ) -> Result<T, KernelError> {
        self.check()?;
        self.faults.run_meanwhile(std::iter::once(op));
        let effect = self.faults.strike(op);
        if let Some(Effect::Errno(errno)) = effect {
            return Err(KernelError::Refused {
                op,
                source: errno.into(),
            });
        }
        let mut answer = self.ask(effect, ask)?;
        if let Some(Effect::TornDump(missing)) = effect {
            tear(&mut answer, missing);
        }
        Ok(answer)
    }
}

impl<K: Kernel> Kernel for FaultyKernel<K> {
    fn execute(&mut self, burst: &[Op]) -> Result<Vec<Result<(), Refusal>>, KernelError> {
        self.check()?;
        self.faults.run_meanwhile(burst.iter().map(Op::kind));
        let mut of_all = None;
        let mut refused = Vec::with_capacity(burst.len());
        for op in burst {
            match self.faults.strike(op.kind()) {
                Some(Effect::Errno(errno)) => refused.push(Some(errno)),
                effect => {
                    of_all = of_all.or(effect);
                    refused.push(None);
                }
            }
        }
        let passed: Vec<Op> = burst
            .iter()
            .zip(&refused)
            .filter(|(_, refused)| refused.is_none())
            .map(|(op, _)| op.clone())
            .collect();
        let mut outcomes = self
            .ask(of_all, |kernel| kernel.execute(&passed))?
            .into_iter();
        let outcome = |refused: Option<Errno>| match refused {
            Some(errno) => Some(Err(errno.into())),
            None => outcomes.next(),
        };
        let outcomes: Option<Vec<_>> = refused.into_iter().map(outcome).collect();
        outcomes.ok_or(KernelError::Malformed(
            "there are fewer answers than operations",
        ))
    }

    fn rules(&mut self, family: Family) -> Result<Dump<Rule>, KernelError> {
        self.dump(OpKind::DumpRules, |kernel| kernel.rules(family), tear)
    }

    fn routes(
        &mut self,
        family: Family,
        tables: RangeInclusive<u32>,
    ) -> Result<Dump<Route>, KernelError> {
        self.dump(
            OpKind::DumpRoutes,
            |kernel| kernel.routes(family, tables),
            tear,
        )
    }

    fn links(&mut self) -> Result<Vec<Link>, KernelError> {
        self.dump(
            OpKind::DumpLinks,
            |kernel| kernel.links(),
            |links, missing| {
                if missing < links.len() {
                    links.remove(missing);
                }
            },
        )
    }

    fn port(&self) -> u32 {
        self.inner.port()
    }
}

fn tear<T>(dump: &mut Dump<T>, missing: usize) {
    if missing < dump.items.len() {
        dump.items.remove(missing);
    }
    dump.reads = dump.reads.max(2);
}
