//! The rest of the chain, as `begin` calls it.

use nsm_api::connection::Connection;
use tower::ServiceExt;
use tracing::Instrument;

use super::attempt::{Attempt, Interim};
use super::events::Events;
use crate::{Call, Error, ErrorKind, NetworkService, Operation, TimeBudget};

pub(super) struct Below<S> {
    inner: S,
    events: Events,
}

/// What becomes of what a failed request has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnFailure {
    /// Something stood before the request, or may stand: it stays.
    Leave,
    /// There was nothing before: all that there is now is closed.
    Close,
}

#[derive(Debug, thiserror::Error)]
#[error("what the request had made could not be closed ({}), after", close.report())]
struct NotUndone {
    close: Error,
    source: Error,
}

impl<S: NetworkService> Below<S> {
    pub(super) fn new(inner: S, events: Events) -> Self {
        Self { inner, events }
    }

    /// Makes a request, and closes downstream, once, if it fails and so was told. The close has
    /// the full time of `budget`: the request may have failed for want of time.
    pub(super) async fn request(
        &self,
        mut call: Call,
        budget: TimeBudget,
        on_failure: OnFailure,
    ) -> Result<Connection, Error> {
        let attempt = Attempt::default();
        call.extensions.insert(attempt.clone());
        let mut close = Call {
            operation: Operation::Close(call.connection().clone()),
            ..call.clone()
        };
        let error = match self.call(call).await {
            Err(error) if on_failure == OnFailure::Close => error,
            answer => return answer,
        };
        attempt.complete(close.connection_mut());
        close.deadline = budget.deadline();
        close.extensions.insert(Interim);
        match self.call(close).await {
            Ok(_) => Err(error),
            Err(close) => {
                let source = error;
                Err(Error::new(
                    source.kind(),
                    "begin",
                    NotUndone { close, source },
                ))
            }
        }
    }

    /// Calls the rest of the chain in a task of its own, so that a panic there ends here.
    pub(super) async fn call(&self, mut call: Call) -> Result<Connection, Error> {
        call.extensions.insert(self.events.clone());
        // Readiness is waited for here and not in `poll_ready`: whoever holds a slot of a limit
        // below while he waits for his turn keeps it from the one whose turn it is.
        let work = self.inner.clone().oneshot(call).in_current_span();
        match tokio::spawn(work).await {
            Ok(answer) => answer,
            Err(stopped) => {
                let kind = if stopped.is_panic() {
                    ErrorKind::Internal
                } else {
                    ErrorKind::Cancelled
                };
                Err(Error::new(kind, "begin", stopped))
            }
        }
    }
}
