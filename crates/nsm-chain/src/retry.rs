//! Makes a call again until it succeeds.
//!
//! For whoever wants a connection and has nothing better to do than to wait for it: each attempt
//! has its own deadline, and the attempts go on to the deadline of the call itself. A call without
//! one goes on until its caller goes away.

use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use tokio::time::{Duration, Instant, sleep, timeout_at};
use tower::{Layer, Service, ServiceExt};
use tracing::debug;

use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService};

const ELEMENT: &str = "retry";

/// Makes a call again until it succeeds. See the [module](self).
///
/// It sits on top of a whole client chain. An attempt that is given up is given up for the caller
/// only: what `begin` has started below goes on to its end.
#[derive(Clone, Copy, Debug)]
pub struct RetryLayer {
    attempt: Duration,
    pause: Duration,
}

impl Default for RetryLayer {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(15),
            pause: Duration::from_millis(200),
        }
    }
}

impl RetryLayer {
    /// Attempts of 15 seconds, with pauses of 200 milliseconds.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long one attempt may take.
    #[must_use]
    pub fn attempt(mut self, time: Duration) -> Self {
        self.attempt = time;
        self
    }

    /// How long to wait after an attempt that failed.
    #[must_use]
    pub fn pause(mut self, time: Duration) -> Self {
        self.pause = time;
        self
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Retry<S> {
        Retry {
            inner,
            layer: *self,
        }
    }
}

/// The service of [`RetryLayer`].
///
/// # Errors
///
/// * [`ErrorKind::DeadlineExceeded`] when the call's deadline leaves no time for another attempt,
///   with the error of the last one.
/// * [`ErrorKind::InvalidArgument`] and [`ErrorKind::Unimplemented`] from below, at once: to repeat
///   such a call does not help.
///
/// # Cancellation
///
/// When the future is dropped there are no more attempts.
#[derive(Clone, Debug)]
pub struct Retry<S> {
    inner: S,
    layer: RetryLayer,
}

#[derive(Debug, thiserror::Error)]
enum GivenUp {
    #[error("the attempt took too long")]
    Attempt,
    #[error("the time is over after {attempts} attempts, the last of which")]
    Call {
        attempts: u64,
        #[source]
        last: Error,
    },
}

impl<S: NetworkService> Service<Call> for Retry<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    /// Always ready: each attempt waits for what is below.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let Self { inner, layer } = self.clone();
        Box::pin(async move {
            let end = call.deadline;
            let mut attempts = 0;
            loop {
                attempts += 1;
                let error = match layer.attempt_once(&inner, &call).await {
                    Err(error) if may_help(error.kind()) => error,
                    answer => return answer,
                };
                let left = |end: Instant| end.saturating_duration_since(Instant::now());
                if end.is_some_and(|end| left(end) <= layer.pause) {
                    let last = GivenUp::Call {
                        attempts,
                        last: error,
                    };
                    return Err(Error::new(ErrorKind::DeadlineExceeded, ELEMENT, last));
                }
                debug!(error = %error.report(), attempts, "it is tried again");
                sleep(layer.pause).await;
            }
        })
    }
}

impl RetryLayer {
    async fn attempt_once<S: NetworkService>(
        self,
        inner: &S,
        call: &Call,
    ) -> Result<Connection, Error> {
        // What ends after tokio's time does has no end.
        let own = Instant::now().checked_add(self.attempt);
        let deadline = call.deadline.into_iter().chain(own).min();
        let attempt = inner.clone().oneshot(Call {
            deadline,
            ..call.clone()
        });
        let Some(deadline) = deadline else {
            return attempt.await;
        };
        let given_up = |_| {
            let why = GivenUp::Attempt;
            Err(Error::new(ErrorKind::DeadlineExceeded, ELEMENT, why))
        };
        timeout_at(deadline, attempt).await.unwrap_or_else(given_up)
    }
}

/// Whether a call that failed so may succeed when it is repeated.
fn may_help(kind: ErrorKind) -> bool {
    !matches!(kind, ErrorKind::InvalidArgument | ErrorKind::Unimplemented)
}
