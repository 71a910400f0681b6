//! Asks again for a connection before it ends.
//!
//! Each hop of a path says with its token how long it stands for the connection (see
//! [`token`](crate::token)). After a request that succeeds the connection is asked for again when a
//! part of the shortest of these times is over:
//!
//! * a third, on a path of one hop, and otherwise a fifth, and up to two fifths the further along
//!   the path we are: whoever is nearer to the client comes first, and his refresh is one for all
//!   hops behind him. Up to a twentieth of it is left out by chance, so that connections that came
//!   up together drift apart;
//! * a second at the least, if that is in time: a peer whose clock is behind makes no storm.
//!
//! A refresh that fails is tried again after one second, and after longer and longer pauses up to a
//! quarter of the time that there was, until it succeeds, or the connection is closed. A request of
//! a caller starts the time anew.

use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::ConnectionId;
use nsm_api::connection::{Connection, Path};
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tower::{Layer, Service};
use tracing::warn;

use crate::begin::Events;
use crate::timers::{BackOff, Timers, chance, time_until};
use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Asks again for a connection before it ends. See the [module](self).
///
/// It sits below `begin`, on the client side of the process that wants the connection; the hops
/// behind refresh by being asked. The layer holds the timers: services made by one layer, or by
/// its clones, share them.
#[derive(Clone, Debug, Default)]
pub struct RefreshLayer {
    timers: Arc<Timers>,
}

impl RefreshLayer {
    /// A layer without timers.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many connections have a timer.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }
}

impl<S> Layer<S> for RefreshLayer {
    type Service = Refresh<S>;

    fn layer(&self, inner: S) -> Refresh<S> {
        Refresh {
            inner,
            timers: Arc::clone(&self.timers),
        }
    }
}

/// The service of [`RefreshLayer`].
///
/// # Errors
///
/// * [`ErrorKind::InvalidArgument`]: the connection has no id.
/// * [`ErrorKind::Internal`]: there is no `begin` above.
#[derive(Clone, Debug)]
pub struct Refresh<S> {
    inner: S,
    timers: Arc<Timers>,
}

impl<S: NetworkService> Service<Call> for Refresh<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let timers = Arc::clone(&self.timers);
        Box::pin(async move {
            let id = call
                .connection_id()
                .map_err(|empty| Error::new(ErrorKind::InvalidArgument, "refresh", empty))?;
            match call.operation {
                Operation::Request(_) => {
                    let events = Events::of(&call, "refresh")?;

                    let connection = inner.call(call).await?;

                    let path = connection.path.as_ref();
                    match path.and_then(|path| Schedule::of(path, chance())) {
                        Some(schedule) => timers.set(id.clone(), schedule.keep(id, events)),
                        None => timers.cancel(&id),
                    }
                    Ok(connection)
                }
                Operation::Close(_) => {
                    timers.cancel(&id);
                    inner.call(call).await
                }
            }
        })
    }
}

/// When to ask again.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Schedule {
    /// The time until the next request.
    after: Duration,
    /// The longest pause after a request that failed.
    longest_pause: Duration,
}

impl Schedule {
    /// `chance`, from 0 to 1, says how much of the variation is left out. `None` if no hop has said
    /// when its token ends.
    fn of(path: &Path, chance: f64) -> Option<Self> {
        let stamps = path
            .path_segments
            .iter()
            .filter_map(|segment| segment.expires.as_ref());
        let life = stamps.filter_map(time_until).min()?;
        let hops = path.path_segments.len();
        let part = if hops == 1 {
            1.0 / 3.0
        } else {
            0.2 + 0.2 * (f64::from(path.index) / hops as f64).min(1.0)
        };
        let in_time = if life.is_zero() { SHORTEST } else { life / 3 };
        Some(Self {
            after: life
                .mul_f64(part * (1.0 - chance / 20.0))
                .max(SHORTEST.min(in_time)),
            longest_pause: (life / 4).min(LONGEST_PAUSE),
        })
    }

    /// Asks for the connection until it is told that this is not its business any more: a refresh
    /// that succeeds has replaced this timer from within.
    async fn keep(self, id: ConnectionId, events: Events) {
        // What is due after tokio's time ends is never due.
        let Some(due) = Instant::now().checked_add(self.after) else {
            return;
        };
        sleep_until(due).await;
        let mut back_off = BackOff::up_to(self.longest_pause);
        while let Err(error) = events.request().await {
            let pause = back_off.pause();
            warn!(connection.id = %id, error = %error.report(), ?pause, "refresh failed");
            sleep(pause).await;
        }
    }
}
