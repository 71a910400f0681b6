//! The namespaces that are worked in: one lock and one memory each, namespaces in parallel.

use crate::concern::Concern;
use crate::config::Config;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::reconcile::Reconciler;
use crate::space::{Change, Space};
use crate::time::Time;
use crate::watch::{Ears, Watch};
use nsm_api::ConnectionId;
use nsm_chain::ErrorChain;
use nsm_netlink::{Namespace, NetnsId};
use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

/// The most namespaces that are worked in at once: each holds a thread.
const PARALLEL: usize = 16;

/// All namespaces of one layer.
#[derive(Debug)]
pub struct Registry<N: Namespace> {
    config: Config,
    metrics: Metrics,
    permits: Arc<Semaphore>,
    known: Mutex<Known<N>>,
}

#[derive(Debug)]
struct Known<N: Namespace> {
    slots: HashMap<NetnsId, Arc<Slot<N>>>,
    /// Where each connection's claim is.
    homes: HashMap<ConnectionId, NetnsId>,
    /// Connections whose policies cannot be installed, which has been said.
    unserved: HashSet<ConnectionId>,
}

/// A namespace that is held, with its memory. The descriptor is what makes its id exact.
#[derive(Debug)]
struct Slot<N: Namespace> {
    netns: Arc<N>,
    space: Arc<tokio::sync::Mutex<Space>>,
    timer: Mutex<Option<AbortHandle>>,
    /// Held as long as there are claims, where watching is on.
    watch: Mutex<Option<Watch<N::Notifications>>>,
}

impl<N: Namespace> Drop for Slot<N> {
    fn drop(&mut self) {
        if let Some(timer) = locked(&self.timer).take() {
            timer.abort();
        }
    }
}

