//! Chooses the mechanism of each connection.
//!
//! The hop before gives its preferences, best first, or the mechanism that was chosen already. The
//! first one that this endpoint offers and that makes sense is the connection's. With [`KERNEL`]
//! the connection gets an interface in the endpoint's own network namespace: the mechanism names
//! that namespace, in place of whatever stood there, and `send_fd` below makes of it a descriptor
//! that the forwarder receives. The interface has the name that was asked for. Without one it gets one
//! here: the mesh's Go forwarders ask for none, and rename it to whatever the answer says.

use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::{INTERFACE_NAME, KERNEL, NETNS_URL, NOOP, OWN_NETNS};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_api::{InterfaceName, InterfaceNameError};
use nsm_chain::mechanisms::report_interface;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, Side, take_ready};
use thiserror::Error as ThisError;
use tower::{Layer, Service};

use crate::interface_name::interface_name;

const ELEMENT: &str = "mechanisms";

/// A mechanism that an endpoint offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Offer {
    /// An interface in a network namespace.
    Kernel {
        /// The namespace as a `file:` URL, such as [`OWN_NETNS`].
        netns_url: String,
    },
    /// Nothing to carry packets.
    Noop,
}

impl Offer {
    /// An interface in the endpoint's own network namespace.
    pub fn kernel() -> Self {
        Self::Kernel {
            netns_url: OWN_NETNS.to_owned(),
        }
    }

    /// The mechanism's type, as messages have it.
    pub fn mechanism_type(&self) -> &'static str {
        match self {
            Self::Kernel { .. } => KERNEL,
            Self::Noop => NOOP,
        }
    }

    /// The mechanism of a connection, from one that was asked for.
    fn accept(&self, mut asked: Mechanism) -> Result<Mechanism, MechanismError> {
        match self {
            Self::Kernel { netns_url } => {
                let name = asked.parameters.get(INTERFACE_NAME);
                if let Some(name) = name.filter(|name| !name.is_empty()) {
                    InterfaceName::check(name).map_err(|reason| MechanismError::InterfaceName {
                        name: name.clone(),
                        reason,
                    })?;
                }
                asked
                    .parameters
                    .insert(NETNS_URL.to_owned(), netns_url.clone());
            }
            Self::Noop => {}
        }
        Ok(asked)
    }
}

/// Why a connection gets no mechanism.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum MechanismError {
    /// The request names none.
    #[error("the request asks for no mechanism: this endpoint offers {offered}")]
    NoneAsked {
        /// What there is.
        offered: String,
    },
    /// None of those that the request names is offered.
    #[error("{asked} is not offered: this endpoint offers {offered}")]
    NotOffered {
        /// What the request names.
        asked: String,
        /// What there is.
        offered: String,
    },
    /// The interface cannot have the name that was asked for.
    #[error("{name:?} is no name for an interface")]
    InterfaceName {
        /// The name.
        name: String,
        /// Why.
        #[source]
        reason: InterfaceNameError,
    },
}

