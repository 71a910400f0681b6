//! Hears what others do in a namespace with claims, and has it repaired.
//!
//! The kernel tells of our own writes too. A reconcile keeps what is heard meanwhile to itself and
//! leaves out what its own port has done, as long as that port is its own: somebody else may have
//! it right afterwards.

use crate::concern::Concern;
use crate::pace::{Fought, Look, Pace};
use nsm_chain::ErrorChain;
use nsm_netlink::{KernelError, Namespace, NetnsId, Notification, Notifications, Selector};
use std::collections::BTreeSet;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

/// How much is kept of what is heard during a reconcile. Beyond it everything is looked at.
const KEPT: usize = 10_000;

/// A namespace that is watched, until this value is dropped: its socket is closed by then.
pub struct Watch<L> {
    ears: Arc<Ears<L>>,
    task: AbortHandle,
}

impl<L> Watch<L> {
    /// Watches with a task.
    pub fn new(ears: Arc<Ears<L>>, task: AbortHandle) -> Self {
        Self { ears, task }
    }

    /// What hears.
    pub fn ears(&self) -> &Arc<Ears<L>> {
        &self.ears
    }
}

impl<L> Drop for Watch<L> {
    fn drop(&mut self) {
        self.task.abort();
        self.ears.lock().source = None;
    }
}

impl<L> fmt::Debug for Watch<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// What is heard of a namespace, and when it is to be acted on.
pub struct Ears<L> {
    netns: NetnsId,
    state: Mutex<State<L>>,
}

struct State<L> {
    /// None as long as none could be opened.
    source: Option<L>,
    concern: Concern,
    pace: Pace,
    /// What is heard while a reconcile is at work, which alone listens then.
    kept: Option<Kept>,
    /// Whether a reconcile has moved what the task waits for.
    moved: bool,
    /// The task, where it waits.
    waker: Option<Waker>,
    /// What has been said of why it does not work.
    said: Option<String>,
}

#[derive(Default)]
struct Kept {
    notifications: Vec<Notification>,
    lost: bool,
}

impl<L: Notifications> Ears<L> {
    /// Ears that hear nothing yet.
    pub fn new(netns: NetnsId, concern: Concern) -> Arc<Self> {
        let state = State {
            source: None,
            concern,
            pace: Pace::default(),
            kept: None,
            moved: false,
            waker: None,
            said: None,
        };
        Arc::new(Self {
            netns,
            state: Mutex::new(state),
        })
    }

    /// Listens, unless it does. Where it cannot it is tried again.
    pub fn listen(&self, netns: &impl Namespace<Notifications = L>) {
        if self.lock().source.is_some() {
            return;
        }
        let source = netns.listen();
        let mut state = self.lock();
        match source {
            Ok(source) => state.source = Some(source),
            Err(error) => state.say(self.netns, &error),
        }
    }

    /// Waits until something is to be repaired.
    ///
    /// Cancel safe: what was heard is remembered.
    pub async fn due(&self) {
        loop {
            let next = self.lock().pace.next();
            let hear = poll_fn(|cx| self.poll_hear(cx));
            match next {
                None => hear.await,
                Some(at) if at <= Instant::now() => return,
                Some(at) if timeout_at(at, hear).await.is_err() => return,
                Some(_) => {}
            }
        }
    }

    fn poll_hear(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let state = &mut *state;
        if std::mem::take(&mut state.moved) {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        let (None, Some(source)) = (&state.kept, &mut state.source) else {
            return Poll::Pending;
        };
        let heard = ready!(source.poll_next(cx));
        if let Some(heard) = state.received(self.netns, heard) {
            state.judge(&heard);
        }
        Poll::Ready(())
    }

    /// Whether a repair is due that nothing else has made meanwhile. It begins now.
    pub fn begin(&self) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        let is_due = state.pace.next().is_some_and(|at| at <= now);
        if is_due {
            state.pace.begin(now);
        }
        is_due
    }

    /// The policies that no repair is due for, since they are fought.
    pub fn paused(&self) -> BTreeSet<Selector> {
        self.lock().pace.paused(Instant::now())
    }