impl<N: Namespace> Registry<N> {
    /// An empty registry.
    pub fn new(config: Config, metrics: Metrics) -> Arc<Self> {
        let known = Known {
            slots: HashMap::new(),
            homes: HashMap::new(),
            unserved: HashSet::new(),
        };
        Arc::new(Self {
            config,
            metrics,
            permits: Arc::new(Semaphore::new(PARALLEL)),
            known: Mutex::new(known),
        })
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where a connection's claim is.
    pub fn home(&self, connection: &ConnectionId) -> Option<Arc<N>> {
        let known = locked(&self.known);
        let id = known.homes.get(connection)?;
        known.slots.get(id).map(|slot| Arc::clone(&slot.netns))
    }

    /// Notes that a connection's policies cannot be installed; whether that is news.
    pub fn is_unserved(&self, connection: &ConnectionId) -> bool {
        locked(&self.known).unserved.insert(connection.clone())
    }

    /// Notes that a connection's policies can be installed, or that it is closed.
    pub fn is_served(&self, connection: &ConnectionId) {
        locked(&self.known).unserved.remove(connection);
    }

    /// How many namespaces are held.
    pub fn held(&self) -> usize {
        locked(&self.known).slots.len()
    }

    /// Works in a namespace: waits for its turn, then runs to the end whatever becomes of the
    /// caller. A close is not given up with its caller even while it waits, and it waits as long
    /// as it takes: nobody else would end the claim, and each piece of work before it has an end.
    /// So does a timer, which nobody else would set again, and a repair.
    ///
    /// # Errors
    /// Those of the work; [`Error::TimedOut`] when it is not done in time.
    pub async fn work(
        self: &Arc<Self>,
        netns: Arc<N>,
        change: Change,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let time = Time::of(self.config.timeout, deadline);
        let late = |_| Error::TimedOut(time.given);
        let mut turn = Box::pin(Arc::clone(self).turn(netns));
        match change {
            Change::Request { .. } => {
                let turn = timeout_at(time.end, turn).await.map_err(late)?;
                return turn.take(change, time).await;
            }
            Change::Timer | Change::Drift => {
                let turn = turn.await;
                return turn.take(change, Time::of(self.config.timeout, None)).await;
            }
            Change::Close { .. } => {}
        }
        // Polled once here, so that it stands in line before whatever its caller asks for next.
        let now = poll_fn(|cx| Poll::Ready(turn.as_mut().poll(cx))).await;
        let timeout = self.config.timeout;
        let (reply, done) = oneshot::channel();
        let close = async move {
            let turn = match now {
                Poll::Ready(turn) => turn,
                Poll::Pending => turn.await,
            };
            let done = turn.take(change, Time::of(timeout, None)).await;
            if let Err(Err(error)) = reply.send(done) {
                tracing::warn!(
                    error = %ErrorChain(&error),
                    "a close that nobody waits for any more has failed"
                );
            }
        };
        let close = tokio::spawn(close.in_current_span());
        match timeout_at(time.end, done).await.map_err(late)? {
            Ok(done) => done,
            Err(_) => close.await.map_err(Error::Lost),
        }
    }

    /// Ends the claim of a connection that goes on elsewhere. What stays is tried again, and is
    /// nobody's error.
    pub async fn leave(
        self: Arc<Self>,
        netns: Arc<N>,
        connection: ConnectionId,
        deadline: Option<Instant>,
    ) {
        let change = Change::Close {
            connection: connection.clone(),
            had: Vec::new(),
        };
        if let Err(error) = self.work(netns, change, deadline).await {
            tracing::warn!(
                connection.id = %connection,
                error = %ErrorChain(&error),
                "former policies could not be removed yet"
            );
        }
    }

    /// Whether a namespace is held.
    pub fn holds(&self, netns: &N) -> bool {
        locked(&self.known).slots.contains_key(&netns.id())
    }

    /// Waits for a namespace. The lock first: who waits for it holds no thread.
    async fn turn(self: Arc<Self>, netns: Arc<N>) -> Turn<N> {
        loop {
            let slot = self.slot(&netns);
            let waiting = Waiting {
                registry: Arc::clone(&self),
                slot: Arc::clone(&slot),
            };
            let space = Arc::clone(&slot.space).lock_owned().await;
            // Fails only for a semaphore that is closed, and nobody closes this one.
            let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
            if !space.retired {
                drop(waiting);
                return Turn {
                    registry: self,
                    slot,
                    space,
                    permit,
                };
            }
        }
    }

    fn slot(&self, netns: &Arc<N>) -> Arc<Slot<N>> {
        let mut known = locked(&self.known);
        let slot = known.slots.entry(netns.id()).or_insert_with(|| {
            Arc::new(Slot {
                netns: Arc::clone(netns),
                space: Arc::default(),
                timer: Mutex::new(None),
                watch: Mutex::new(None),
            })
        });
        Arc::clone(slot)
    }

    /// Lets go of a namespace whose memory is idle.
    fn retire(&self, slot: &Arc<Slot<N>>, space: &mut Space) {
        if !space.is_idle() || space.retired {
            return;
        }
        space.retired = true;
        let mut known = locked(&self.known);
        let id = slot.netns.id();
        if known
            .slots
            .get(&id)
            .is_some_and(|known| Arc::ptr_eq(known, slot))
        {
            known.slots.remove(&id);
            // Who had nothing here but what a failed call left has no home any more.
            known.homes.retain(|_, home| *home != id);
        }
    }
}

/// Somebody who waits for a namespace. Who gives up waiting leaves no idle namespace held.
struct Waiting<N: Namespace> {
    registry: Arc<Registry<N>>,
    slot: Arc<Slot<N>>,
}

impl<N: Namespace> Drop for Waiting<N> {
    fn drop(&mut self) {
        if let Ok(mut space) = self.slot.space.try_lock() {
            self.registry.retire(&self.slot, &mut space);
        }
    }
}

/// Somebody whose turn in a namespace has come.
struct Turn<N: Namespace> {
    registry: Arc<Registry<N>>,
    slot: Arc<Slot<N>>,
    space: OwnedMutexGuard<Space>,
    permit: Option<OwnedSemaphorePermit>,
}

impl<N: Namespace> Turn<N> {
    async fn take(self, change: Change, time: Time) -> Result<(), Error> {
        let span = tracing::Span::current();
        let work = move || span.in_scope(|| self.run(change, time));
        let done = tokio::task::spawn_blocking(work).await;
        let (result, leaving) = done.map_err(Error::Lost)?;
        if let Some(leaving) = leaving {
            leaving.await.map_err(Error::Lost)?;
        }
        result
    }

