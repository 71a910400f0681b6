//! Hears from the next hop what becomes of connections there.

use futures_util::{Stream, StreamExt, TryFutureExt, stream};
use http::Extensions;
use nsm_api::connection::monitor_connection_client::MonitorConnectionClient;
use nsm_api::connection::{ConnectionEvent, MonitorScopeSelector};
use nsm_chain::monitor::{EventStream, Watch};
use nsm_chain::{Error, ErrorKind};
use thiserror::Error;
use tokio::time::{Duration, Instant, timeout};
use tonic::Streaming;

use crate::failure::Failure;
use crate::transport::{Busy, Link, Listening, origin};
use crate::{Address, Connect, NextHop, Patience};

const ELEMENT: &str = "monitor";

/// How long a transport that is down is waited for.
const TRANSPORT: Duration = Duration::from_secs(15);

/// How long the next hop may take for its first event.
const FIRST_EVENT: Duration = Duration::from_secs(5);

/// A stream goes over the transport that calls go over, which does not rest meanwhile. It waits for
/// a transport that is down for 15 s, and for its first event for 5 s.
///
/// Its last item is an error, whatever the end is: the next hop ends the stream, refuses it, or
/// cancels it; the connection breaks; or the next hop does not answer any more, for which it is
/// asked every 5 s and has 5 s each time. That is how a process that is frozen, or behind a network
/// that drops all, is found 10 s later at the latest. Dropping the stream cancels it.
///
/// # Errors
///
/// [`Unavailable`](ErrorKind::Unavailable) when the next hop is not reached, has ended or cancelled
/// the stream, or is silent, and when the connection breaks;
/// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) when there is no first event in time;
/// [`ResourceExhausted`](ErrorKind::ResourceExhausted) when the connection has as many streams as
/// leave room for calls; what the next hop answers, by the [table](crate::status), with the
/// [`Refused`](crate::status::Refused) as its cause;
/// [`Internal`](ErrorKind::Internal) when there is no [`NextHop`].
impl Watch for Connect {
    fn next_hop(&self, call: &Extensions) -> Extensions {
        let mut to = Extensions::new();
        if let Some(next_hop) = call.get::<NextHop>() {
            to.insert(next_hop.clone());
        }
        to
    }

    fn watch(&self, to: &Extensions, selector: MonitorScopeSelector) -> EventStream {
        let to = self.next_hop(to);
        let connect = self.clone();
        async move { connect.open(&to, selector).await }
            .try_flatten_stream()
            .boxed()
    }
}

impl Connect {
    async fn open(
        self,
        to: &Extensions,
        selector: MonitorScopeSelector,
    ) -> Result<impl Stream<Item = Result<ConnectionEvent, Error>> + use<>, Error> {
        let (transport, busy) = self.transport(to)?;
        let until = Instant::now() + TRANSPORT;
        let mut tried = 0;
        loop {
            let link = transport
                .link(tried, until, Patience::WaitForReady)
                .await
                .map_err(|away| Error::new(ErrorKind::Unavailable, ELEMENT, away))?;
            let listening = link
                .listen()
                .map_err(|full| Error::new(ErrorKind::ResourceExhausted, ELEMENT, full))?;
            let begun = timeout(FIRST_EVENT, self.begin(&link, selector.clone()));
            let begun = begun.await.unwrap_or(Err(End::NoEvent));
            if let Err(End::Failed(Failure::Unsent)) = begun {
                tried = link.generation();
                link.retire();
                continue;
            }
            let listener = Listener {
                address: transport.address().clone(),
                _listening: listening,
                _busy: busy,
            };
            let (first, rest) = begun.map_err(|end| listener.explain(end))?;
            return Ok(stream::iter([Ok(first)]).chain(listener.hear(rest)));
        }
    }

    /// Begins with a stream over one connection.
    async fn begin(
        &self,
        link: &Link,
        selector: MonitorScopeSelector,
    ) -> Result<(ConnectionEvent, Streaming<ConnectionEvent>), End> {
        let mut client = MonitorConnectionClient::with_origin(link.wire(), origin())
            .max_decoding_message_size(self.message_limit);
        let answer = client.monitor_connections(selector).await;
        let mut events = answer.map_err(Failure::of)?.into_inner();
        let first = next(&mut events).await?;
        Ok((first, events))
    }
}

async fn next(events: &mut Streaming<ConnectionEvent>) -> Result<ConnectionEvent, End> {
    let event = events.message().await.map_err(Failure::of)?;
    event.ok_or(End::Over)
}

/// Why nothing more is heard.
enum End {
    Over,
    NoEvent,
    Failed(Failure),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Who listens to a stream.
struct Listener {
    address: Address,
    _listening: Listening,
    _busy: Busy,
}

impl Listener {
    /// What is heard, and why it ends.
    fn hear(
        self,
        events: Streaming<ConnectionEvent>,
    ) -> impl Stream<Item = Result<ConnectionEvent, Error>> {
        stream::unfold(Some((self, events)), |hearing| async {
            let (listener, mut events) = hearing?;
            match next(&mut events).await {
                Ok(event) => Some((Ok(event), Some((listener, events)))),
                Err(end) => Some((Err(listener.explain(end)), None)),
            }
        })
    }

    fn explain(&self, end: End) -> Error {
        let address = self.address.clone();
        match end {
            End::Over => Error::new(ErrorKind::Unavailable, ELEMENT, Over(address)),
            End::NoEvent => Error::new(ErrorKind::DeadlineExceeded, ELEMENT, NoEvent(address)),
            // We alone cancel a stream of ours. For whoever listens this is an end like any other.
            End::Failed(Failure::Refused(refused)) if refused.kind() == ErrorKind::Cancelled => {
                Error::new(ErrorKind::Unavailable, ELEMENT, refused)
            }
            End::Failed(failure) => failure.explain(ELEMENT, &address),
        }
    }
}

#[derive(Debug, Error)]
#[error("{0} has ended the stream of events")]
struct Over(Address);

#[derive(Debug, Error)]
#[error("{0} has not sent its first event within {FIRST_EVENT:?}")]
struct NoEvent(Address);