    /// A namespace is about to be read: that answers all that has been heard so far. What is heard
    /// from now on is kept until [`go_on`](Self::go_on).
    pub fn hold(&self) {
        let mut state = self.lock();
        state.collect(self.netns, None);
        if let Some(kept) = state.kept.replace(Kept::default()) {
            state.take_in(&kept);
        }
    }

    /// What was read has been acted on through a port that is still ours: what that has done is
    /// nobody else's.
    pub fn leave_out(&self, port: u32) {
        self.lock().collect(self.netns, Some(port));
    }

    /// What was held is answered.
    pub fn answered(&self, look: &mut Look) {
        let mut state = self.lock();
        look.failed |= state.source.is_none();
        if !look.failed {
            state.said = None;
        }
        if let Some(fought) = state.pace.done(look, Instant::now()) {
            warn(&fought, self.netns);
        }
    }

    /// The reconcile has come to its end, however it did. What has been kept means something for
    /// the claims as they are now.
    pub fn go_on(&self, concern: Concern) {
        let mut state = self.lock();
        state.concern = concern;
        if let Some(kept) = state.kept.take() {
            state.take_in(&kept);
        }
        if state.source.is_none() && state.pace.next().is_none() {
            state.pace.failed(Instant::now());
        }
        state.moved = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// A repair has failed. It is tried again.
    pub fn failed(&self, error: &(dyn std::error::Error + 'static)) {
        let mut state = self.lock();
        state.pace.failed(Instant::now());
        state.say(self.netns, error);
    }
}

impl<L> Ears<L> {
    /// What the lock guards is whole at every moment, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Notifications> State<L> {
    fn judge(&mut self, heard: &[Notification]) {
        let now = Instant::now();
        for notification in heard {
            let verdict = self.concern.judge(notification);
            self.pace.hear(verdict, now);
        }
    }

    /// Takes in what has been kept.
    fn take_in(&mut self, kept: &Kept) {
        if kept.lost {
            self.pace.look(Instant::now());
        }
        self.judge(&kept.notifications);
    }

    /// Takes in all that has come, but for what one port has done.
    fn collect(&mut self, netns: NetnsId, but: Option<u32>) {
        let Some(heard) = self.source.as_mut().map(L::drain) else {
            return;
        };
        let Some(mut heard) = self.received(netns, heard) else {
            return;
        };
        heard.retain(|notification| but != Some(notification.port));
        match &mut self.kept {
            Some(kept) if kept.notifications.len() + heard.len() > KEPT => {
                *kept = Kept {
                    notifications: Vec::new(),
                    lost: true,
                };
            }
            Some(kept) => kept.notifications.append(&mut heard),
            None => self.judge(&heard),
        }
    }

    /// What was received. Where something is missing all has to be looked at, and where there is no
    /// more to be heard another source is needed.
    fn received(
        &mut self,
        netns: NetnsId,
        heard: Result<Vec<Notification>, KernelError>,
    ) -> Option<Vec<Notification>> {
        let error = match heard {
            Ok(heard) => return Some(heard),
            Err(error) => error,
        };
        if matches!(error, KernelError::AnswersLost | KernelError::Malformed(_)) {
            tracing::debug!(%netns, %error, "all is looked at");
        } else {
            self.source = None;
            self.say(netns, &error);
        }
        match &mut self.kept {
            Some(kept) => kept.lost = true,
            None => self.pace.look(Instant::now()),
        }
        None
    }

    /// Says why it does not work, once for each reason.
    fn say(&mut self, netns: NetnsId, error: &(dyn std::error::Error + 'static)) {
        let reason = ErrorChain(error).to_string();
        if self.said.as_ref() != Some(&reason) {
            tracing::warn!(
                %netns,
                error = reason,
                "what others change cannot be repaired now; it is tried again"
            );
            self.said = Some(reason);
        }
    }
}

fn warn(fought: &Fought, netns: NetnsId) {
    let Fought {
        selector,
        others,
        by,
    } = fought;
    let more = match others {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    tracing::warn!(
        %netns,
        "somebody else removes what policy [{selector}]{more} needs, again and again: {by}. It is \
         put back after growing pauses as long as that goes on"
    );
}

impl<L> fmt::Debug for Ears<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ears")
            .field("netns", &self.netns)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
