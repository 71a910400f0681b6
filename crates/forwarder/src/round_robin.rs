//! Tries the endpoints that a request may go to, and remembers where each connection stands.

use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use nsm_chain::metadata::Store;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, Side, take_ready};
use nsm_grpc::{Address, NextHop, Patience, Unreachable};
use thiserror::Error as ThisError;
use tokio::time::{Duration, Instant};
use tower::{Layer, Service, ServiceExt};
use tracing::{debug, info, warn};

use crate::directory::Directory;
use crate::discover::{Candidates, DiscoverError};

const ELEMENT: &str = "roundrobin";

/// How long the close at a former endpoint may hold up a request.
const FORMER: Duration = Duration::from_secs(2);

/// Takes each request to one of its [`Candidates`], and each close where the connection stands.
///
/// The only endpoint of a service is waited for when it is down. Of several, none is: a request
/// that may go to any goes on to the next one when one fails, with an equal share of the time that
/// is left. A connection that stands leaves its endpoint only when that is not reached, or when it
/// names another one, and is closed there before it is asked for elsewhere.
///
/// A close of a connection that is not known here goes to the only endpoint of its service, or to the
/// one that it names. If there is none it ends here: what is ours is gone by then.
///
/// It sits right above what opens a way to the endpoint, and below the
/// [`metadata`](nsm_chain::metadata) of the client side.
#[derive(Clone, Debug)]
pub struct RoundRobinLayer {
    directory: Directory,
}

impl RoundRobinLayer {
    /// Tells that directory what endpoints are called.
    pub fn new(directory: Directory) -> Self {
        Self { directory }
    }
}

impl<S> Layer<S> for RoundRobinLayer {
    type Service = RoundRobin<S>;

    fn layer(&self, inner: S) -> RoundRobin<S> {
        RoundRobin {
            directory: self.directory.clone(),
            inner,
        }
    }
}

/// The service of [`RoundRobinLayer`].
///
/// # Errors
///
/// * [`ErrorKind::NotFound`]: the endpoint that the connection names is not reached, and there are
///   others.
/// * The error of the endpoint, if there was one to ask. If several were asked, the reasons of all,
///   as the kind of the first that was reached, else [`ErrorKind::Unavailable`].
/// * [`ErrorKind::Internal`]: there is no metadata of the client side above, or nobody has said where
///   the request may go.
#[derive(Clone, Debug)]
pub struct RoundRobin<S> {
    directory: Directory,
    inner: S,
}

/// Where a connection stands, and as what.
#[derive(Clone)]
struct Stands {
    at: Address,
    connection: Connection,
}

#[derive(Debug, ThisError)]
enum Incomplete {
    #[error("there is no metadata layer of the client side above")]
    NoStore,
    #[error("no element above has said which endpoints there are")]
    NoCandidates,
}

#[derive(Debug, ThisError)]
#[error("none of {} endpoints takes the request: {}", failures.len(), failures.join("; "))]
struct NobodyTakesIt {
    failures: Vec<String>,
}

impl<S: NetworkService> Service<Call> for RoundRobin<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let inner = take_ready(&mut self.inner);
        let directory = self.directory.clone();
        Box::pin(async move {
            let incomplete = |what| Error::new(ErrorKind::Internal, ELEMENT, what);
            let store = Store::of(&call, Side::Client).cloned();
            let store = store.ok_or_else(|| incomplete(Incomplete::NoStore))?;
            let at_hand = AtHand {
                directory,
                inner,
                store,
            };
            match call.operation {
                Operation::Request(_) => {
                    let candidates = call.extensions.get().cloned();
                    let candidates =
                        candidates.ok_or_else(|| incomplete(Incomplete::NoCandidates))?;
                    at_hand.request(call, candidates).await
                }
                Operation::Close(_) => at_hand.close(call).await,
            }
        })
    }
}

/// What a call has to do with.
struct AtHand<S> {
    directory: Directory,
    inner: S,
    store: Store,
}

impl<S: NetworkService> AtHand<S> {
    async fn request(&self, call: Call, candidates: Candidates) -> Result<Connection, Error> {
        match candidates {
            Candidates::Only(address) => self.ask(&call, &address, None, call.deadline).await,
            Candidates::Named(address, name) => {
                let fast = Some(Patience::FailFast);
                let asked = self.ask(&call, &address, fast, call.deadline).await;
                asked.map_err(|error| match is_unreached(&error) {
                    true => {
                        debug!(%address, error = %error.report(), "the endpoint is not reached");
                        let service = call.connection().network_service.clone();
                        let away = DiscoverError::Away { name, service };
                        Error::new(ErrorKind::NotFound, ELEMENT, away)
                    }
                    false => error,
                })
            }
            Candidates::Any(addresses) => self.ask_any(call, addresses).await,
        }
    }

