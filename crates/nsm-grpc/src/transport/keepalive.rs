//! Makes sure that the other side of a connection is there.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Duration, sleep, timeout};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::link::{Wire, origin};
use crate::failure::Failure;

/// The pause between an answer and the next question.
const INTERVAL: Duration = Duration::from_secs(5);

/// How long the other side may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the other side of a connection whether it is there for as long as somebody listens to it,
/// and cuts the connection off when it does not answer: 10 s after its last answer at the latest.
/// Who listens hears nothing for hours, and would never learn that a peer is frozen, or that
/// somebody drops the packets.
///
/// The question is a call of the health service, and whatever comes back is an answer. An HTTP/2
/// ping asks for less, but Go servers end a connection with `ENHANCE_YOUR_CALM` whose pings come
/// more often than every five minutes (grpc-go, `keepalive.EnforcementPolicy`), which nobody wants
/// to wait for. Calls are no pings.
pub(super) struct Keepalive {
    state: Mutex<State>,
}

struct State {
    listeners: usize,
    /// Asks while somebody listens.
    asking: Option<AbortHandle>,
    cut: Option<oneshot::Sender<io::Error>>,
}

impl Keepalive {
    /// That of a connection which `cut` cuts off.
    pub(super) fn of(cut: oneshot::Sender<io::Error>) -> Self {
        Self {
            state: Mutex::new(State {
                listeners: 0,
                asking: None,
                cut: Some(cut),
            }),
        }
    }

    /// Somebody listens over a connection that has room for so many calls and streams.
    pub(super) fn listen(
        self: &Arc<Self>,
        room: usize,
        wire: impl FnOnce() -> Wire,
    ) -> Result<Listening, Full> {
        let mut state = self.lock();
        // A quarter is for calls.
        if state.listeners >= room - room.div_ceil(4) {
            return Err(Full {
                streams: state.listeners,
                room,
            });
        }
        state.listeners += 1;
        if state.asking.is_none() {
            let asking = tokio::spawn(Arc::clone(self).ask(wire()));
            state.asking = Some(asking.abort_handle());
        }
        Ok(Listening(Arc::clone(self)))
    }

    async fn ask(self: Arc<Self>, wire: Wire) {
        loop {
            sleep(INTERVAL).await;
            if timeout(TIMEOUT, answer(&wire)).await.is_err() {
                break;
            }
        }
        if let Some(cut) = self.lock().cut.take() {
            // The connection may have ended meanwhile.
            let _ = cut.send(io::Error::new(io::ErrorKind::TimedOut, Silent));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks once. There is no end to it without an answer.
async fn answer(wire: &Wire) {
    let mut health = HealthClient::with_origin(wire.clone(), origin());
    let asked = health.check(HealthCheckRequest::default()).await;
    match asked.map_err(Failure::of) {
        Ok(_) | Err(Failure::Refused(_)) => {}
        // The connection takes no more calls: it has to end soon.
        Err(_) => std::future::pending().await,
    }
}

/// Somebody listens to a connection.
pub(crate) struct Listening(Arc<Keepalive>);

impl Drop for Listening {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.listeners -= 1;
        if state.listeners == 0
            && let Some(asking) = state.asking.take()
        {
            asking.abort();
        }
    }
}

/// The other side is silent.
#[derive(Debug, Error)]
#[error("it was asked whether it is there, and has not answered within {TIMEOUT:?}")]
struct Silent;

/// There is no room for a stream.
#[derive(Debug, Error)]
#[error(
    "there are {streams} streams over the connection, and the other side takes no more than {room} \
     calls and streams at once"
)]
pub(crate) struct Full {
    streams: usize,
    room: usize,
}
