//! Refuses what is meant for another endpoint.
//!
//! A request names a network service, and may name the payload that the connection carries. An
//! endpoint that answered to any name would connect a client to something that it did not ask for.

use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};
use thiserror::Error as ThisError;
use tower::{Layer, Service};

const ELEMENT: &str = "services";

/// Why an endpoint does not serve a request.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ServiceError {
    /// The service is not one of the endpoint's.
    #[error("there is no network service {asked:?} here: this endpoint offers {}", .offered.join(", "))]
    Unknown {
        /// What the request names.
        asked: String,
        /// What there is.
        offered: Vec<String>,
    },
    /// The payload is another.
    #[error("payload {asked:?} is not carried here: this endpoint carries {carried}")]
    Payload {
        /// What the request names.
        asked: String,
        /// What there is.
        carried: String,
    },
}

impl ServiceError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::Payload { .. } => ErrorKind::InvalidArgument,
        }
    }
}

/// Refuses requests for other services or another payload. See the [module](self).
///
/// It sits above everything that gives a connection something.
#[derive(Clone, Debug)]
pub struct ServicesLayer {
    offered: Arc<Offered>,
}

#[derive(Debug)]
struct Offered {
    services: Vec<String>,
    payload: String,
}

impl ServicesLayer {
    /// Serves these services (`NSM_SERVICE_NAMES`), all with one payload (`NSM_PAYLOAD`), such as
    /// `ETHERNET` or `IP`.
    pub fn new(
        services: impl IntoIterator<Item = impl Into<String>>,
        payload: impl Into<String>,
    ) -> Self {
        Self {
            offered: Arc::new(Offered {
                services: services.into_iter().map(Into::into).collect(),
                payload: payload.into(),
            }),
        }
    }
}

impl Offered {
    /// Whether a connection is for us. One that names no payload gets ours.
    fn check(&self, connection: &mut Connection) -> Result<(), ServiceError> {
        if !self.services.contains(&connection.network_service) {
            return Err(ServiceError::Unknown {
                asked: connection.network_service.clone(),
                offered: self.services.clone(),
            });
        }
        if connection.payload.is_empty() {
            connection.payload.clone_from(&self.payload);
        }
        if connection.payload != self.payload {
            return Err(ServiceError::Payload {
                asked: connection.payload.clone(),
                carried: self.payload.clone(),
            });
        }
        Ok(())
    }
}

impl<S> Layer<S> for ServicesLayer {
    type Service = Services<S>;

    fn layer(&self, inner: S) -> Services<S> {
        Services {
            inner,
            offered: Arc::clone(&self.offered),
        }
    }
}

/// The service of [`ServicesLayer`].
///
/// # Errors
///
/// With a [`ServiceError`] that names what there is; the call does not go on:
///
/// * [`ErrorKind::NotFound`]: another network service, or none.
/// * [`ErrorKind::InvalidArgument`]: another payload.
///
/// A close goes on, whatever it names: it must end what an endpoint of another configuration has
/// begun.
#[derive(Clone, Debug)]
pub struct Services<S> {
    inner: S,
    offered: Arc<Offered>,
}

impl<S: NetworkService> Service<Call> for Services<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let offered = Arc::clone(&self.offered);
        Box::pin(async move {
            if let Operation::Request(_) = call.operation {
                offered
                    .check(call.connection_mut())
                    .map_err(|error| Error::new(error.kind(), ELEMENT, error))?;
            }
            inner.call(call).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::networkservice::NetworkServiceRequest;
    use nsm_chain::test_util::{Recorder, echo};
    use tower::{ServiceBuilder, ServiceExt};

    fn connection(service: &str, payload: &str) -> Connection {
        Connection {
            network_service: service.to_owned(),
            payload: payload.to_owned(),
            ..Connection::default()
        }
    }

    async fn request(connection: Connection) -> Result<Connection, Error> {
        let chain = ServiceBuilder::new()
            .layer(ServicesLayer::new(["icmp-responder", "smtp"], "IP"))
            .service(echo());
        let request = NetworkServiceRequest {
            connection: Some(connection),
            ..NetworkServiceRequest::default()
        };
        chain.oneshot(Call::request(request)).await
    }

    #[tokio::test]
    async fn a_request_for_a_service_that_is_offered_goes_on() {
        for service in ["icmp-responder", "smtp"] {
            let answer = request(connection(service, "IP")).await.unwrap();
            assert_eq!(answer.network_service, service);
        }
    }

    #[tokio::test]
    async fn a_connection_that_names_no_payload_gets_the_endpoints() {
        let answer = request(connection("smtp", "")).await.unwrap();

        assert_eq!(answer.payload, "IP");
    }

    #[tokio::test]
    async fn an_unknown_service_is_not_found_and_the_error_names_those_that_are() {
        for unknown in ["icmp", ""] {
            let error = request(connection(unknown, "IP")).await.unwrap_err();

            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert_eq!(
                error.report().to_string(),
                format!(
                    "services: not found: there is no network service {unknown:?} here: \
                     this endpoint offers icmp-responder, smtp"
                )
            );
        }
    }

    #[tokio::test]
    async fn another_payload_is_refused() {
        let error = request(connection("smtp", "ETHERNET")).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(
            error.report().to_string(),
            "services: invalid argument: payload \"ETHERNET\" is not carried here: \
             this endpoint carries IP"
        );
    }

    #[tokio::test]
    async fn a_close_goes_on_whatever_it_names() {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(ServicesLayer::new(["smtp"], "IP"))
            .layer(below.clone())
            .service(echo());

        chain
            .oneshot(Call::close(connection("other", "ETHERNET")))
            .await
            .unwrap();

        assert_eq!(below.operations(), ["close"]);
    }
}
