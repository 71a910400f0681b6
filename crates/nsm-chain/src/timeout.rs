//! Closes a connection that nobody asks for again.
//!
//! The hop before says with its token how long it stands for the connection (see
//! [`token`](crate::token)). When that time is nearly over and it has not asked again, it is gone,
//! or has lost the connection, and so the connection is closed: early enough that the close, which
//! has the full time of the first request, is through when the token ends. A token that ends so
//! soon that this would close what is refreshed in time leaves half its life to the caller.
//!
//! A hop stands for a connection no longer than by its own token, so that this one ends it at the
//! latest, where [`token`](crate::token) has written one. It is also what counts where the token of
//! the hop before has ended already when it comes: the clocks differ then, and whoever asks is
//! there. Once it is set, no step of a clock moves the time.
//!
//! * A request that succeeds starts the time anew, one that fails leaves it as it was.
//! * A close that succeeds ends it. After one that ran out of time the timer stays, and closes
//!   again at its time.
//! * A close of our own that fails is tried again, after longer and longer pauses. In the end the
//!   hops behind have closed by their own timers, and the connection is forgotten.
//!
//! A connection that starts in this process has no hop before it, and no end but that of our own
//! token.

use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::ConnectionId;
use nsm_api::connection::{Connection, PathSegment};
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tower::{Layer, Service};
use tracing::{info, warn};

use crate::begin::Events;
use crate::timers::{BackOff, Timers, time_until};
use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};

/// How often a close of our own is tried: for about ten minutes.
const ATTEMPTS: usize = 15;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Closes a connection at the end of the token of the hop before. See the [module](self).
///
/// It sits below `begin` and [`token`](crate::token), on a server side. The layer holds the timers:
/// services made by one layer, or by its clones, share them.
#[derive(Clone, Debug, Default)]
pub struct TimeoutLayer {
    timers: Arc<Timers>,
}

impl TimeoutLayer {
    /// A layer without timers.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many connections have a timer.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout {
            inner,
            timers: Arc::clone(&self.timers),
        }
    }
}

/// The service of [`TimeoutLayer`].
///
/// # Errors
///
/// * [`ErrorKind::InvalidArgument`]: the hop before has not said when its token ends, or it has
///   ended already and there is none of our own; or the connection has no id. The request does not
///   go on then.
/// * [`ErrorKind::Internal`]: there is no `begin` above.
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    inner: S,
    timers: Arc<Timers>,
}

#[derive(Debug, thiserror::Error)]
enum Wrong {
    #[error("{hop:?}, the hop before, has not said when its token ends")]
    NoEnd { hop: String },
    #[error("the token of {hop:?}, the hop before, has ended already, if its clock and ours agree")]
    Ended { hop: String },
}

impl<S: NetworkService> Service<Call> for Timeout<S> {
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
                .map_err(|empty| Error::new(ErrorKind::InvalidArgument, "timeout", empty))?;
            match call.operation {
                Operation::Request(_) => {
                    let end = end(&call)?;
                    let events = Events::of(&call, "timeout")?;

                    let connection = inner.call(call).await?;

                    match end {
                        Some(end) => timers.set(id.clone(), close_at(end, id, events)),
                        None => timers.cancel(&id),
                    }
                    Ok(connection)
                }
                Operation::Close(_) => {
                    // After a close that failed the timer either finds the connection, and closes
                    // it, or learns that it is not known any more, and ends.
                    let closed = inner.call(call).await?;
                    timers.cancel(&id);
                    Ok(closed)
                }
            }
        })
    }
}

/// When the connection of a request is to be closed.
fn end(call: &Call) -> Result<Option<Instant>, Error> {
    let life = life(call.connection())
        .map_err(|wrong| Error::new(ErrorKind::InvalidArgument, "timeout", wrong))?;
    let Some(life) = life else {
        return Ok(None);
    };
    let now = Instant::now();
    let for_the_close = call
        .deadline
        .map(|deadline| deadline.saturating_duration_since(now))
        .unwrap_or_default();
    let after = life - for_the_close.min(life / 2);
    // What ends after tokio's time does has no end.
    Ok(now.checked_add(after))
}

/// How long the hop before stands for a connection, and we do.
fn life(connection: &Connection) -> Result<Option<Duration>, Wrong> {
    let life = |segment: &PathSegment| segment.expires.as_ref().and_then(time_until);
    let ours = connection.current_segment().and_then(life);
    let Some(previous) = connection.previous_segment() else {
        return Ok(ours);
    };
    let hop = || previous.name.clone();
    let theirs = life(previous).ok_or_else(|| Wrong::NoEnd { hop: hop() })?;
    match ours {
        None if theirs.is_zero() => Err(Wrong::Ended { hop: hop() }),
        Some(ours) if theirs.is_zero() || theirs > ours => Ok(Some(ours)),
        _ => Ok(Some(theirs)),
    }
}

async fn close_at(end: Instant, id: ConnectionId, events: Events) {
    sleep_until(end).await;
    info!(connection.id = %id, "nobody has asked for the connection again: it is closed");
    let mut back_off = BackOff::up_to(LONGEST_PAUSE);
    for _ in 0..ATTEMPTS {
        match events.close().await {
            Ok(_) => return,
            Err(error) => {
                warn!(connection.id = %id, error = %error.report(), "close failed");
            }
        }
        sleep(back_off.pause()).await;
    }
    warn!(connection.id = %id, "the connection could not be closed and is forgotten");
    events.forget().await;
}
