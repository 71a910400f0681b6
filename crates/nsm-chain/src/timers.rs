//! One timer per connection.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use nsm_api::ConnectionId;
use prost_types::Timestamp;
use tokio::task::{self, AbortHandle};
use tokio::time::Duration;

use crate::now;

/// The timers of a layer. They end with it.
#[derive(Default)]
pub(crate) struct Timers(Mutex<HashMap<ConnectionId, Timer>>);

/// A task that is stopped when nobody holds it any more.
struct Timer(AbortHandle);

impl Timers {
    /// Starts the timer of a connection in place of the former one.
    ///
    /// A timer that waits for an event is replaced from within that event, when it succeeds. This
    /// stops the waiting only: an event whose turn has come goes on to its end.
    pub(crate) fn set(
        self: &Arc<Self>,
        id: ConnectionId,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        // A task that held them would keep the timers of a chain that is gone.
        let timers = Arc::downgrade(self);
        let of = id.clone();
        // The task looks for its own entry at its end, which so must not come before the entry.
        let mut all = self.lock();
        let task = tokio::spawn(async move {
            work.await;
            if let Some(timers) = timers.upgrade() {
                timers.ended(&of, task::id());
            }
        });
        all.insert(id, Timer(task.abort_handle()));
    }

    /// Stops the timer of a connection, if it has one.
    pub(crate) fn cancel(&self, id: &ConnectionId) {
        self.lock().remove(id);
    }

    /// How many connections have a timer.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn ended(&self, id: &ConnectionId, task: task::Id) {
        let mut all = self.lock();
        if all.get(id).is_some_and(|timer| timer.0.id() == task) {
            all.remove(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, Timer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timers").field(&self.len()).finish()
    }
}

/// The time until a moment, and none if it is over. `None` if the stamp is no time at all.
pub(crate) fn time_until(stamp: &Timestamp) -> Option<Duration> {
    let moment = SystemTime::try_from(*stamp).ok()?;
    Some(moment.duration_since(now()).unwrap_or_default())
}

/// A number from 0 to 1.
pub(crate) fn chance() -> f64 {
    // The keys of each of these are new, so its hash of nothing is a random number.
    let random = RandomState::new().hash_one(());
    f64::from((random >> 32) as u32) / f64::from(u32::MAX)
}

/// The pause after a failure, twice as long after each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackOff {
    next: Duration,
    longest: Duration,
}

impl BackOff {
    /// From one second up to `longest`.
    pub(crate) fn up_to(longest: Duration) -> Self {
        Self::between(Duration::from_secs(1), longest)
    }

    /// From `first` up to `longest`.
    pub(crate) fn between(first: Duration, longest: Duration) -> Self {
        Self {
            next: first,
            longest: longest.max(first),
        }
    }

    /// How long to wait this time.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }
}
