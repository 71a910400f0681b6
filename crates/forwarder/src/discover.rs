//! Finds the endpoints that a call may go to.

use std::task::{Context, Poll};

use nsm_api::connection::{Connection, State};
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};
use nsm_grpc::Address;
use thiserror::Error as ThisError;
use tower::{Layer, Service};

use crate::directory::Directory;

const ELEMENT: &str = "discover";

/// The endpoints that a call may go to, in the order in which they are tried. It is in the
/// extensions of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// The only endpoint of the service.
    Only(Address),
    /// The one that the connection names, of several.
    Named(Address, String),
    /// All of several.
    Any(Vec<Address>),
}

/// Why there is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum DiscoverError {
    /// Nobody offers the service.
    #[error(
        "there is no endpoint of network service {asked:?}: known are {}",
        or_none(known)
    )]
    Unknown {
        /// What the connection names.
        asked: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Others offer the service.
    #[error("endpoint {name:?} of network service {service:?} is not reached: ask for another one")]
    Away {
        /// The endpoint that the connection names.
        name: String,
        /// The service.
        service: String,
    },
}

fn or_none(known: &[String]) -> String {
    match known {
        [] => "none".to_owned(),
        known => known.join(", "),
    }
}

/// Puts the [`Candidates`] for each request into its extensions.
///
/// A connection that names its endpoint goes there, if the service has several; of one that names
/// none, each goes first to another, in turn, and one that is to be selected anew goes last where it
/// stood before. Where a close goes is known where the connection is.
#[derive(Clone, Debug)]
pub struct DiscoverLayer {
    directory: Directory,
}

impl DiscoverLayer {
    /// Looks there.
    pub fn new(directory: Directory) -> Self {
        Self { directory }
    }
}

impl<S> Layer<S> for DiscoverLayer {
    type Service = Discovered<S>;

    fn layer(&self, inner: S) -> Discovered<S> {
        Discovered {
            directory: self.directory.clone(),
            inner,
        }
    }
}

/// The service of [`DiscoverLayer`].
///
/// # Errors
///
/// [`ErrorKind::NotFound`] for a request of a service that nobody offers, and for one that names an
/// endpoint which is not reached and not known while there are others; the request does not go on.
#[derive(Clone, Debug)]
pub struct Discovered<S> {
    directory: Directory,
    inner: S,
}

impl<S: NetworkService> Service<Call> for Discovered<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        if let Operation::Close(_) = call.operation {
            return Box::pin(inner.call(call));
        }
        let directory = self.directory.clone();
        Box::pin(async move {
            let candidates = candidates(&directory, call.connection())
                .await
                .map_err(|error| Error::new(ErrorKind::NotFound, ELEMENT, error))?;
            call.extensions.insert(candidates);
            inner.call(call).await
        })
    }
}

async fn candidates(
    directory: &Directory,
    connection: &Connection,
) -> Result<Candidates, DiscoverError> {
    let service = &connection.network_service;
    let endpoints = match directory.endpoints(service) {
        Some([only]) => return Ok(Candidates::Only(only.clone())),
        Some(endpoints) => endpoints,
        None => {
            return Err(DiscoverError::Unknown {
                asked: service.clone(),
                known: directory.services().cloned().collect(),
            });
        }
    };
    let name = &connection.network_service_endpoint_name;
    if !name.is_empty() {
        let located = directory.locate(endpoints, name).await;
        return match located {
            Some(address) => Ok(Candidates::Named(address, name.clone())),
            None => Err(DiscoverError::Away {
                name: name.clone(),
                service: service.clone(),
            }),
        };
    }
    let mut in_turn = directory.in_turn(service).unwrap_or_default();
    if let Some(former) = given_up(directory, connection) {
        in_turn.sort_by_key(|address| *address == former);
    }
    Ok(Candidates::Any(in_turn))
}

/// Where a connection stood that is to be selected anew: its path says it still.
fn given_up(directory: &Directory, connection: &Connection) -> Option<Address> {
    if connection.state() != State::ReselectRequested {
        return None;
    }
    let endpoints = directory.endpoints(&connection.network_service)?;
    directory.known(endpoints, &connection.next_segment()?.name)
}
