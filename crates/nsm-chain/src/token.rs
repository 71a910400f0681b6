//! Tokens: each hop says who it is and until when, and the path remembers it.
//!
//! A caller sends its token and the token's end with every call, in the headers [`TOKEN`] and
//! [`EXPIRES`]. The next hop writes both into the caller's segment of the path, and into its own
//! segment a token of its own. So every hop of a path, and the caller when it has its answer, sees
//! until when each of the others stands for the connection: [`refresh`](crate::refresh) asks again
//! before the first of them ends, [`timeout`](crate::timeout) closes what nobody asks for again.
//!
//! A hop's token ends at its next hop. The headers are taken out of the call, and those of a
//! [`Client`](Side::Client) side are of that process.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, header};
use nsm_api::connection::{Connection, PathSegment};
use prost_types::Timestamp;
use tokio::time::Duration;
use tower::{Layer, Service};
use tracing::warn;

use crate::{
    BoxError, BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, Side, now, take_ready,
};

/// The header with the caller's token.
pub const TOKEN: HeaderName = HeaderName::from_static("nsm-client-token");
/// The header with the end of the caller's token: RFC 3339, with as many digits of a second as are
/// needed, up to nanoseconds.
pub const EXPIRES: HeaderName = HeaderName::from_static("nsm-client-token-expires");

/// Who this process is, until a certain time.
///
/// `Debug` leaves out the token itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The token. As a header it has to be visible ASCII.
    pub text: String,
    /// When it ends.
    pub expires: SystemTime,
}

/// Where the tokens of this process come from.
pub trait TokenSource: Send + Sync + 'static {
    /// A token for one call: for the next hop on a client side, about this hop on a server side.
    ///
    /// # Errors
    ///
    /// Whatever keeps the source from making one. A request fails by it with
    /// [`ErrorKind::Unavailable`]; a close goes on without a token.
    fn token(&self, call: &Call) -> Result<Token, BoxError>;
}

/// Tokens that nobody has signed: the name of the process, and how long it is to be believed.
#[derive(Clone, Debug)]
pub struct Unsigned {
    name: String,
    life: Duration,
}

impl Unsigned {
    /// Tokens of that name that end after `life`.
    pub fn new(name: impl Into<String>, life: Duration) -> Self {
        Self {
            name: name.into(),
            life,
        }
    }
}