    /// Runs the work. Where a connection has moved here, its former home is left by a task of its
    /// own, so that nothing stays behind whatever becomes of the caller.
    fn run(mut self, change: Change, time: Time) -> (Result<(), Error>, Option<JoinHandle<()>>) {
        let ears = self.ears(&change);
        if matches!(change, Change::Drift) && !ears.as_ref().is_some_and(|ears| ears.begin()) {
            self.registry.retire(&self.slot, &mut self.space);
            return (Ok(()), None);
        }
        if let Some(ears) = &ears {
            ears.listen(self.slot.netns.as_ref());
        }
        let reconciler = Reconciler {
            netns: self.slot.netns.as_ref(),
            config: &self.registry.config,
            metrics: &self.registry.metrics,
            time,
            ears: ears.as_deref(),
        };
        let result = reconciler.run(&mut self.space, &change);
        let mut leaving = None;
        match &change {
            Change::Request { connection, .. } => {
                let former = self.settle_home(connection, result.is_err());
                leaving = former.filter(|_| result.is_ok()).map(|former| {
                    let registry = Arc::clone(&self.registry);
                    let leave = registry.leave(former, connection.clone(), Some(time.end));
                    Handle::current().spawn(leave.in_current_span())
                });
            }
            Change::Close { connection, .. } => {
                self.settle_home(connection, result.is_err());
            }
            Change::Timer | Change::Drift => {}
        }
        self.set_timer();
        self.set_watch(ears.as_deref());
        self.registry.retire(&self.slot, &mut self.space);
        drop(self.permit);
        (result, leaving)
    }

    /// Notes where a connection's claim is, and tells where else it was.
    fn settle_home(&self, connection: &ConnectionId, failed: bool) -> Option<Arc<N>> {
        let id = self.slot.netns.id();
        let mut known = locked(&self.registry.known);
        let former = known.homes.get(connection).copied();
        let elsewhere = former
            .filter(|former| *former != id)
            .and_then(|former| known.slots.get(&former))
            .map(|slot| Arc::clone(&slot.netns));
        // After a failure there may be something here that the connection's close looks for.
        let at_home = failed && self.space.is_in_debt();
        if self.space.claims.get(connection).is_some() {
            known.homes.insert(connection.clone(), id);
        } else if at_home {
            // Where its claim still is, if it has one, is its home.
            known.homes.entry(connection.clone()).or_insert(id);
        } else if former == Some(id) {
            known.homes.remove(connection);
        }
        elsewhere
    }

    /// What hears of others here: from before the first claim's namespace is read.
    fn ears(&self, change: &Change) -> Option<Arc<Ears<N::Notifications>>> {
        let will_claim = matches!(change, Change::Request { wants, .. } if !wants.is_empty());
        let mut watch = locked(&self.slot.watch);
        if watch.is_none() && self.registry.config.watch && will_claim {
            let ears = Ears::new(self.slot.netns.id(), self.concern());
            let registry = Arc::downgrade(&self.registry);
            let slot = Arc::downgrade(&self.slot);
            let task = Handle::current().spawn(repair(Arc::clone(&ears), registry, slot));
            *watch = Some(Watch::new(ears, task.abort_handle()));
        }
        watch.as_ref().map(|watch| Arc::clone(watch.ears()))
    }

