//! What a request leaves for the close that undoes it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::Extensions;
use nsm_api::connection::{Connection, Path};
use tower::{Layer, Service};

use crate::{BoxFuture, Call, Error, NetworkService, Operation, take_ready};

/// In the extensions of a close that is not the end of the connection: what stands makes place for
/// something else, or what a request had made is undone. Who works on the connection by events goes
/// on.
#[derive(Clone, Copy, Debug)]
pub struct Interim;

/// A place that a request and the close that undoes it have in common.
///
/// An element below that fails takes the answer from further below with it, and elements forget
/// a connection whose first request fails. The close needs both.
#[derive(Clone, Default)]
pub(crate) struct Attempt(Arc<Mutex<Extensions>>);

impl Attempt {
    /// Leaves something.
    pub(crate) fn leave(&self, leave: impl FnOnce(&mut Extensions)) {
        leave(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What was left.
    pub(crate) fn left<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.get().cloned()
    }

    /// Names the hops behind us, if they have answered.
    pub(super) fn complete(&self, connection: &mut Connection) {
        if let Some(answer) = self.left::<Answer>() {
            connection.path = answer.path;
            connection.network_service_endpoint_name = answer.endpoint;
        }
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").finish_non_exhaustive()
    }
}

/// Where the hops behind us led.
#[derive(Clone)]
struct Answer {
    path: Option<Path>,
    endpoint: String,
}

/// Remembers what the next hop answered, for the close of a request that fails above.
///
/// It sits right above what calls the next hop. The ids that the hops behind us gave a new
/// connection are in their answer alone: when an element between fails, `begin` closes the
/// connection with the path that this layer has seen, and the hops behind know what to close.
/// Without the layer they keep it until its token ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerLayer;

impl<S> Layer<S> for AnswerLayer {
    type Service = Answered<S>;

    fn layer(&self, inner: S) -> Answered<S> {
        Answered { inner }
    }
}

/// The service of [`AnswerLayer`].
#[derive(Clone, Debug)]
pub struct Answered<S> {
    inner: S,
}

impl<S: NetworkService> Service<Call> for Answered<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        Box::pin(async move {
            let attempt = match call.operation {
                Operation::Request(_) => call.extensions.get::<Attempt>().cloned(),
                Operation::Close(_) => None,
            };
            let connection = inner.call(call).await?;
            if let Some(attempt) = attempt {
                let answer = Answer {
                    path: connection.path.clone(),
                    endpoint: connection.network_service_endpoint_name.clone(),
                };
                attempt.leave(|left| {
                    left.insert(answer);
                });
            }
            Ok(connection)
        })
    }
}
