//! Keeps the addresses of a client's connections apart.
//!
//! Two endpoints that know nothing of each other may give one client the same addresses, and then
//! one of its connections carries what is meant for the other. So each request excludes what the
//! client's other connections use: their addresses, those to which their routes lead, and what
//! their hops excluded in turn. An answer with an address that is in use all the same is refused.
//!
//! Services that are aware of each other may overlap: connections of one group (see [`Member`]) do
//! not exclude each other. Nor do sources that policies name (their `from`): who gives the same to
//! several connections wants them told apart by more than the address.

mod used;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_api::networkservice::NetworkServiceRequest;
use tower::{Layer, Service};

use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};
use used::{Excluded, Used};

const ELEMENT: &str = "excluded_prefixes";

/// A service that may overlap with the others of its group, told from others by as much as is known
/// of it. What else a connection is labelled with does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The network service.
    pub network_service: String,
    /// The type of the mechanism; any if there is none.
    pub mechanism: Option<String>,
    /// The name of the interface; any if there is none.
    pub interface: Option<String>,
    /// The labels that a connection has at least.
    pub labels: BTreeMap<String, String>,
}

impl Member {
    fn is(&self, request: &NetworkServiceRequest) -> bool {
        let Some(connection) = &request.connection else {
            return false;
        };
        let chosen = connection.mechanism.iter();
        let mechanisms = chosen.chain(&request.mechanism_preferences);
        let is_any = |wanted: &Option<String>, is: &dyn Fn(&Mechanism, &String) -> bool| {
            let wanted = wanted.as_ref();
            wanted.is_none_or(|wanted| mechanisms.clone().any(|it| is(it, wanted)))
        };
        let fits = is_any(&self.mechanism, &|it, wanted| it.r#type == *wanted)
            && is_any(&self.interface, &|it, wanted| {
                it.parameters.get(INTERFACE_NAME) == Some(wanted)
            });
        let mut labels = self.labels.iter();
        self.network_service == connection.network_service
            && fits
            && labels.all(|(label, value)| connection.labels.get(label) == Some(value))
    }
}

/// Keeps the addresses of connections apart. See the [module](self).
///
/// It sits on the client side, below `begin`, which closes what is refused here, and below what
/// names the interface. The layer knows what is in use: services made by one layer, or by its
/// clones, share it.
#[derive(Clone, Debug, Default)]
pub struct ExcludedPrefixesLayer {
    groups: Arc<[Vec<Member>]>,
    used: Arc<Mutex<Used>>,
}

impl ExcludedPrefixesLayer {
    /// Nothing is in use, and the services of each group may overlap. A service that is in several
    /// groups counts for the first.
    pub fn new(groups: impl IntoIterator<Item = Vec<Member>>) -> Self {
        Self {
            groups: groups.into_iter().collect(),
            used: Arc::default(),
        }
    }

    /// How many connections use something.
    pub fn connections(&self) -> usize {
        self.used().connections()
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn group(&self, request: &NetworkServiceRequest) -> Option<usize> {
        let mut groups = self.groups.iter();
        groups.position(|members| members.iter().any(|member| member.is(request)))
    }
}

impl<S> Layer<S> for ExcludedPrefixesLayer {
    type Service = ExcludedPrefixes<S>;

    fn layer(&self, inner: S) -> ExcludedPrefixes<S> {
        ExcludedPrefixes {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service of [`ExcludedPrefixesLayer`].
///
/// # Errors
///
/// * [`ErrorKind::FailedPrecondition`]: the answer has an address that another connection uses.
/// * [`ErrorKind::InvalidArgument`]: the connection has no id.
#[derive(Clone, Debug)]
pub struct ExcludedPrefixes<S> {
    inner: S,
    layer: ExcludedPrefixesLayer,
}

#[derive(Debug, thiserror::Error)]
#[error("the endpoint gives {0}, which another connection uses")]
struct InUse(IpAddr);

impl<S: NetworkService> Service<Call> for ExcludedPrefixes<S> {
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
            let id = call
                .connection_id()
                .map_err(|empty| Error::new(ErrorKind::InvalidArgument, ELEMENT, empty))?;
            let Operation::Request(request) = &mut call.operation else {
                layer.used().forget(&id);
                return inner.call(call).await;
            };
            let group = layer.group(request);
            let excluded: Excluded = layer.used().by_others(&id, group);
            let connection = request.connection.get_or_insert_default();
            let added = excluded.add_to(connection);

            let mut connection = inner.call(call).await?;

            added.take_from(&mut connection);
            // Others may have got theirs meanwhile.
            let mut used = layer.used();
            if let Some(address) = used.by_others(&id, group).conflict(&connection) {
                let error = InUse(address);
                return Err(Error::new(ErrorKind::FailedPrecondition, ELEMENT, error));
            }
            used.remember(id, group, &connection);
            Ok(connection)
        })
    }
}
