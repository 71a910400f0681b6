//! From the generated service to a monitor.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::{Stream, StreamExt};
use nsm_api::connection::monitor_connection_server as grpc;
use nsm_api::connection::{ConnectionEvent, MonitorScopeSelector};
use nsm_chain::monitor::{Monitor, Subscription};
use prost::Message;
use tonic::{Request, Response, Status};

/// How large a selector may be, in bytes. It is kept for as long as somebody listens, and names a
/// segment or a few.
pub(super) const SELECTOR_LIMIT: usize = 64 << 10;

/// The generated service over a monitor.
#[derive(Clone)]
pub(super) struct Monitoring {
    pub(super) monitor: Monitor,
    pub(super) message_limit: usize,
}

#[tonic::async_trait]
impl grpc::MonitorConnection for Monitoring {
    type MonitorConnectionsStream = Events;

    async fn monitor_connections(
        &self,
        request: Request<MonitorScopeSelector>,
    ) -> Result<Response<Events>, Status> {
        Ok(Response::new(Events {
            subscription: self.monitor.subscribe(request.into_inner()),
            message_limit: self.message_limit,
            has_failed: false,
        }))
    }
}

/// What one who listens is told. Nothing drives it but the connection it goes over, so that it ends
/// with that one, or with the stream, without an event.
pub(super) struct Events {
    subscription: Subscription,
    message_limit: usize,
    has_failed: bool,
}

impl Stream for Events {
    type Item = Result<ConnectionEvent, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_failed {
            return Poll::Ready(None);
        }
        let failure = match ready!(self.subscription.poll_next_unpin(cx)) {
            Some(event) => match too_large(&event, self.message_limit) {
                None => return Poll::Ready(Some(Ok(event))),
                Some(failure) => failure,
            },
            None if self.subscription.fell_behind() => {
                Status::resource_exhausted("too many events have not been read: ask again")
            }
            None => return Poll::Ready(None),
        };
        self.has_failed = true;
        Poll::Ready(Some(Err(failure)))
    }
}

fn too_large(event: &ConnectionEvent, limit: usize) -> Option<Status> {
    let bytes = event.encoded_len();
    (bytes > limit).then(|| {
        Status::resource_exhausted(format!(
            "{} connections are too many for one event: it has {bytes} bytes, the limit is: {limit} \
             bytes; select fewer",
            event.connections.len()
        ))
    })
}
