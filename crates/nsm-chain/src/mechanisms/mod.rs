//! Leads each call of a client to the element of the connection's mechanism.
//!
//! A connection that has a mechanism goes by the element of that type. One that has none yet is
//! tried with each of the request's preferences, in their order and each alone, until one works:
//! what works with the far end is the far end's to say. If none does, the error tells what became
//! of each.
//!
//! [`kernel`] is the element of kernel interfaces.

mod error;
pub mod kernel;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_api::networkservice::NetworkServiceRequest;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt};

use crate::{
    BoxFuture, BoxNetworkService, Call, Error, ErrorKind, NetworkService, Operation, Side,
};
pub use error::NoMechanism;
use error::Tried;
pub use kernel::KernelMechanismLayer;

const ELEMENT: &str = "mechanisms";

/// The rest of a chain, with the element of a mechanism on top of it.
type Wrap = Arc<dyn Fn(BoxNetworkService) -> BoxNetworkService + Send + Sync>;

/// Leads each call to the element of its mechanism. See the [module](self).
///
/// It sits below `begin`. The elements that it is given sit on what is below it.
///
/// ```
/// # use nsm_api::mechanism::KERNEL;
/// # use nsm_chain::End;
/// # use nsm_chain::mechanisms::{KernelMechanismLayer, MechanismsLayer};
/// # let _ =
/// tower::ServiceBuilder::new()
///     .layer(MechanismsLayer::new().with(KERNEL, KernelMechanismLayer::new()))
///     .service(End);
/// ```
#[derive(Clone, Default)]
pub struct MechanismsLayer {
    elements: Vec<(&'static str, Wrap)>,
}

impl MechanismsLayer {
    /// Supports no mechanism.
    pub fn new() -> Self {
        Self::default()
    }

