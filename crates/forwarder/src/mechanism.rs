//! The two mechanisms of a connection: the client's on one side of the forwarder, the endpoint's on
//! the other.
//!
//! The client asks for an interface in its namespace, the endpoint is asked for one in its own, and
//! neither learns of the other's. The endpoint's has a proposed name, which stays the same whatever
//! process is started anew: an endpoint of the mesh makes a new one otherwise. What the endpoint answered is remembered, so that it is asked for
//! the same again, without the name of its namespace: that came with the answer and goes with none
//! of our calls.

use std::task::{Context, Poll};

use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::{INTERFACE_NAME, KERNEL, NETNS_URL};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::metadata::Store;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, Side, take_ready};
use nsm_kernel::EndpointSlot;
use thiserror::Error as ThisError;
use tower::{Layer, Service};

const ELEMENT: &str = "mechanism";

/// Why the two ends cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum MechanismError {
    /// The client wants something else.
    #[error("{asked} is not offered: this forwarder offers {KERNEL}")]
    NotOffered {
        /// What the request names.
        asked: String,
    },
    /// The endpoint has something else.
    #[error("the endpoint answered with mechanism {answered:?}, and was asked for {KERNEL}")]
    NotKernel {
        /// What the answer names.
        answered: String,
    },
}

/// Translates between the client's mechanism and the endpoint's. See the [module](self).
///
/// It sits below what reads the client's, above what reads the endpoint's, and below the
/// [`metadata`](nsm_chain::metadata) of the client side.
#[derive(Clone, Copy, Debug, Default)]
pub struct MechanismLayer;

impl<S> Layer<S> for MechanismLayer {
    type Service = Translated<S>;

    fn layer(&self, inner: S) -> Translated<S> {
        Translated { inner }
    }
}

/// The service of [`MechanismLayer`].
///
/// # Errors
///
/// * [`ErrorKind::InvalidArgument`]: the client asks for none of ours; the request does not go on.
/// * [`ErrorKind::FailedPrecondition`]: the endpoint answers with another one.
/// * [`ErrorKind::Internal`]: there is no metadata of the client side above.
#[derive(Clone, Debug)]
pub struct Translated<S> {
    inner: S,
}

/// What the endpoint answered last.
#[derive(Clone)]
struct Answered(Mechanism);

#[derive(Debug, ThisError)]
#[error("there is no metadata layer of the client side above")]
struct NoStore;

impl<S: NetworkService> Service<Call> for Translated<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        Box::pin(async move {
            let store = Store::of(&call, Side::Client).cloned();
            let store = store.ok_or_else(|| Error::new(ErrorKind::Internal, ELEMENT, NoStore))?;
            let answered = store.get::<Answered>().map(|Answered(mechanism)| mechanism);
            let slot = EndpointSlot::of(&call.extensions);
            let proposed = match slot.and_then(EndpointSlot::proposed) {
                Some(name) => Mechanism::kernel().with_parameter(INTERFACE_NAME, name),
                None => Mechanism::kernel(),
            };
            match &mut call.operation {
                Operation::Close(connection) => {
                    let clients = connection.mechanism.take();
                    connection.mechanism = answered.or_else(|| Some(Mechanism::kernel()));
                    let mut closed = inner.call(call).await?;
                    closed.mechanism = clients;
                    Ok(closed)
                }
                Operation::Request(request) => {
                    let clients = choose(request)
                        .map_err(|error| Error::new(ErrorKind::InvalidArgument, ELEMENT, error))?;
                    request.mechanism_preferences = vec![proposed];
                    request.connection.get_or_insert_default().mechanism = answered;

                    let mut connection = inner.call(call).await?;

                    let endpoints = endpoints(connection.mechanism.take()).map_err(|error| {
                        Error::new(ErrorKind::FailedPrecondition, ELEMENT, error)
                    })?;
                    store.insert(Answered(endpoints));
                    connection.mechanism = Some(clients);
                    Ok(connection)
                }
            }
        })
    }
}

