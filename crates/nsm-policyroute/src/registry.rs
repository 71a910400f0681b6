//! The namespaces that are worked in: one lock and one memory each, namespaces in parallel.

use crate::config::Config;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::reconcile::Reconciler;
use crate::space::{Change, Space};
use nsm_api::ConnectionId;
use nsm_netlink::{Namespace, NetnsId};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

/// The most namespaces that are worked in at once: each holds a thread.
const PARALLEL: usize = 16;

/// All namespaces of one layer.
#[derive(Debug)]
pub struct Registry<N> {
    config: Config,
    metrics: Metrics,
    permits: Arc<Semaphore>,
    known: Mutex<Known<N>>,
}

#[derive(Debug)]
struct Known<N> {
    slots: HashMap<NetnsId, Arc<Slot<N>>>,
    /// Where each connection's claim is.
    homes: HashMap<ConnectionId, NetnsId>,
    /// Connections whose policies cannot be installed, which has been said.
    unserved: HashSet<ConnectionId>,
}

/// A namespace that is held, with its memory. The descriptor is what makes its id exact.
#[derive(Debug)]
struct Slot<N> {
    netns: Arc<N>,
    space: Arc<tokio::sync::Mutex<Space>>,
    timer: Mutex<Option<AbortHandle>>,
}

impl<N> Drop for Slot<N> {
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
    /// caller. A close waits as long as it takes: each of those before it has a deadline.
    ///
    /// # Errors
    /// Those of the work; [`Error::TimedOut`] when the turn does not come in time.
    pub async fn work(
        self: &Arc<Self>,
        netns: Arc<N>,
        change: Change,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let latest = Instant::now() + self.config.timeout;
        let deadline = deadline.map_or(latest, |deadline| deadline.min(latest));
        let patient = matches!(change, Change::Close { .. });
        loop {
            let slot = self.slot(&netns);
            let _waiting = Waiting {
                registry: self,
                slot: &slot,
            };
            let turn = self.turn(&slot);
            let (space, permit) = if patient {
                turn.await
            } else {
                let late = |_| Error::TimedOut(self.config.timeout);
                timeout_at(deadline, turn).await.map_err(late)?
            };
            if space.retired {
                continue;
            }
            let deadline = if patient {
                Instant::now() + self.config.timeout
            } else {
                deadline
            };
            let work = Work {
                registry: Arc::clone(self),
                slot: Arc::clone(&slot),
                space,
            };
            let span = tracing::Span::current();
            let work = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                span.in_scope(|| work.run(&change, deadline))
            });
            return work.await.unwrap_or_else(|lost| Err(Error::Lost(lost)));
        }
    }

    /// The lock first: who waits for it holds no thread.
    async fn turn(&self, slot: &Slot<N>) -> (OwnedMutexGuard<Space>, Option<OwnedSemaphorePermit>) {
        let space = Arc::clone(&slot.space).lock_owned().await;
        // Fails only for a semaphore that is closed, and nobody closes this one.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        (space, permit)
    }

    fn slot(&self, netns: &Arc<N>) -> Arc<Slot<N>> {
        let mut known = locked(&self.known);
        let slot = known.slots.entry(netns.id()).or_insert_with(|| {
            Arc::new(Slot {
                netns: Arc::clone(netns),
                space: Arc::default(),
                timer: Mutex::new(None),
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
        }
    }
}

/// Somebody who waits for a namespace. Who gives up waiting leaves no idle namespace held.
struct Waiting<'a, N: Namespace> {
    registry: &'a Registry<N>,
    slot: &'a Arc<Slot<N>>,
}

impl<N: Namespace> Drop for Waiting<'_, N> {
    fn drop(&mut self) {
        if let Ok(mut space) = self.slot.space.try_lock() {
            self.registry.retire(self.slot, &mut space);
        }
    }
}

/// One piece of work, once its turn has come.
struct Work<N> {
    registry: Arc<Registry<N>>,
    slot: Arc<Slot<N>>,
    space: OwnedMutexGuard<Space>,
}

impl<N: Namespace> Work<N> {
    fn run(mut self, change: &Change, deadline: Instant) -> Result<(), Error> {
        let reconciler = Reconciler {
            netns: self.slot.netns.as_ref(),
            config: &self.registry.config,
            metrics: &self.registry.metrics,
            deadline,
        };
        let result = reconciler.run(&mut self.space, change);
        if let Change::Request { connection, .. } | Change::Close { connection } = change {
            self.settle_home(connection);
        }
        self.set_timer(result.is_err() && matches!(change, Change::Timer));
        self.registry.retire(&self.slot, &mut self.space);
        result
    }

    fn settle_home(&self, connection: &ConnectionId) {
        let id = self.slot.netns.id();
        let mut known = locked(&self.registry.known);
        if self.space.claims.get(connection).is_some() {
            known.homes.insert(connection.clone(), id);
        } else if known.homes.get(connection) == Some(&id) {
            known.homes.remove(connection);
        }
    }

    /// Wakes up when the next left-over's time has come.
    fn set_timer(&self, failed: bool) {
        let grace = self.registry.config.grace;
        let next = self.space.leftovers.next(grace);
        let timer = next.map(|next| {
            // What has just failed is not tried again at once.
            let at = if failed { Instant::now() + grace } else { next };
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

/// What the locks guard is whole at every moment, so a panic elsewhere does not spoil it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