/// Chooses the mechanism of a request: that of its connection if it has one, else the first of
/// its preferences that is offered and makes sense.
fn choose(offers: &[Offer], request: &NetworkServiceRequest) -> Result<Mechanism, MechanismError> {
    let chosen = request
        .connection
        .as_ref()
        .and_then(|it| it.mechanism.as_ref());
    // A mechanism without a type is the wire's other spelling for none.
    let chosen = chosen.filter(|mechanism| !mechanism.r#type.is_empty());
    let asked: Vec<&Mechanism> = match chosen {
        Some(mechanism) => vec![mechanism],
        None => request.mechanism_preferences.iter().collect(),
    };
    let mut refusal = None;
    for mechanism in &asked {
        let offer = offers
            .iter()
            .find(|offer| offer.mechanism_type() == mechanism.r#type);
        match offer.map(|offer| offer.accept((*mechanism).clone())) {
            Some(Ok(mechanism)) => return Ok(mechanism),
            Some(Err(error)) => refusal = refusal.or(Some(error)),
            None => {}
        }
    }
    let offered = list(offers.iter().map(Offer::mechanism_type));
    Err(refusal.unwrap_or_else(|| match asked.as_slice() {
        [] => MechanismError::NoneAsked { offered },
        asked => MechanismError::NotOffered {
            asked: list(asked.iter().map(|mechanism| mechanism.r#type.as_str())),
            offered,
        },
    }))
}

fn list<'a>(types: impl Iterator<Item = &'a str>) -> String {
    let types: Vec<&str> = types.collect();
    if types.is_empty() {
        "none".to_owned()
    } else {
        types.join(", ")
    }
}

/// Chooses the mechanism of each connection. See the [module](self).
///
/// It sits above `send_fd`, which sends the descriptor of the namespace that is named here.
#[derive(Clone, Debug)]
pub struct MechanismsLayer {
    offers: Arc<[Offer]>,
}

impl MechanismsLayer {
    /// Offers these.
    pub fn new(offers: impl IntoIterator<Item = Offer>) -> Self {
        Self {
            offers: offers.into_iter().collect(),
        }
    }
}

impl<S> Layer<S> for MechanismsLayer {
    type Service = Mechanisms<S>;

    fn layer(&self, inner: S) -> Mechanisms<S> {
        Mechanisms {
            inner,
            offers: Arc::clone(&self.offers),
        }
    }
}

/// The service of [`MechanismsLayer`].
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] with a [`MechanismError`] if the request asks for nothing that
/// is offered; the call does not go on. A close goes on whatever its mechanism is.
#[derive(Clone, Debug)]
pub struct Mechanisms<S> {
    inner: S,
    offers: Arc<[Offer]>,
}

impl<S: NetworkService> Service<Call> for Mechanisms<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let offers = Arc::clone(&self.offers);
        Box::pin(async move {
            if let Operation::Request(request) = &call.operation {
                let mechanism = choose(&offers, request)
                    .map_err(|error| Error::new(ErrorKind::InvalidArgument, ELEMENT, error))?;
                let connection = call.connection_mut();
                connection.mechanism = Some(mechanism);
                name(connection);
            }
            let is_request = matches!(call.operation, Operation::Request(_));
            let mut connection = inner.call(call).await?;
            if is_request {
                report_interface(&mut connection, Side::Server);
            }
            Ok(connection)
        })
    }
}

