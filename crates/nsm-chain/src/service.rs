//! The one service type that a chain is made of.

use std::future::{Ready, ready};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use tower::Service;
use tower::util::BoxCloneSyncService;

use crate::{Call, Error, Operation};

/// A chain, or any part of one that goes to its end.
///
/// Every [`tower::Service`] of that shape is one. The answer to a request is the connection as
/// it stands, the answer to a close is the connection that was closed. Both are safe to repeat,
/// and a close of something unknown or half-made succeeds.
pub trait NetworkService:
    Service<Call, Response = Connection, Error = Error, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> NetworkService for S
where
    S: Service<Call, Response = Connection, Error = Error> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
}

/// A chain whose type is hidden.
pub type BoxNetworkService = BoxCloneSyncService<Call, Connection, Error>;

/// What the elements answer with.
///
/// A chain handles a few calls per second, so an allocation for each element is noise, and
/// the body of an element reads as prose.
pub type BoxFuture = Pin<Box<dyn Future<Output = Result<Connection, Error>> + Send>>;

/// The side of its process that a chain serves.
///
/// A forwarder has both: a server chain whose end calls a client chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The chain answers the hop before.
    Server,
    /// The chain calls the hop behind.
    Client,
}

/// Takes out the service that was polled to readiness and leaves a clone for the next call.
///
/// Readiness belongs to the instance that was polled. A fresh clone has none, and calling one
/// panics under some of tower's layers.
///
/// ```
/// # use nsm_chain::{BoxFuture, Call, Error, NetworkService, take_ready};
/// # struct Element<S>(S);
/// # impl<S: NetworkService> Element<S> {
/// fn call(&mut self, call: Call) -> BoxFuture {
///     let mut inner = take_ready(&mut self.0);
///     Box::pin(async move { inner.call(call).await })
/// }
/// # }
/// ```
pub fn take_ready<S: Clone>(service: &mut S) -> S {
    let clone = service.clone();
    mem::replace(service, clone)
}

/// Ends a chain: answers with the connection of the call, unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct End;

impl Service<Call> for End {
    type Response = Connection;
    type Error = Error;
    type Future = Ready<Result<Connection, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        ready(Ok(match call.operation {
            Operation::Request(request) => request.connection.unwrap_or_default(),
            Operation::Close(connection) => connection,
        }))
    }
}