    /// Supports mechanisms of a type, by an element. The first one of a type counts.
    #[must_use]
    pub fn with<L>(mut self, r#type: &'static str, element: L) -> Self
    where
        L: Layer<BoxNetworkService, Service: NetworkService> + Send + Sync + 'static,
    {
        let wrap = move |below| BoxNetworkService::new(element.layer(below));
        self.elements.push((r#type, Arc::new(wrap)));
        self
    }
}

impl fmt::Debug for MechanismsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = self.elements.iter().map(|(r#type, _)| r#type);
        f.debug_list().entries(types).finish()
    }
}

impl<S: NetworkService> Layer<S> for MechanismsLayer {
    type Service = Mechanisms<S>;

    fn layer(&self, inner: S) -> Mechanisms<S> {
        let below = BoxNetworkService::new(inner.clone());
        let ways = self.elements.iter();
        let ways = ways.map(|(r#type, wrap)| (*r#type, wrap(below.clone())));
        Mechanisms {
            ways: Ways(ways.collect()),
            inner,
        }
    }
}

/// The service of [`MechanismsLayer`].
///
/// # Errors
///
/// * [`ErrorKind::InvalidArgument`] with a [`NoMechanism`]: nothing that the request names is
///   supported. It does not go on then.
/// * That of the first preference that was tried, if all failed, with a [`NoMechanism`] that tells
///   of each. If there was but one preference, its own error.
///
/// A close of a connection without a mechanism, or with one that is not supported, goes on below,
/// by none of the elements: it was never made here, or only half.
#[derive(Clone, Debug)]
pub struct Mechanisms<S> {
    inner: S,
    ways: Ways,
}

/// The ways down, by the type of the mechanism.
#[derive(Clone, Debug)]
struct Ways(Arc<[(&'static str, BoxNetworkService)]>);

impl<S: NetworkService> Service<Call> for Mechanisms<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    /// Always ready: which way a call takes is not known before it comes.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let way = chosen(call.connection()).and_then(|mechanism| self.ways.of(mechanism));
        match (&call.operation, way) {
            (Operation::Close(_), Some(way)) => Box::pin(way.oneshot(call)),
            (Operation::Close(_), None) => Box::pin(self.inner.clone().oneshot(call)),
            (Operation::Request(_), _) => {
                let ways = self.ways.clone();
                Box::pin(async move {
                    let mut connection = ways.request(call).await?;
                    report_interface(&mut connection, Side::Client);
                    Ok(connection)
                })
            }
        }
    }
}

impl Ways {
    fn of(&self, mechanism: &Mechanism) -> Option<BoxNetworkService> {
        let mut ways = self.0.iter();
        let way = ways.find(|(r#type, _)| *r#type == mechanism.r#type);
        way.map(|(_, way)| way.clone())
    }

    async fn request(&self, mut call: Call) -> Result<Connection, Error> {
        if let Some(mechanism) = chosen(call.connection()) {
            let Some(way) = self.of(mechanism) else {
                let asked = Tried::unsupported(mechanism);
                return Err(self.none(vec![asked]));
            };
            return way.oneshot(call).await;
        }
        call.connection_mut().mechanism = None;
        let preferences = match &mut call.operation {
            Operation::Request(request) => std::mem::take(&mut request.mechanism_preferences),
            Operation::Close(_) => Vec::new(),
        };
        let mut tried = Vec::with_capacity(preferences.len());
        for preference in preferences {
            let Some(way) = self.of(&preference) else {
                tried.push(Tried::unsupported(&preference));
                continue;
            };
            match way.oneshot(with_preference(&call, &preference)).await {
                Ok(connection) => return Ok(connection),
                Err(error) => tried.push(Tried::failed(&preference, error)),
            }
            // What comes after the end could only tell of the end.
            if call.deadline.is_some_and(|end| end <= Instant::now()) {
                break;
            }
        }
        Err(self.none(tried))
    }

    /// That no mechanism works.
    fn none(&self, mut tried: Vec<Tried>) -> Error {
        let kind = tried.iter().find_map(Tried::kind);
        if let (1, Some(_)) = (tried.len(), kind)
            && let Some(error) = tried.pop().and_then(Tried::into_error)
        {
            return error;
        }
        let supported = self.0.iter().map(|(r#type, _)| *r#type).collect();
        let kind = kind.unwrap_or(ErrorKind::InvalidArgument);
        Error::new(kind, ELEMENT, NoMechanism::new(tried, supported))
    }
}

/// The connection's mechanism. One without a type is the wire's other spelling for none.
fn chosen(connection: &Connection) -> Option<&Mechanism> {
    let mechanism = connection.mechanism.as_ref();
    mechanism.filter(|mechanism| !mechanism.r#type.is_empty())
}

fn with_preference(call: &Call, preference: &Mechanism) -> Call {
    Call {
        operation: Operation::Request(NetworkServiceRequest {
            connection: Some(call.connection().clone()),
            mechanism_preferences: vec![preference.clone()],
        }),
        ..call.clone()
    }
}

/// Tells in the path which interface this hop has for the connection, as `KERNEL/nsm-1`: as metric
/// `client_interface` or `server_interface`, for the side. What stands there stays, and without a
/// name there is nothing to tell.
pub fn report_interface(connection: &mut Connection, side: Side) {
    let metric = match side {
        Side::Client => "client_interface",
        Side::Server => "server_interface",
    };
    let mechanism = connection.mechanism.as_ref();
    let interface = mechanism.and_then(|mechanism| {
        let name = mechanism.parameters.get(INTERFACE_NAME)?;
        (!name.is_empty()).then(|| format!("{}/{name}", mechanism.r#type))
    });
    let path = connection.path.as_mut();
    let segment = path.and_then(|path| path.path_segments.get_mut(path.index as usize));
    if let (Some(interface), Some(segment)) = (interface, segment) {
        segment
            .metrics
            .entry(metric.to_owned())
            .or_insert(interface);
    }
}
