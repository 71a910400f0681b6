//! Keeps a monitor up to date.

use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use tower::{Layer, Service};

use super::hub::Monitor;
use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};

/// Tells a [`Monitor`] of each connection that passes. See the [module](super).
///
/// It sits on a server side, below `begin` and what gives the connection its id and tokens, above
/// everything that gives it a meaning.
#[derive(Clone, Debug, Default)]
pub struct MonitorLayer {
    monitor: Monitor,
}

impl MonitorLayer {
    /// Tells that monitor.
    pub fn new(monitor: Monitor) -> Self {
        Self { monitor }
    }
}

impl<S> Layer<S> for MonitorLayer {
    type Service = Monitored<S>;

    fn layer(&self, inner: S) -> Monitored<S> {
        Monitored {
            inner,
            monitor: self.monitor.clone(),
        }
    }
}

/// The service of [`MonitorLayer`].
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if the connection has no id; those from below.
#[derive(Clone, Debug)]
pub struct Monitored<S> {
    inner: S,
    monitor: Monitor,
}

impl<S: NetworkService> Service<Call> for Monitored<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let monitor = self.monitor.clone();
        Box::pin(async move {
            let id = call
                .connection_id()
                .map_err(|empty| Error::new(ErrorKind::InvalidArgument, "monitor", empty))?;
            match call.operation {
                Operation::Request(_) => {
                    let requested = monitor.request(id);
                    let connection = inner.call(call).await?;
                    requested.stands(connection.clone());
                    Ok(connection)
                }
                Operation::Close(_) => {
                    let closed = inner.call(call).await;
                    // Whatever became of it: this hop knows the connection no more.
                    monitor.delete(&id);
                    closed
                }
            }
        })
    }
}
