//! The client's side of one address.

mod backoff;
mod dial;
mod driver;
mod keepalive;
mod link;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Duration, Instant, sleep, timeout_at};

use crate::Address;
pub use dial::DialError;
pub(crate) use keepalive::Listening;
pub(crate) use link::{Link, WireError, origin};

/// The client's side of one address: at most one connection at a time, which is made when it is
/// needed for the first time and kept from then on.
///
/// When the connection ends the next attempt follows at once, and the ones behind it after waits
/// that grow up to a third of a second for a unix socket and to two seconds for TCP, spread by
/// chance. A connection counts from the other side's first word on, not from the moment at which
/// the system has put it into a listener's queue.
///
/// Clones share the connection. It is closed when the last of them is dropped and the last call
/// has ended.
#[derive(Clone)]
pub struct Transport {
    handle: Arc<Handle>,
}

/// Ends the driver with the last transport.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(driver) = self.shared.driver().take() {
            driver.abort();
        }
    }
}

/// What a transport and its driver have in common.
struct Shared {
    address: Address,
    dial_timeout: Duration,
    /// After which time without a call the connection is given up. Without one it is kept.
    rest_after: Option<Duration>,
    state: watch::Sender<State>,
    connected: watch::Sender<Connected>,
    /// How many calls are under way.
    calls: watch::Sender<usize>,
    /// The task that connects, while there is one.
    driver: Mutex<Option<AbortHandle>>,
}

/// What a transport has connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connected {
    /// The number of the last connection that was established, from 1; 0 before the first.
    pub generation: u64,
    /// Whether it takes calls still.
    pub stands: bool,
}

enum State {
    Idle,
    /// The error is that of the attempt before.
    Connecting(Option<Arc<DialError>>),
    Failed(Arc<DialError>),
    Ready(Link),
}

impl State {
    fn connecting(&mut self) {
        let last = self.failure();
        *self = Self::Connecting(last);
    }

    fn failure(&self) -> Option<Arc<DialError>> {
        match self {
            Self::Connecting(last) => last.clone(),
            Self::Failed(error) => Some(Arc::clone(error)),
            Self::Idle | Self::Ready(_) => None,
        }
    }
}

/// Nobody is reached at an address.
#[derive(Debug, Error)]
#[error("{address} is not reached")]
pub struct Unreachable {
    address: Address,
    #[source]
    source: Option<Arc<DialError>>,
}

/// Whether a call waits for a transport that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Until its time is over, however many attempts to connect fail.
    WaitForReady,
    /// Until the attempt under way has failed, or not at all where the last one has.
    FailFast,
}

impl Transport {
    /// A transport to that address, not connected yet. `dial_timeout` is the time for one attempt,
    /// from the first packet to the other side's first word.
    pub fn new(address: Address, dial_timeout: Duration) -> Self {
        Self::resting(address, dial_timeout, None)
    }

    /// One that gives up its connection after a time without a call.
    pub(crate) fn resting(
        address: Address,
        dial_timeout: Duration,
        rest_after: Option<Duration>,
    ) -> Self {
        Self {
            handle: Arc::new(Handle {
                shared: Arc::new(Shared {
                    address,
                    dial_timeout,
                    rest_after,
                    state: watch::Sender::new(State::Idle),
                    connected: watch::Sender::default(),
                    calls: watch::Sender::new(0),
                    driver: Mutex::default(),
                }),
            }),
        }
    }

    /// Where it leads.
    pub fn address(&self) -> &Address {
        &self.handle.shared.address
    }

    /// Connects, if it is not connected, and tells of each connection that is established, and of
    /// its end. The receiver fails when the last clone of the transport is dropped.
    ///
    /// Has to be called within a tokio runtime.
    pub fn connected(&self) -> watch::Receiver<Connected> {
        let shared = &self.handle.shared;
        let receiver = shared.connected.subscribe();
        shared.start();
        receiver
    }

    /// Announces a call. While it is under way the transport does not rest.
    pub(crate) fn busy(&self) -> Busy {
        let shared = Arc::clone(&self.handle.shared);
        shared.calls.send_modify(|calls| *calls += 1);
        Busy(shared)
    }

    /// Whether it is not connected, does not try to be, and nobody is about to call.
    pub(crate) fn is_at_rest(&self) -> bool {
        let shared = &self.handle.shared;
        shared.driver().is_none() && *shared.calls.borrow() == 0
    }

    /// Waits for a connection that is younger than the one that `after` names.
    ///
    /// # Errors
    ///
    /// When there is none in time, or none at all for a call that has no patience.
    pub(crate) async fn link(
        &self,
        after: u64,
        until: Instant,
        patience: Patience,
    ) -> Result<Link, Unreachable> {
        let shared = &self.handle.shared;
        let mut state = shared.state.subscribe();
        shared.start();
        let decided = state.wait_for(|state| match state {
            State::Ready(link) => link.generation > after,
            State::Failed(_) => patience == Patience::FailFast,
            State::Idle | State::Connecting(_) => false,
        });
        if let Ok(Ok(state)) = timeout_at(until, decided).await
            && let State::Ready(link) = &*state
        {
            return Ok(link.clone());
        }
        let source = shared.state.borrow().failure();
        Err(Unreachable {
            address: shared.address.clone(),
            source,
        })
    }
}

impl Shared {
    fn driver(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts connecting, unless that is under way.
    fn start(self: &Arc<Self>) {
        let mut driver = self.driver();
        if driver.is_none() {
            let task = tokio::spawn(driver::drive(Arc::clone(self)));
            *driver = Some(task.abort_handle());
        }
    }

    /// Ends the connecting if nobody calls. The driver has to end then.
    fn rest(&self) -> bool {
        // Who calls has announced the call before it looks for the driver.
        let mut driver = self.driver();
        if self.rest_after.is_none() || *self.calls.borrow() > 0 {
            return false;
        }
        *driver = None;
        self.state.send_replace(State::Idle);
        true
    }

    /// Waits until nobody has called for as long as the transport is to be kept.
    async fn unused(&self) {
        let Some(after) = self.rest_after else {
            return std::future::pending().await;
        };
        let mut calls = self.calls.subscribe();
        // The sender is in `self`, so that the receiver does not fail.
        while calls.wait_for(|calls| *calls == 0).await.is_ok() {
            tokio::select! {
                _ = calls.changed() => {}
                () = sleep(after) => return,
            }
        }
    }
}

/// A call that is under way.
pub(crate) struct Busy(Arc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.calls.send_modify(|calls| *calls -= 1);
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &self.handle.shared;
        f.debug_struct("Transport")
            .field("address", &shared.address)
            .field("connected", &*shared.connected.borrow())
            .finish_non_exhaustive()
    }
}