    /// Asks one after the other until one takes it.
    async fn ask_any(&self, call: Call, mut addresses: Vec<Address>) -> Result<Connection, Error> {
        let stands = self.store.get::<Stands>().map(|stands| stands.at);
        if let Some(at) = &stands {
            addresses.sort_by_key(|address| address != at);
        }
        let mut failures = Vec::new();
        let mut kind = ErrorKind::Unavailable;
        for (index, address) in addresses.iter().enumerate() {
            let until = call.deadline.map(|deadline| {
                let now = Instant::now();
                let left = deadline.saturating_duration_since(now);
                now + left / (addresses.len() - index) as u32
            });
            let asked = self.ask(&call, address, Some(Patience::FailFast), until);
            let error = match asked.await {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let is_unreached = is_unreached(&error);
            if is_at_fault(error.kind()) || (stands.as_ref() == Some(address) && !is_unreached) {
                return Err(error);
            }
            info!(endpoint = %address, error = %error.report(), "an endpoint does not take a request");
            if !is_unreached && kind == ErrorKind::Unavailable {
                kind = error.kind();
            }
            failures.push(format!("{address}: {}", error.report()));
        }
        Err(Error::new(kind, ELEMENT, NobodyTakesIt { failures }))
    }

    /// Asks one, after it is made sure that the connection stands nowhere else.
    async fn ask(
        &self,
        call: &Call,
        address: &Address,
        patience: Option<Patience>,
        deadline: Option<Instant>,
    ) -> Result<Connection, Error> {
        if let Some(former) = self.store.get::<Stands>().filter(|it| it.at != *address) {
            self.store.remove::<Stands>();
            self.close_at(call, former).await;
        }
        let asked = to(call.clone(), address, patience, deadline);
        let connection = self.inner.clone().oneshot(asked).await?;
        self.directory
            .learn(address, &connection.network_service_endpoint_name);
        self.store.insert(Stands {
            at: address.clone(),
            connection: connection.clone(),
        });
        Ok(connection)
    }

    /// Closes a connection where it stood.
    async fn close_at(&self, call: &Call, former: Stands) {
        info!(endpoint = %former.at, "the connection goes to another endpoint");
        let soon = Instant::now() + FORMER;
        let deadline = call.deadline.map_or(soon, |it| it.min(soon));
        let close = Call {
            operation: Operation::Close(former.connection),
            ..call.clone()
        };
        let close = to(close, &former.at, Some(Patience::FailFast), Some(deadline));
        if let Err(error) = self.inner.clone().oneshot(close).await {
            warn!(
                endpoint = %former.at,
                error = %error.report(),
                "not closed at the former endpoint, where its token ends it"
            );
        }
    }

    async fn close(&self, call: Call) -> Result<Connection, Error> {
        let connection = call.connection();
        let endpoints = self.directory.endpoints(&connection.network_service);
        let endpoints = endpoints.unwrap_or_default();
        let address = match (self.store.get::<Stands>(), endpoints) {
            (Some(stands), _) => Some(stands.at),
            (None, [only]) => Some(only.clone()),
            (None, several) => {
                let name = &connection.network_service_endpoint_name;
                self.directory.locate(several, name).await
            }
        };
        let Some(address) = address else {
            debug!("a close goes no further than this forwarder");
            return Ok(connection.clone());
        };
        let patience = (endpoints.len() > 1).then_some(Patience::FailFast);
        let deadline = call.deadline;
        let close = to(call, &address, patience, deadline);
        self.inner.clone().oneshot(close).await
    }
}

/// A call on its way to an endpoint.
fn to(
    mut call: Call,
    address: &Address,
    patience: Option<Patience>,
    deadline: Option<Instant>,
) -> Call {
    call.extensions.insert(NextHop(address.clone()));
    if let Some(patience) = patience {
        call.extensions.insert(patience);
    }
    Call { deadline, ..call }
}

/// Whether it is the request that is wrong, wherever it goes.
fn is_at_fault(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidArgument | ErrorKind::PermissionDenied | ErrorKind::Cancelled
    )
}

/// Whether nobody was there to ask.
fn is_unreached(error: &Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.is::<Unreachable>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
#[path = "round_robin_tests.rs"]
mod tests;
