//! Keeps a transport connected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep, timeout};

use super::backoff::Backoff;
use super::dial::{DialError, Dialled, dial};
use super::keepalive::Keepalive;
use super::link::Link;
use super::{Connected, Shared, State};
use crate::Address;

/// The first wait after a failure, and the longest. To look for a unix socket costs next to
/// nothing, and who waits there waits for a process that starts anew.
const UNIX: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(300));
const TCP: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// What became of a connection.
enum Ended {
    /// It has broken, or was closed by the other side.
    Lost,
    /// It takes no more calls.
    Retired,
    /// Nobody has called for a while.
    Unused,
}

/// Connects, and connects again when the connection ends, until nobody needs it.
///
/// `Idle -> Connecting -> Ready -> Connecting`, `Connecting -> Failed -> Connecting`, and to
/// `Idle` from wherever nobody calls, if the transport is one that rests.
pub(super) async fn drive(shared: Arc<Shared>) {
    let (first, longest) = match &shared.address {
        Address::Unix(_) => UNIX,
        Address::Tcp(_) => TCP,
    };
    let mut backoff = Backoff::new(first, longest);
    loop {
        shared.state.send_modify(|state| state.connecting());
        let dialled = timeout(shared.dial_timeout, dial(&shared.address))
            .await
            .unwrap_or(Err(DialError::TimedOut(shared.dial_timeout)));
        let wait = match dialled {
            Ok(dialled) => {
                let since = Instant::now();
                let served = Arc::default();
                if let Ended::Unused = stand(&shared, dialled, &served).await {
                    return;
                }
                // The successor may listen already. But a connection that breaks at once is no
                // reason for another one at once.
                match backoff.stood(since.elapsed(), served.load(Relaxed)) {
                    true => Duration::ZERO,
                    false => backoff.wait(fastrand::f64()),
                }
            }
            Err(error) => {
                tracing::debug!(
                    address = %shared.address,
                    error = %nsm_chain::ErrorChain(&error),
                    "not connected"
                );
                shared.state.send_replace(State::Failed(Arc::new(error)));
                if shared.rest() {
                    return;
                }
                backoff.wait(fastrand::f64())
            }
        };
        sleep(wait).await;
    }
}

/// Offers a connection until it ends.
async fn stand(shared: &Shared, dialled: Dialled, served: &Arc<AtomicBool>) -> Ended {
    let mut connection = dialled.connection;
    let generation = shared.connected.borrow().generation + 1;
    let retired = Arc::new(Notify::new());
    shared.state.send_replace(State::Ready(Link {
        sender: dialled.sender,
        peer: dialled.peer,
        hang_up: dialled.hang_up,
        generation,
        retired: Arc::clone(&retired),
        served: Arc::clone(served),
        room: dialled.room,
        keepalive: Arc::new(Keepalive::of(dialled.cut)),
    }));
    shared.connected.send_replace(Connected {
        generation,
        stands: true,
    });
    tracing::debug!(address = %shared.address, generation, "connected");
    let ended = loop {
        tokio::select! {
            _ = &mut connection => break Ended::Lost,
            () = retired.notified() => break Ended::Retired,
            () = shared.unused() => if shared.rest() {
                break Ended::Unused;
            }
        }
    };
    shared
        .connected
        .send_modify(|connected| connected.stands = false);
    tracing::debug!(
        address = %shared.address,
        generation,
        "{}",
        match ended {
            Ended::Lost => "the connection is lost",
            Ended::Retired => "the connection takes no more calls",
            Ended::Unused => "the connection is not used any more",
        }
    );
    ended
}
