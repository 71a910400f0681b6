//! What a subscriber hears.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;
use nsm_api::connection::ConnectionEvent;

use super::hub::Hub;

/// How many events a subscriber may be behind.
const BEHIND: usize = 128;

/// What a subscriber hears. It ends when the subscriber is too far behind, at once, and without what
/// it has not read: what is missing there could be anywhere. It also ends when the monitor is
/// [closed](super::Monitor::close) or gone, once all is read.
pub struct Subscription {
    queue: Arc<Mutex<Queue>>,
    number: u64,
    hub: Weak<Mutex<Hub>>,
}

/// The hub's side of a subscription, which ends it when it is dropped.
pub(super) struct Feed(Arc<Mutex<Queue>>);

/// The subscriber does not keep up.
pub(super) struct IsBehind;

#[derive(Default)]
struct Queue {
    events: VecDeque<ConnectionEvent>,
    is_behind: bool,
    has_ended: bool,
    reader: Option<Waker>,
}

impl Subscription {
    /// One that hears the initial state first.
    pub(super) fn new(
        initial: ConnectionEvent,
        number: u64,
        hub: Weak<Mutex<Hub>>,
    ) -> (Feed, Self) {
        let queue = Arc::new(Mutex::new(Queue {
            events: VecDeque::from([initial]),
            ..Queue::default()
        }));
        let feed = Feed(Arc::clone(&queue));
        (feed, Self { queue, number, hub })
    }

    /// Whether it has ended because the subscriber did not keep up.
    pub fn fell_behind(&self) -> bool {
        lock(&self.queue).is_behind
    }
}

impl Feed {
    pub(super) fn send(&self, event: ConnectionEvent) -> Result<(), IsBehind> {
        let mut queue = lock(&self.0);
        if queue.events.len() == BEHIND {
            queue.events = VecDeque::new();
            queue.is_behind = true;
            return Err(IsBehind);
        }
        queue.events.push_back(event);
        queue.wake();
        Ok(())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.has_ended = true;
        queue.wake();
    }
}

impl Queue {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Stream for Subscription {
    type Item = ConnectionEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ConnectionEvent>> {
        let mut queue = lock(&self.queue);
        if let Some(event) = queue.events.pop_front() {
            return Poll::Ready(Some(event));
        }
        if queue.has_ended {
            return Poll::Ready(None);
        }
        queue.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            let mut hub = hub.lock().unwrap_or_else(PoisonError::into_inner);
            hub.unsubscribe(self.number);
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