impl TokenSource for Unsigned {
    fn token(&self, _: &Call) -> Result<Token, BoxError> {
        let expires = now().checked_add(self.life).ok_or(Endless(self.life))?;
        Ok(Token {
            text: self.name.clone(),
            expires,
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a token cannot live {0:?}")]
struct Endless(Duration);

/// Takes the caller's token from the headers and adds our own to the path (server side), or sends
/// ours (client side). See the [module](self).
///
/// On a server side it sits above [`timeout`](crate::timeout), on a client side anywhere below
/// `begin`, so that each refresh has a new token.
#[derive(Clone)]
pub struct TokenLayer {
    side: Side,
    source: Arc<dyn TokenSource>,
}

impl TokenLayer {
    /// A layer for chains of that side, with tokens of that source.
    pub fn new(side: Side, source: impl TokenSource) -> Self {
        Self {
            side,
            source: Arc::new(source),
        }
    }
}

impl<S> Layer<S> for TokenLayer {
    type Service = Tokens<S>;

    fn layer(&self, inner: S) -> Tokens<S> {
        Tokens {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service of [`TokenLayer`].
///
/// # Errors
///
/// * [`ErrorKind::InvalidArgument`]: the headers of a request are no token and its end. A request
///   without both is taken as it is.
/// * [`ErrorKind::Unavailable`]: the source gives no token for a request, or none that a header
///   can hold.
///
/// A close goes on in any case.
#[derive(Clone, Debug)]
pub struct Tokens<S> {
    inner: S,
    layer: TokenLayer,
}

#[derive(Debug, thiserror::Error)]
enum HeaderError {
    #[error("the header {0} is missing beside the other one of the token")]
    Missing(HeaderName),
    #[error("the header {0} comes more than once")]
    Repeated(HeaderName),
    #[error("the header {0} is not text")]
    NotText(HeaderName),
    #[error("the header {EXPIRES} is no time of RFC 3339")]
    NoTime,
}

#[derive(Debug, thiserror::Error)]
#[error("the token cannot be a header")]
struct NoHeader(#[source] header::InvalidHeaderValue);

impl<S: NetworkService> Service<Call> for Tokens<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let layer = self.layer.clone();
        Box::pin(async move {
            let done = match layer.side {
                Side::Server => layer.serve(&mut call),
                Side::Client => layer.send(&mut call),
            };
            match (done, &call.operation) {
                (Ok(()), _) => {}
                (Err(error), Operation::Request(_)) => return Err(error),
                // Whoever says goodbye is let go, whatever he shows.
                (Err(error), Operation::Close(_)) => {
                    warn!(error = %error.report(), "a close goes on without a token");
                }
            }
            inner.call(call).await
        })
    }
}

impl TokenLayer {
    fn serve(&self, call: &mut Call) -> Result<(), Error> {
        let theirs = received(&mut call.metadata)
            .map_err(|wrong| Error::new(ErrorKind::InvalidArgument, "token", wrong));
        let ours = self.ours(call);
        let path = call.connection_mut().path.get_or_insert_default();
        let index = path.index as usize;
        let previous = index.checked_sub(1);
        if let (Ok(Some((text, expires))), Some(segment)) = (
            &theirs,
            previous.and_then(|index| path.path_segments.get_mut(index)),
        ) {
            write(segment, text, *expires);
        }
        if let (Ok(token), Some(segment)) = (&ours, path.path_segments.get_mut(index)) {
            write(segment, &token.text, token.expires.into());
        }
        theirs.and(ours).map(|_| ())
    }

    fn send(&self, call: &mut Call) -> Result<(), Error> {
        // Those of the hop before us are not for the hop behind us.
        call.metadata.remove(TOKEN);
        call.metadata.remove(EXPIRES);
        let token = self.ours(call)?;
        let value = |text: &str| {
            HeaderValue::try_from(text)
                .map_err(|wrong| Error::new(ErrorKind::Unavailable, "token", NoHeader(wrong)))
        };
        let mut text = value(&token.text)?;
        text.set_sensitive(true);
        let expires = value(&Timestamp::from(token.expires).to_string())?;
        call.metadata.insert(TOKEN, text);
        call.metadata.insert(EXPIRES, expires);
        Ok(())
    }

    fn ours(&self, call: &Call) -> Result<Token, Error> {
        self.source
            .token(call)
            .map_err(|error| Error::new(ErrorKind::Unavailable, "token", error))
    }
}

/// Takes the caller's token and its end out of the headers.
fn received(headers: &mut HeaderMap) -> Result<Option<(String, Timestamp)>, HeaderError> {
    let (token, expires) = match (take(headers, TOKEN)?, take(headers, EXPIRES)?) {
        (Some(token), Some(expires)) => (token, expires),
        (None, None) => return Ok(None),
        (None, Some(_)) => return Err(HeaderError::Missing(TOKEN)),
        (Some(_), None) => return Err(HeaderError::Missing(EXPIRES)),
    };
    // A date without a time of day is none, though the parser takes it.
    let time = expires.contains(['T', 't']).then(|| expires.parse());
    match time {
        Some(Ok(expires)) => Ok(Some((token, expires))),
        _ => Err(HeaderError::NoTime),
    }
}

fn take(headers: &mut HeaderMap, name: HeaderName) -> Result<Option<String>, HeaderError> {
    let mut values = headers.get_all(&name).iter();
    let value = match (values.next(), values.next()) {
        (Some(_), Some(_)) => Err(HeaderError::Repeated(name.clone())),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(HeaderError::NotText(name.clone())),
        },
        (None, _) => Ok(None),
    };
    headers.remove(name);
    value
}

fn write(segment: &mut PathSegment, token: &str, expires: Timestamp) {
    token.clone_into(&mut segment.token);
    segment.expires = Some(expires);
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenLayer")
            .field("side", &self.side)
            .finish_non_exhaustive()
    }
}
