//! The end of a client chain: calls the next hop.

use std::fmt;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use http::Extensions;
use nsm_api::connection::Connection;
use nsm_api::networkservice::network_service_client::NetworkServiceClient;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, Operation};
use prost::Message;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};
use tonic::Request;
use tonic::metadata::MetadataMap;
use tower::Service;

use crate::failure::{Failure, TooLarge};
use crate::fd::{Carrier, Outgoing};
use crate::transport::{Busy, Link, origin};
use crate::{NextHop, Patience, Peer, Transport, Transports, header, patience};

const ELEMENT: &str = "connect";

/// The end of a client chain: carries each call to the next hop, and gives back its answer.
///
/// The call's metadata goes along without the headers of the hop and of gRPC, its deadline as
/// `grpc-timeout`, and the descriptors of [`SendFdLayer`](crate::SendFdLayer) over the very
/// connection that carries the call. A close is answered with the connection of the call.
///
/// A call waits for a transport that is down, and is answered with
/// [`Unavailable`](ErrorKind::Unavailable) a little before its deadline, with the reason of the
/// last attempt. One that does not wait fails as [`Patience::FailFast`] says: all of them after
/// [`without_waiting`](Self::without_waiting), or one with a [`Patience`] of its own in its
/// extensions. A call
/// that the next hop has certainly not begun with, because it stops or its connection had ended,
/// is sent again over the next connection, descriptors included. One that it may have begun with
/// is not.
///
/// # Errors
///
/// What the next hop answers, by the [table](crate::status), with the
/// [`Refused`](crate::status::Refused) as its cause;
/// [`Unavailable`](ErrorKind::Unavailable) when it is not reached or its connection breaks;
/// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) when it does not answer in time;
/// [`Internal`](ErrorKind::Internal) when there is no [`NextHop`].
#[derive(Clone)]
pub struct Connect {
    to: To,
    patience: Patience,
    pub(crate) message_limit: usize,
}

#[derive(Clone)]
enum To {
    One(Transport),
    NextHop(Transports),
}

impl Connect {
    /// Calls one next hop, always.
    pub fn to(transport: Transport) -> Self {
        Self::new(To::One(transport))
    }

    /// Calls the [`NextHop`] that is in the call's extensions, over the transport to its address.
    pub fn by_next_hop(transports: Transports) -> Self {
        Self::new(To::NextHop(transports))
    }

    fn new(to: To) -> Self {
        Self {
            to,
            patience: Patience::WaitForReady,
            message_limit: crate::MESSAGE_LIMIT,
        }
    }

    /// Does not wait for a transport that is down, unless a call says otherwise.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.patience = Patience::FailFast;
        self
    }

    /// How large a message may be, in bytes, both ways. 4 MiB if nothing else is said.
    #[must_use]
    pub fn message_limit(mut self, bytes: usize) -> Self {
        self.message_limit = bytes;
        self
    }

    /// The transport to the next hop, which the extensions of a call name if there are several.
    pub(crate) fn transport(&self, to: &Extensions) -> Result<(Transport, Busy), Error> {
        match &self.to {
            To::One(transport) => Ok((transport.clone(), transport.busy())),
            To::NextHop(transports) => {
                let hop = to.get::<NextHop>();
                let hop = hop.ok_or_else(|| Error::new(ErrorKind::Internal, ELEMENT, NoNextHop))?;
                Ok(transports.transport(hop))
            }
        }
    }

    async fn carry(self, call: Call) -> Result<Connection, Error> {
        let (transport, _busy) = self.transport(&call.extensions)?;
        let outgoing = call.extensions.get::<Outgoing>();
        let carrier = call.extensions.get::<Carrier>();
        let until = patience::until(call.deadline);
        let patience = call.extensions.get().copied().unwrap_or(self.patience);
        let mut tried = 0;
        loop {
            let link = transport
                .link(tried, until, patience)
                .await
                .map_err(|away| Error::new(ErrorKind::Unavailable, ELEMENT, away))?;
            let peer = link.peer();
            if let (Some(Outgoing(fds)), Some(peer)) = (outgoing, &peer) {
                queue(fds, peer)?;
            }
            if let Some(carrier) = carrier {
                carrier.set(peer);
            }
            let attempt = self.attempt(&link, &call);
            let answered = match call.deadline {
                Some(deadline) => timeout_at(deadline, attempt)
                    .await
                    .unwrap_or(Err(Failure::Late)),
                None => attempt.await,
            };
            match answered {
                Ok(connection) => return Ok(connection),
                Err(Failure::Unsent) => {
                    tried = link.generation();
                    link.retire();
                }
                Err(failure) => return Err(failure.explain(ELEMENT, transport.address())),
            }
        }
    }

    /// Sends the call over one connection.
    async fn attempt(&self, link: &Link, call: &Call) -> Result<Connection, Failure> {
        let mut client = NetworkServiceClient::with_origin(link.wire(), origin())
            .max_decoding_message_size(self.message_limit);
        match &call.operation {
            Operation::Request(request) => {
                let request = self.accompanied(request.clone(), call)?;
                let answer = client.request(request).await;
                answer.map(tonic::Response::into_inner).map_err(Failure::of)
            }
            Operation::Close(connection) => {
                let request = self.accompanied(connection.clone(), call)?;
                client.close(request).await.map_err(Failure::of)?;
                Ok(connection.clone())
            }
        }
    }
}

impl Connect {
    /// Gives a message what goes along with it.
    fn accompanied<M: Message>(&self, message: M, call: &Call) -> Result<Request<M>, Failure> {
        // Checked here: a message that turns out too large while it is sent ends as a stream that
        // was reset, and nobody knows why.
        let bytes = message.encoded_len();
        if bytes > self.message_limit {
            return Err(Failure::TooLarge(TooLarge {
                bytes,
                limit: self.message_limit,
            }));
        }
        let mut request = Request::new(message);
        let metadata = header::of_the_call(call.metadata.clone());
        *request.metadata_mut() = MetadataMap::from_headers(metadata);
        if let Some(deadline) = call.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::Late);
            }
            request.set_timeout(left);
        }
        Ok(request)
    }
}

fn queue(fds: &[OwnedFd], peer: &Peer) -> Result<(), Error> {
    for fd in fds {
        let fd = fd.try_clone().map_err(|source| {
            Error::new(ErrorKind::ResourceExhausted, ELEMENT, NoDuplicate(source))
        })?;
        peer.send(fd)
            .map_err(|full| Error::new(ErrorKind::ResourceExhausted, ELEMENT, full))?;
    }
    Ok(())
}

#[derive(Debug, Error)]
#[error("no element above has said where the next hop is")]
struct NoNextHop;

#[derive(Debug, Error)]
#[error("cannot duplicate a descriptor for the next hop")]
struct NoDuplicate(#[source] std::io::Error);

impl Service<Call> for Connect {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        Box::pin(self.clone().carry(call))
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Connect");
        match &self.to {
            To::One(transport) => debug.field("to", transport),
            To::NextHop(transports) => debug.field("by_next_hop", transports),
        };
        debug.field("patience", &self.patience).finish()
    }
}
