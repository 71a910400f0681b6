use super::FakeNamespace;
use crate::{KernelError, Notification, Notifications};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// How many notifications wait for each listener at most, if a test says nothing else.
const ROOM: usize = 10_000;

/// Who listens to a namespace.
#[derive(Debug)]
pub(super) struct Listeners {
    queues: Vec<Weak<Mutex<Queue>>>,
    room: usize,
}

#[derive(Debug, Default)]
struct Queue {
    heard: VecDeque<Notification>,
    lost: bool,
    waker: Option<Waker>,
}

impl Default for Listeners {
    fn default() -> Self {
        Self {
            queues: Vec::new(),
            room: ROOM,
        }
    }
}

impl Listeners {
    /// Tells all.
    pub(super) fn tell(&mut self, notification: &Notification) {
        self.queues.retain(|queue| {
            let Some(queue) = queue.upgrade() else {
                return false;
            };
            let mut queue = locked(&queue);
            if queue.heard.len() < self.room {
                queue.heard.push_back(notification.clone());
            } else {
                queue.lost = true;
            }
            if let Some(waker) = queue.waker.take() {
                waker.wake();
            }
            true
        });
    }

    pub(super) fn limit(&mut self, room: usize) {
        self.room = room;
    }

    pub(super) fn count(&self) -> usize {
        let alive = self.queues.iter().filter(|queue| queue.strong_count() > 0);
        alive.count()
    }

    pub(super) fn add(&mut self) -> FakeNotifications {
        let queue = Arc::default();
        self.queues.push(Arc::downgrade(&queue));
        FakeNotifications(queue)
    }
}

/// The [`Notifications`] of a [`FakeNamespace`].
#[derive(Debug)]
pub struct FakeNotifications(Arc<Mutex<Queue>>);

impl Notifications for FakeNotifications {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Notification>, KernelError>> {
        let mut queue = locked(&self.0);
        let heard = queue.take()?;
        if heard.is_empty() {
            queue.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(heard))
    }

    fn drain(&mut self) -> Result<Vec<Notification>, KernelError> {
        locked(&self.0).take()
    }
}

impl Queue {
    /// The loss is told first, once, and what there was room for comes after it.
    fn take(&mut self) -> Result<Vec<Notification>, KernelError> {
        if std::mem::take(&mut self.lost) {
            return Err(KernelError::AnswersLost);
        }
        Ok(std::mem::take(&mut self.heard).into())
    }
}

fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who listens.
impl FakeNamespace {
    /// How many [`Notifications`] there are.
    pub fn listeners(&self) -> usize {
        self.shared.lock().listeners.count()
    }

    /// Limits how many notifications wait for each listener (at first, some thousand). What comes
    /// beyond is lost, and that is told.
    pub fn limit_notifications(&self, notifications: usize) {
        self.shared.lock().listeners.limit(notifications);
    }
}
