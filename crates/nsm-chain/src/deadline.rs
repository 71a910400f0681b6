//! Gives every call a deadline, and answers its caller no later.

use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use tokio::time::{Duration, Instant, timeout_at};
use tower::{Layer, Service};

use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService, take_ready};

/// Gives a call that has no deadline one, and stops waiting at the deadline.
///
/// It sits above `begin`: only the waiting stops, what begin has started goes on to its end.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineLayer {
    default: Duration,
}

impl DeadlineLayer {
    /// `default` is the time for a call that comes without a deadline.
    pub fn new(default: Duration) -> Self {
        Self { default }
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Deadline<S> {
        Deadline {
            inner,
            default: self.default,
        }
    }
}

/// The service of [`DeadlineLayer`].
///
/// # Errors
///
/// [`ErrorKind::DeadlineExceeded`] at the deadline.
#[derive(Clone, Debug)]
pub struct Deadline<S> {
    inner: S,
    default: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("the connection was not answered for in time")]
struct TooLate;

impl<S: NetworkService> Service<Call> for Deadline<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let deadline = *call
            .deadline
            .get_or_insert_with(|| Instant::now() + self.default);
        Box::pin(async move {
            timeout_at(deadline, inner.call(call))
                .await
                .unwrap_or_else(|_| {
                    Err(Error::new(ErrorKind::DeadlineExceeded, "deadline", TooLate))
                })
        })
    }
}