/// Names the interface, if it is one and has no name.
fn name(connection: &mut Connection) {
    let kernel = connection.kernel_mechanism();
    if kernel.is_none_or(|kernel| kernel.interface_name().is_some()) {
        return;
    }
    let name = interface_name(&connection.id);
    if let Some(mechanism) = &mut connection.mechanism {
        let parameters = &mut mechanism.parameters;
        parameters.insert(INTERFACE_NAME.to_owned(), name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::connection::{Path, PathSegment};
    use nsm_api::mechanism::REMOTE;
    use nsm_chain::test_util::{Recorder, echo};
    use tower::{ServiceBuilder, ServiceExt};

    fn of_type(r#type: &str) -> Mechanism {
        Mechanism {
            r#type: r#type.to_owned(),
            ..Mechanism::kernel()
        }
    }

    fn preferring(preferences: Vec<Mechanism>) -> NetworkServiceRequest {
        NetworkServiceRequest {
            mechanism_preferences: preferences,
            ..NetworkServiceRequest::default()
        }
    }

    fn having(mechanism: Mechanism) -> NetworkServiceRequest {
        NetworkServiceRequest {
            connection: Some(Connection {
                mechanism: Some(mechanism),
                ..Connection::default()
            }),
            mechanism_preferences: vec![of_type(NOOP)],
        }
    }

    fn choice(request: &NetworkServiceRequest) -> Result<Mechanism, MechanismError> {
        choose(&[Offer::kernel(), Offer::Noop], request)
    }

    fn refusal(request: &NetworkServiceRequest) -> String {
        let error = choice(request).unwrap_err();
        nsm_chain::ErrorChain(&error).to_string()
    }

    #[test]
    fn the_first_preference_that_is_offered_is_chosen() {
        let request = preferring(vec![of_type("MEMIF"), of_type(NOOP), Mechanism::kernel()]);

        assert_eq!(choice(&request).unwrap(), of_type(NOOP));
    }

    #[test]
    fn a_kernel_mechanism_names_the_endpoints_own_namespace_and_keeps_the_rest() {
        let asked = Mechanism::kernel()
            .with_parameter(INTERFACE_NAME, "nsm-1")
            .with_parameter(NETNS_URL, "inode://4/4026532581")
            .with_parameter("supportsVlan", "true");

        let chosen = choice(&preferring(vec![asked.clone()])).unwrap();

        assert_eq!(chosen, asked.with_parameter(NETNS_URL, OWN_NETNS));
    }

    #[test]
    fn a_mechanism_that_was_chosen_stays_and_preferences_do_not_count() {
        let chosen = choice(&having(Mechanism::kernel())).unwrap();
        assert_eq!(chosen.r#type, KERNEL);

        let error = refusal(&having(of_type("VXLAN")));
        assert_eq!(
            error,
            "VXLAN is not offered: this endpoint offers KERNEL, NOOP"
        );
    }

    #[test]
    fn a_mechanism_without_a_type_is_none() {
        assert_eq!(choice(&having(Mechanism::default())).unwrap().r#type, NOOP);
    }

    #[test]
    fn what_is_not_offered_is_refused_with_what_is() {
        let asked = vec![of_type("MEMIF"), of_type("kernel"), of_type(REMOTE)];
        assert_eq!(
            refusal(&preferring(asked)),
            "MEMIF, kernel, REMOTE is not offered: this endpoint offers KERNEL, NOOP"
        );
        assert_eq!(
            refusal(&preferring(vec![])),
            "the request asks for no mechanism: this endpoint offers KERNEL, NOOP"
        );
    }

    #[test]
    fn a_name_that_no_interface_can_have_is_refused_or_passed_over() {
        let bad = Mechanism::kernel().with_parameter(INTERFACE_NAME, "../../etc");
        assert_eq!(
            refusal(&preferring(vec![bad.clone()])),
            "\"../../etc\" is no name for an interface: it has a '/'"
        );

        let next = preferring(vec![bad, of_type(NOOP)]);
        assert_eq!(choice(&next).unwrap().r#type, NOOP);
    }

    #[tokio::test]
    async fn the_path_tells_which_interface_the_endpoint_has_and_the_first_word_stays() {
        let chain = ServiceBuilder::new()
            .layer(MechanismsLayer::new([Offer::kernel()]))
            .service(echo());
        let named = |name| Mechanism::kernel().with_parameter(INTERFACE_NAME, name);
        let mut request = preferring(vec![named("nsm-1")]);
        request.connection = Some(Connection {
            path: Some(Path {
                index: 1,
                path_segments: vec![PathSegment::default(); 2],
            }),
            ..Connection::default()
        });

        for name in ["nsm-1", "nsm-2"] {
            request.connection.get_or_insert_default().mechanism = Some(named(name));
            let call = Call::request(request.clone());
            let connection = chain.clone().oneshot(call).await.unwrap();

            let metrics = &connection.current_segment().unwrap().metrics;
            assert_eq!(metrics["server_interface"], "KERNEL/nsm-1");
            assert!(connection.previous_segment().unwrap().metrics.is_empty());
            request.connection = Some(connection);
        }
    }

    #[tokio::test]
    async fn an_interface_without_a_name_gets_one_by_which_no_other_goes() {
        let chain = ServiceBuilder::new()
            .layer(MechanismsLayer::new([Offer::kernel(), Offer::Noop]))
            .service(echo());
        let named = async |id: &str, asked: Mechanism| {
            let mut request = preferring(vec![asked]);
            request.connection = Some(Connection {
                id: id.to_owned(),
                ..Connection::default()
            });
            let call = Call::request(request);
            let connection = chain.clone().oneshot(call).await.unwrap();
            let mechanism = connection.mechanism.unwrap();
            mechanism.parameters.get(INTERFACE_NAME).cloned()
        };
        let without = Mechanism::kernel;
        let empty = without().with_parameter(INTERFACE_NAME, "");
        let asked = without().with_parameter(INTERFACE_NAME, "nsm-1");

        let first = named("1", without()).await.unwrap();
        assert_eq!(InterfaceName::check(&first), Ok(()));
        assert_eq!(named("1", empty).await.as_ref(), Some(&first));
        assert_ne!(named("2", without()).await.as_ref(), Some(&first));
        assert_eq!(named("1", asked).await.as_deref(), Some("nsm-1"));
        assert_eq!(named("1", of_type(NOOP)).await, None);
    }

    #[tokio::test]
    async fn a_refused_request_does_not_go_on_and_a_close_always_does() {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(MechanismsLayer::new([Offer::kernel()]))
            .layer(below.clone())
            .service(echo());

        let request = Call::request(preferring(vec![of_type("MEMIF")]));
        let error = chain.clone().oneshot(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);

        let close = Call::close(Connection {
            mechanism: Some(of_type("MEMIF")),
            ..Connection::default()
        });
        chain.oneshot(close).await.unwrap();
        assert_eq!(below.operations(), ["close"]);
    }
}
