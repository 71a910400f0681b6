//! Where the work on a connection begins: one call at a time, and each to its end.
//!
//! Below `begin` an element need not think of other calls for the same connection, of a caller
//! that goes away, or of the elements around it:
//!
//! * **In turn.** Calls and [events](Events) for one connection id are handled one after the
//!   other, in the order in which they came. Different connections go in parallel. The queue of
//!   a connection is bounded.
//! * **To the end.** The work is done in a task of its own. A caller that goes away stops
//!   waiting, not the work. A request whose deadline has passed before its turn is refused; a
//!   close gets its full time from when its turn comes.
//! * **Undone once.** When a *first* request fails, the connection is closed downstream, with
//!   the full time that the request had. When a refresh fails, the connection stands as before.
//!   A request for a connection that is new here but not elsewhere (its path goes on behind us,
//!   or its mechanism is chosen) is a *return* after a restart: it stands elsewhere, so when a
//!   return fails nothing is closed.
//! * **A panic** below is an error of kind [`Internal`](ErrorKind::Internal), and counts as any
//!   other failure.
//!
//! What is known of a connection is the last request that succeeded and its answer. A close goes
//! down with the connection that is known, not with the caller's; if none is known it goes down
//! with the caller's, for this is how a client says goodbye after a restart of ours. After a
//! close nothing is known, even if it failed. Only what a server side closed and ran out of time
//! with stays known, as closed, so that [`timeout`](crate::timeout) can close it once more.
//!
//! On the client side, only what a caller changed in the context and in the endpoint's name
//! counts when it asks again, for refreshes and heals go on without it. On the server side the
//! request of the hop before is taken as it is; with a state of `RESELECT_REQUESTED` the
//! connection that stands is closed downstream first, and the state of an answer is `UP`.
//!
//! Calls that come by again inside the chain pass: their turn has come already.

mod attempt;
mod below;
mod events;
mod memory;
mod merge;
mod queue;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::{Connection, State};
use tokio::sync::oneshot;
use tower::{Layer, Service, ServiceExt};
use tracing::Span;

pub(crate) use attempt::Attempt;
pub use attempt::{AnswerLayer, Answered, Interim};
pub use events::{Events, Outcome};
use queue::{Job, Queues};
use worker::Worker;

use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService, Side};

/// Lets one call at a time at a connection, and each go to its end. See the [module](self).
///
/// It sits below [`update_path`](crate::update_path), which gives the connection its id here, and
/// above everything that keeps something for a connection. The layer holds what is known:
/// services made by one layer, or by its clones, share it.
#[derive(Clone, Debug)]
pub struct BeginLayer {
    queues: Arc<Queues>,
    settings: Settings,
}

#[derive(Clone)]
struct Settings {
    side: Side,
    queue: usize,
    reselect: Arc<dyn Fn(&mut Connection) + Send + Sync>,
}

impl BeginLayer {
    /// A layer for chains of that side, with no connection known and queues of 32.
    pub fn new(side: Side) -> Self {
        Self {
            queues: Arc::default(),
            settings: Settings {
                side,
                queue: 32,
                reselect: Arc::new(reselect),
            },
        }
    }

    /// How many calls and events may wait for one connection, besides the one at work; at least 1.
    #[must_use]
    pub fn queue(mut self, length: usize) -> Self {
        self.settings.queue = length.max(1);
        self
    }

    /// What [`Events::reselect`] does to the connection before it is asked for again, in
    /// place of [`reselect`].
    #[must_use]
    pub fn reselect(mut self, reselect: impl Fn(&mut Connection) + Send + Sync + 'static) -> Self {
        self.settings.reselect = Arc::new(reselect);
        self
    }

    /// How many connections are known, or have work going on.
    pub fn connections(&self) -> usize {
        self.queues.len()
    }
}

/// Lets the mesh choose endpoint and mechanism anew.
pub fn reselect(connection: &mut Connection) {
    connection.mechanism = None;
    connection.network_service_endpoint_name.clear();
    connection.set_state(State::ReselectRequested);
}

impl<S> Layer<S> for BeginLayer {
    type Service = Begin<S>;

    fn layer(&self, inner: S) -> Begin<S> {
        Begin {
            inner,
            queues: Arc::clone(&self.queues),
            settings: self.settings.clone(),
        }
    }
}

/// The service of [`BeginLayer`].
///
/// # Errors
///
/// * [`ErrorKind::InvalidArgument`]: the connection has no id.
/// * [`ErrorKind::ResourceExhausted`]: too many calls wait for the connection.
/// * [`ErrorKind::DeadlineExceeded`]: the time was over before the call's turn came.
/// * [`ErrorKind::Internal`]: an element below panicked.
/// * [`ErrorKind::Cancelled`]: the runtime ends.
/// * Any error from below. If a failed request could not be undone either, the error says both.
///
/// An error that comes when the caller has gone is logged.
///
/// # Cancellation
///
/// The work is handed over in `call`, before the future is polled: dropping the future never
/// stops it.
///
/// # Panics
///
/// Outside of a tokio runtime.
#[derive(Clone, Debug)]
pub struct Begin<S> {
    inner: S,
    queues: Arc<Queues>,
    settings: Settings,
}

#[derive(Debug, thiserror::Error)]
#[error("the runtime ended before the call did")]
struct Ended;

impl<S: NetworkService> Service<Call> for Begin<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    /// Always ready: whoever waits for a turn must not hold a place below.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        if call.extensions.get::<Events>().is_some() {
            return Box::pin(self.inner.clone().oneshot(call));
        }
        let answer = self.enqueue(call);
        Box::pin(async move {
            let ended = |_| Err(Error::new(ErrorKind::Cancelled, "begin", Ended));
            answer?.await.unwrap_or_else(ended)
        })
    }
}

impl<S: NetworkService> Begin<S> {
    fn enqueue(&self, call: Call) -> Result<oneshot::Receiver<Result<Connection, Error>>, Error> {
        let id = call
            .connection_id()
            .map_err(|empty| Error::new(ErrorKind::InvalidArgument, "begin", empty))?;
        let (reply, answer) = oneshot::channel();
        let job = Job::Call {
            budget: call.time_budget(),
            call,
            reply,
            span: Span::current(),
        };
        self.queues.add(id, job, |id| {
            Worker::start(id, self.inner.clone(), self.settings.clone(), &self.queues)
        })?;
        Ok(answer)
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("side", &self.side)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
