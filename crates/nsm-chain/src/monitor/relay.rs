//! Tells on what is heard of a connection from the hop behind.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use http::Extensions;
use nsm_api::ConnectionId;
use nsm_api::connection::{Connection, PathSegment, State};
use tokio::time::{Duration, sleep};
use tower::{Layer, Service};
use tracing::{debug, info};

use super::heard::{Heard, heard};
use super::hub::Monitor;
use super::selector::of_segment;
use super::{EventStream, Watch};
use crate::timers::{BackOff, Timers};
use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};

/// The pauses between attempts to hear from the hop behind.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Watches each connection at the hop behind, and tells a [`Monitor`] when that hop says that the
/// connection is down or to be requested again, or is not heard any more. See the
/// [module](super).
///
/// It sits on the client side of a hop in the middle, below what says where the next hop is, and
/// below the [`MonitorLayer`](super::MonitorLayer) of the same monitor. The layer holds the watches,
/// one for each connection; a request that succeeds begins it anew, and a close ends it.
#[derive(Clone)]
pub struct RelayLayer {
    monitor: Monitor,
    watch: Arc<dyn Watch>,
    watches: Arc<Timers>,
}

impl RelayLayer {
    /// Tells that monitor of what is heard by `watch`.
    pub fn new(monitor: Monitor, watch: impl Watch) -> Self {
        Self {
            monitor,
            watch: Arc::new(watch),
            watches: Arc::default(),
        }
    }

    /// How many connections are watched.
    pub fn watches(&self) -> usize {
        self.watches.len()
    }
}

impl<S> Layer<S> for RelayLayer {
    type Service = Relayed<S>;

    fn layer(&self, inner: S) -> Relayed<S> {
        Relayed {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service of [`RelayLayer`].
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if the connection has no id; those from below.
#[derive(Clone, Debug)]
pub struct Relayed<S> {
    inner: S,
    layer: RelayLayer,
}

impl<S: NetworkService> Service<Call> for Relayed<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let layer = self.layer.clone();
        Box::pin(async move {
            let id = call
                .connection_id()
                .map_err(|empty| Error::new(ErrorKind::InvalidArgument, "monitor", empty))?;
            if let Operation::Close(_) = call.operation {
                layer.watches.cancel(&id);
                return inner.call(call).await;
            }
            let to = layer.watch.next_hop(&call.extensions);

            let connection = inner.call(call).await?;

            match connection.current_segment() {
                Some(own) => {
                    let relay = Relay {
                        id: id.clone(),
                        own: own.clone(),
                        to,
                        watch: Arc::clone(&layer.watch),
                        monitor: layer.monitor.clone(),
                    };
                    layer.watches.set(id, relay.run());
                }
                None => layer.watches.cancel(&id),
            }
            Ok(connection)
        })
    }
}

/// The watch of one connection.
struct Relay {
    id: ConnectionId,
    own: PathSegment,
    to: Extensions,
    watch: Arc<dyn Watch>,
    monitor: Monitor,
}

impl Relay {
    /// Watches for as long as nobody stops it. A hop that is not heard is looked for again: when it
    /// is back it may tell that the connection is to be requested again, and until somebody has done
    /// so the connection stays down. One that is there and does not tell says nothing of the
    /// connection, which stands.
    async fn run(self) {
        let mut pauses = BackOff::between(PAUSE.0, PAUSE.1);
        loop {
            let events = self.watch.watch(&self.to, of_segment(&self.own));
            let lost = self.hear(events).await;
            let reason = match &lost.error {
                Some(error) => error.report().to_string(),
                None => "the stream has ended".to_owned(),
            };
            debug!(connection.id = %self.id, error = reason, "the hop behind is not heard");
            if lost.was_heard {
                pauses = BackOff::between(PAUSE.0, PAUSE.1);
            }
            if lost.was_heard || lost.is_away() {
                self.down().await;
            }
            sleep(pauses.pause()).await;
        }
    }

    /// Tells that the connection is down. This watch began when the hop behind had answered, which may
    /// be before the request is answered from here, and it knows better than that answer.
    async fn down(&self) {
        self.monitor.answered(&self.id).await;
        self.monitor.state(&self.id, State::Down);
    }

    /// Tells on what is heard until the stream ends.
    async fn hear(&self, mut events: EventStream) -> Lost {
        let mut was_heard = false;
        loop {
            let event = match events.next().await.transpose() {
                Ok(Some(event)) => event,
                Ok(None) => {
                    return Lost {
                        error: None,
                        was_heard,
                    };
                }
                Err(error) => {
                    return Lost {
                        error: Some(error),
                        was_heard,
                    };
                }
            };
            was_heard = true;
            match heard(&event, &self.own) {
                Heard::Nothing | Heard::State(State::Up | State::ReselectRequested) => {}
                Heard::State(State::RefreshRequested) => {
                    debug!(connection.id = %self.id, "the hop behind wants it requested again");
                    self.monitor.state(&self.id, State::RefreshRequested);
                }
                Heard::State(State::Down) | Heard::Unknown => {
                    info!(connection.id = %self.id, "the connection is down behind this hop");
                    self.down().await;
                }
            }
        }
    }
}

/// The end of a stream.
struct Lost {
    error: Option<Error>,
    was_heard: bool,
}

impl Lost {
    /// Whether the hop behind is not reached, or reached and silent.
    fn is_away(&self) -> bool {
        let kind = self.error.as_ref().map(Error::kind);
        kind.is_none_or(|kind| matches!(kind, ErrorKind::Unavailable | ErrorKind::DeadlineExceeded))
    }
}

impl fmt::Debug for RelayLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayLayer")
            .field("watches", &self.watches)
            .finish_non_exhaustive()
    }
}
