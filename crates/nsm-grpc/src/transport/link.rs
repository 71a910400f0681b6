//! One established connection, as far as calls go.

use std::error::Error as StdError;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use h2::Reason;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use thiserror::Error;
use tokio::sync::Notify;
use tonic::body::Body;
use tower::Service;

use super::keepalive::{Full, Keepalive, Listening};
use crate::Peer;
use crate::socket::HangUp;

const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("nsm-grpc/", env!("CARGO_PKG_VERSION")));

/// How a call has ended: among the headers where it failed at once, and otherwise behind the message.
const STATUS: &str = "grpc-status";

/// One established connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    pub(super) sender: SendRequest<Body>,
    pub(super) peer: Option<Peer>,
    pub(super) hang_up: HangUp,
    pub(super) generation: u64,
    pub(super) retired: Arc<Notify>,
    /// Whether the other side has done a call. One that takes none answers, too.
    pub(super) served: Arc<AtomicBool>,
    /// How many calls and streams the other side takes at once.
    pub(super) room: Arc<AtomicUsize>,
    pub(super) keepalive: Arc<Keepalive>,
}

impl Link {
    /// The other end as far as descriptors go, for one call.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.peer.as_ref().map(Peer::for_call)
    }

    /// Which connection of its transport it is.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// No more calls go over this connection. Those that are under way do.
    pub(crate) fn retire(&self) {
        self.retired.notify_one();
    }

    /// Announces a stream. While there is one it is made sure of that the other side is there.
    ///
    /// # Errors
    ///
    /// When streams would take the room of calls: a call over a connection that has no room waits
    /// until a stream ends.
    pub(crate) fn listen(&self) -> Result<Listening, Full> {
        self.keepalive
            .listen(self.room.load(Relaxed), || self.wire())
    }

    /// Carries calls of the generated clients.
    pub(crate) fn wire(&self) -> Wire {
        Wire {
            sender: self.sender.clone(),
            hang_up: self.hang_up.clone(),
            served: Arc::clone(&self.served),
        }
    }
}

/// The authority that Go components give for unix sockets. Nobody looks at it.
pub(crate) fn origin() -> Uri {
    Uri::from_static("http://localhost")
}

/// Carries calls over one connection, and over no other.
#[derive(Clone)]
pub(crate) struct Wire {
    sender: SendRequest<Body>,
    hang_up: HangUp,
    served: Arc<AtomicBool>,
}

/// Why a call was not carried.
#[derive(Debug, Error)]
pub(crate) enum WireError {
    /// The peer has certainly not begun with it, so it may be sent again.
    #[error("the connection takes no more calls")]
    Unsent(#[source] hyper::Error),
    /// The peer has hung up before the call, so that it may be sent again, too.
    #[error("the connection has ended")]
    Ended,
    /// The peer may have done it.
    #[error("the connection has broken")]
    Broken(#[source] hyper::Error),
}

impl WireError {
    fn of(error: hyper::Error, came_back: bool) -> Self {
        if came_back || is_unprocessed(&error) {
            Self::Unsent(error)
        } else {
            Self::Broken(error)
        }
    }
}

/// A peer that stops says which calls it has not begun with (RFC 9113, 6.8 and 8.7).
fn is_unprocessed(error: &hyper::Error) -> bool {
    let Some(error) = error
        .source()
        .and_then(<dyn StdError>::downcast_ref::<h2::Error>)
    else {
        return false;
    };
    let gone_away = error.is_go_away() && error.is_remote();
    (gone_away && error.reason() == Some(Reason::NO_ERROR))
        || (error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM))
}

impl Service<Request<Body>> for Wire {
    type Response = Response<Incoming>;
    type Error = WireError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, WireError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), WireError>> {
        // A connection that is closed gives the request back.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if self.hang_up.has_happened() {
            return Box::pin(ready(Err(WireError::Ended)));
        }
        request.headers_mut().insert(USER_AGENT, AGENT);
        let sent = self.sender.try_send_request(request);
        let served = Arc::clone(&self.served);
        Box::pin(async move {
            let answer = sent.await.map_err(|mut failed| {
                let came_back = failed.take_message().is_some();
                WireError::of(failed.into_error(), came_back)
            })?;
            if !answer.headers().contains_key(STATUS) {
                served.store(true, Relaxed);
            }
            Ok(answer)
        })
    }
}