/// What the client asks for: the mechanism of its connection, or the first preference of our type.
fn choose(request: &NetworkServiceRequest) -> Result<Mechanism, MechanismError> {
    let chosen = request
        .connection
        .as_ref()
        .and_then(|it| it.mechanism.as_ref());
    // A mechanism without a type is the wire's other spelling for none.
    let chosen = chosen.filter(|mechanism| !mechanism.r#type.is_empty());
    let asked: Vec<_> = match chosen {
        Some(mechanism) => vec![mechanism],
        None => request.mechanism_preferences.iter().collect(),
    };
    let ours = asked.iter().find(|mechanism| mechanism.r#type == KERNEL);
    ours.map(|mechanism| (*mechanism).clone()).ok_or_else(|| {
        let types: Vec<_> = asked.iter().map(|it| it.r#type.as_str()).collect();
        let asked = match types.as_slice() {
            [] => "no mechanism at all".to_owned(),
            types => types.join(", "),
        };
        MechanismError::NotOffered { asked }
    })
}

/// What the endpoint answered, as it is asked for again.
fn endpoints(answered: Option<Mechanism>) -> Result<Mechanism, MechanismError> {
    let mut mechanism = answered.unwrap_or_default();
    if mechanism.r#type != KERNEL {
        return Err(MechanismError::NotKernel {
            answered: mechanism.r#type,
        });
    }
    mechanism.parameters.remove(NETNS_URL);
    Ok(mechanism)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_chain::MetadataLayer;
    use nsm_chain::test_util::{Recorder, echo};
    use tower::{ServiceBuilder, ServiceExt};

    fn clients() -> Mechanism {
        Mechanism::kernel()
            .with_parameter(INTERFACE_NAME, "nsm-1")
            .with_parameter(NETNS_URL, "inode://4/1")
    }

    fn memif() -> Mechanism {
        Mechanism {
            r#type: "MEMIF".to_owned(),
            ..Mechanism::default()
        }
    }

    fn request(mechanism: Option<Mechanism>, preferences: Vec<Mechanism>) -> NetworkServiceRequest {
        NetworkServiceRequest {
            connection: Some(Connection {
                id: "1".to_owned(),
                mechanism,
                ..Connection::default()
            }),
            mechanism_preferences: preferences,
        }
    }

    /// An endpoint that answers with that.
    async fn joined(
        request: NetworkServiceRequest,
        answer: Option<Mechanism>,
    ) -> (Result<Connection, Error>, Recorder) {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(MetadataLayer::new(Side::Client))
            .layer(MechanismLayer)
            .layer(below.clone())
            .map_response(move |connection: Connection| Connection {
                mechanism: answer.clone(),
                ..connection
            })
            .service(echo());
        (chain.oneshot(Call::request(request)).await, below)
    }

    #[tokio::test]
    async fn an_endpoint_is_proposed_the_name_that_its_end_gets_otherwise() {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(MetadataLayer::new(Side::Client))
            .layer(MechanismLayer)
            .layer(below.clone())
            .map_response(|connection: Connection| Connection {
                mechanism: Some(Mechanism::kernel()),
                ..connection
            })
            .service(echo());
        for name in [Some("nsm-7"), None] {
            let mut call = Call::request(request(Some(clients()), Vec::new()));
            let slot = EndpointSlot::proposing(name.map(str::to_owned));
            call.extensions.insert(slot);
            chain.clone().oneshot(call).await.unwrap();

            let Operation::Request(request) = below.last().operation else {
                panic!("it was a request");
            };
            let parameters = &request.mechanism_preferences[0].parameters;
            let proposed = parameters.get(INTERFACE_NAME).map(String::as_str);
            assert_eq!(proposed, name);
        }
    }

    #[tokio::test]
    async fn the_client_has_its_own_mechanism_and_the_endpoint_is_asked_for_its_own() {
        let endpoints = Mechanism::kernel().with_parameter(NETNS_URL, "inode://4/2");
        for request in [
            request(None, vec![memif(), clients()]),
            request(Some(clients()), Vec::new()),
        ] {
            let (answer, below) = joined(request, Some(endpoints.clone())).await;

            assert_eq!(answer.unwrap().mechanism, Some(clients()));
            assert_eq!(below.operations(), ["request"]);
        }
    }

    #[tokio::test]
    async fn what_is_not_ours_goes_no_further() {
        for (request, asked) in [
            (request(None, Vec::new()), "no mechanism at all"),
            (request(None, vec![memif()]), "MEMIF"),
            (request(Some(memif()), vec![clients()]), "MEMIF"),
        ] {
            let (answer, below) = joined(request, Some(Mechanism::kernel())).await;

            let error = answer.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.report().to_string().contains(asked));
            assert!(below.operations().is_empty());
        }
    }

    #[tokio::test]
    async fn an_endpoint_that_answers_with_another_mechanism_is_refused() {
        for answer in [None, Some(memif())] {
            let (answer, _) = joined(request(Some(clients()), Vec::new()), answer).await;

            assert_eq!(answer.unwrap_err().kind(), ErrorKind::FailedPrecondition);
        }
    }

    #[test]
    fn the_endpoint_is_asked_again_for_what_it_answered_without_its_namespace() {
        let answered = Mechanism::kernel()
            .with_parameter(INTERFACE_NAME, "client-1")
            .with_parameter(NETNS_URL, "inode://4/2");

        let again = endpoints(Some(answered)).unwrap();

        let expected = Mechanism::kernel().with_parameter(INTERFACE_NAME, "client-1");
        assert_eq!(again, expected);
    }
}
