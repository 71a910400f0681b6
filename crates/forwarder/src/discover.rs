//! Finds the endpoint of a network service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};
use nsm_grpc::{Address, NextHop};
use thiserror::Error as ThisError;
use tower::{Layer, Service};

const ELEMENT: &str = "discover";

/// Knows where endpoints are: a list of the configuration, or a registry.
pub trait Discover: Clone + Send + Sync + 'static {
    /// The address of the endpoint for a connection.
    ///
    /// # Errors
    ///
    /// See [`DiscoverError`].
    ///
    /// # Cancellation
    ///
    /// The future may be dropped at any time.
    fn discover(
        &self,
        connection: &Connection,
    ) -> impl Future<Output = Result<Address, DiscoverError>> + Send;
}

/// Why there is no address.
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
}

fn or_none(known: &[String]) -> String {
    match known {
        [] => "none".to_owned(),
        known => known.join(", "),
    }
}

/// One endpoint for each network service, from the configuration.
#[derive(Clone, Debug, Default)]
pub struct StaticMap(Arc<BTreeMap<String, Address>>);

impl StaticMap {
    /// These, and no others.
    pub fn new(endpoints: BTreeMap<String, Address>) -> Self {
        Self(Arc::new(endpoints))
    }
}

impl Discover for StaticMap {
    async fn discover(&self, connection: &Connection) -> Result<Address, DiscoverError> {
        let asked = &connection.network_service;
        let address = self.0.get(asked).cloned();
        address.ok_or_else(|| DiscoverError::Unknown {
            asked: asked.clone(),
            known: self.0.keys().cloned().collect(),
        })
    }
}

/// Puts the address of the endpoint into each call's extensions, as [`NextHop`].
#[derive(Clone, Debug)]
pub struct DiscoverLayer<D> {
    discover: D,
}

impl<D: Discover> DiscoverLayer<D> {
    /// Asks `discover`.
    pub fn new(discover: D) -> Self {
        Self { discover }
    }
}

impl<D: Clone, S> Layer<S> for DiscoverLayer<D> {
    type Service = Discovered<D, S>;

    fn layer(&self, inner: S) -> Discovered<D, S> {
        Discovered {
            discover: self.discover.clone(),
            inner,
        }
    }
}

/// The service of [`DiscoverLayer`].
///
/// # Errors
///
/// [`ErrorKind::NotFound`] for a request of a service that nobody offers; the request does not go
/// on. A close goes on without an address: what is ours goes, whoever the endpoint was.
#[derive(Clone, Debug)]
pub struct Discovered<D, S> {
    discover: D,
    inner: S,
}

impl<D: Discover, S: NetworkService> Service<Call> for Discovered<D, S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let discover = self.discover.clone();
        Box::pin(async move {
            match discover.discover(call.connection()).await {
                Ok(address) => {
                    call.extensions.insert(NextHop(address));
                }
                Err(error) => match call.operation {
                    Operation::Request(_) => {
                        return Err(Error::new(ErrorKind::NotFound, ELEMENT, error));
                    }
                    Operation::Close(_) => {
                        call.extensions.remove::<NextHop>();
                        tracing::debug!(%error, "a close goes no further than this forwarder");
                    }
                },
            }
            inner.call(call).await
        })
    }
}

/// Ends a close that has no [`NextHop`].
///
/// It sits below all that has to act on a close, and above what calls the endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopLayer;

impl<S> Layer<S> for StopLayer {
    type Service = Stop<S>;

    fn layer(&self, inner: S) -> Stop<S> {
        Stop { inner }
    }
}

/// The service of [`StopLayer`]. Its errors are those from below.
#[derive(Clone, Debug)]
pub struct Stop<S> {
    inner: S,
}

impl<S: NetworkService> Service<Call> for Stop<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let has_hop = call.extensions.get::<NextHop>().is_some();
        match call.operation {
            Operation::Close(connection) if !has_hop => Box::pin(async move { Ok(connection) }),
            _ => Box::pin(take_ready(&mut self.inner).call(call)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::networkservice::NetworkServiceRequest;
    use nsm_chain::test_util::{Recorder, echo};
    use tower::{ServiceBuilder, ServiceExt};

    fn map() -> StaticMap {
        let address = "unix:///run/nse.sock".parse().unwrap();
        StaticMap::new(BTreeMap::from([("smtp".to_owned(), address)]))
    }

    fn connection(service: &str) -> Connection {
        Connection {
            network_service: service.to_owned(),
            ..Connection::default()
        }
    }

    fn request(service: &str) -> Call {
        Call::request(NetworkServiceRequest {
            connection: Some(connection(service)),
            ..NetworkServiceRequest::default()
        })
    }

    #[tokio::test]
    async fn a_known_service_has_an_address() {
        let address = map().discover(&connection("smtp")).await.unwrap();

        assert_eq!(address.to_string(), "unix:///run/nse.sock");
    }

    #[tokio::test]
    async fn a_request_for_an_unknown_service_is_not_found_and_goes_no_further() {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(DiscoverLayer::new(map()))
            .layer(below.clone())
            .service(echo());

        let error = chain.oneshot(request("http")).await.unwrap_err();

        assert_eq!(
            error.report().to_string(),
            "discover: not found: there is no endpoint of network service \"http\": known are smtp"
        );
        assert!(below.operations().is_empty());
    }

    #[tokio::test]
    async fn a_close_goes_on_whatever_it_names() {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(DiscoverLayer::new(map()))
            .layer(below.clone())
            .service(echo());

        chain
            .oneshot(Call::close(connection("http")))
            .await
            .unwrap();

        assert_eq!(below.operations(), ["close"]);
    }

    #[tokio::test]
    async fn a_close_of_an_unknown_service_ends_before_the_endpoint() {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(DiscoverLayer::new(map()))
            .layer(StopLayer)
            .layer(below.clone())
            .service(echo());

        for service in ["http", "smtp"] {
            let close = Call::close(connection(service));
            chain.clone().oneshot(close).await.unwrap();
        }

        assert_eq!(below.operations(), ["close"], "that of smtp");
    }
}