    /// Goes on listening as long as there are claims.
    fn set_watch(&self, ears: Option<&Ears<N::Notifications>>) {
        if self.space.claims.is_empty() {
            locked(&self.slot.watch).take();
        } else if let Some(ears) = ears {
            ears.go_on(self.concern());
        }
    }

    fn concern(&self) -> Concern {
        let Config {
            owner, priorities, ..
        } = self.registry.config;
        Concern::of(&self.space.claims, &self.space.devs, owner, priorities)
    }

    /// Wakes up when the next left-over's time has come.
    fn set_timer(&self) {
        let grace = self.registry.config.grace;
        let settle = self.registry.config.settle();
        let next = self.space.leftovers.next(grace, settle);
        let timer = next.map(|at| {
            let registry: Weak<Registry<N>> = Arc::downgrade(&self.registry);
            let slot = Arc::downgrade(&self.slot);
            Handle::current().spawn(async move {
                tokio::time::sleep_until(at).await;
                let (Some(registry), Some(slot)) = (registry.upgrade(), slot.upgrade()) else {
                    return;
                };
                // On a task of its own: what it does sets the next timer, which ends this one.
                tokio::spawn(async move {
                    let netns = Arc::clone(&slot.netns);
                    drop(slot);
                    if let Err(error) = registry.work(netns, Change::Timer, None).await {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "left-over rules could not be removed"
                        );
                    }
                });
            })
        });
        let timer = timer.map(|timer| timer.abort_handle());
        let former = std::mem::replace(&mut *locked(&self.slot.timer), timer);
        if let Some(former) = former {
            former.abort();
        }
    }
}

/// Has repaired what others change. It holds neither the registry nor the namespace.
async fn repair<N: Namespace>(
    ears: Arc<Ears<N::Notifications>>,
    registry: Weak<Registry<N>>,
    slot: Weak<Slot<N>>,
) {
    loop {
        ears.due().await;
        let (Some(registry), Some(slot)) = (registry.upgrade(), slot.upgrade()) else {
            return;
        };
        let netns = Arc::clone(&slot.netns);
        drop(slot);
        if let Err(error) = registry.work(netns, Change::Drift, None).await {
            ears.failed(&error);
        }
    }
}

/// What the locks guard is whole at every moment, so a panic elsewhere does not spoil it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Want;
    use nsm_netlink::fake::FakeNamespace;
    use nsm_netlink::fault::{Effect, Fault, Faults, Faulty};
    use nsm_netlink::{Errno, Family, OpKind, Owner, Selector};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn whoever_left_nothing_but_a_debt_has_no_home_once_it_is_paid() {
        let pod = FakeNamespace::new();
        pod.set_up(pod.add_link("nsm-0").unwrap()).unwrap();
        let faults = Faults::new();
        let netns = Arc::new(Faulty::new(pod, faults.clone()));
        let owner = Owner {
            protocol: 78.try_into().unwrap(),
            tables: "20000-24999".parse().unwrap(),
        };
        let config = Config::new(owner);
        let grace = config.grace;
        let registry = Registry::new(config, Metrics::global());
        let connection: ConnectionId = "c".try_into().unwrap();
        for op in [OpKind::AddRule, OpKind::DelRoute] {
            let refused = Effect::Errno(Errno::EPERM);
            faults.set(Fault::forever(op, 1, refused));
        }

        let request = Change::Request {
            connection: connection.clone(),
            interface: "nsm-0".to_owned(),
            wants: vec![Want {
                selector: Selector {
                    proto: Some(6),
                    ..Selector::any(Family::V4)
                },
                routes: [(Family::V4.default_prefix(), None)].into(),
                index: 0,
            }],
            asked: Vec::new(),
        };
        registry.work(netns, request, None).await.unwrap_err();
        assert!(registry.home(&connection).is_some());
        faults.clear();
        tokio::time::sleep(grace + Duration::from_secs(1)).await;

        assert_eq!(registry.held(), 0);
        assert!(locked(&registry.known).homes.is_empty());
    }
}
