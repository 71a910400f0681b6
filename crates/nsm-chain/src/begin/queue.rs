//! One queue per connection.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nsm_api::ConnectionId;
use nsm_api::connection::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Duration;
use tracing::Span;

use crate::{Call, Error, ErrorKind, TimeBudget};

/// One thing to do with a connection.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it waits and travels in a box")]
pub(super) enum Job {
    Call {
        call: Call,
        budget: TimeBudget,
        reply: oneshot::Sender<Result<Connection, Error>>,
        span: Span,
    },
    Event {
        event: Event,
        reply: oneshot::Sender<Result<Option<Connection>, Error>>,
        span: Span,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Request { within: Option<Duration> },
    Reselect { within: Option<Duration> },
    Close,
    Forget,
}

#[derive(Debug, thiserror::Error)]
#[error("too many calls wait for this connection")]
pub(super) struct QueueFull;

impl From<QueueFull> for Error {
    fn from(full: QueueFull) -> Self {
        Self::new(ErrorKind::ResourceExhausted, "begin", full)
    }
}

/// What adds to a connection's queue. A channel keeps room for 32 of what it carries, as long as
/// the connection stands and mostly empty.
pub(super) type Queue = mpsc::Sender<Box<Job>>;

/// The queues of the connections that are known, or have work waiting.
#[derive(Debug, Default)]
pub(super) struct Queues(Mutex<HashMap<ConnectionId, Queue>>);

impl Queues {
    /// Adds a job to the connection's queue. `start` makes the queue of a connection that has none.
    pub(super) fn add(
        &self,
        id: ConnectionId,
        job: Job,
        start: impl FnOnce(ConnectionId) -> Queue,
    ) -> Result<(), Error> {
        let mut queues = self.lock();
        let queue = match queues.get(&id) {
            // A queue is closed if its worker ended with the runtime that it ran on.
            Some(queue) if !queue.is_closed() => queue.clone(),
            _ => {
                let queue = start(id.clone());
                queues.insert(id, queue.clone());
                queue
            }
        };
        queue.try_send(Box::new(job)).map_err(|_| QueueFull.into())
    }

    /// Removes the connection's queue, unless a job waits in it. Jobs are added under the
    /// same lock, so none is lost.
    pub(super) fn remove_empty(&self, id: &ConnectionId, queue: &mpsc::Receiver<Box<Job>>) -> bool {
        let mut queues = self.lock();
        let empty = queue.is_empty();
        if empty {
            queues.remove(id);
        }
        empty
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
