//! The element that gives connections their policies.

use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use nsm_api::connectioncontext::PolicyRoute;
use nsm_chain::metadata::Store;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, Side, take_ready};
use tower::{Layer, Service};

use super::apply::{Memory, apply};
use super::given::Policies;

const ELEMENT: &str = "policies";

/// Gives each connection the endpoint's policies. See the [module](super).
///
/// It sits below `metadata`, where it remembers what it added, below the `monitor` that tells
/// connections of a change, and below the IPAM, whose addresses it must see.
#[derive(Clone, Debug)]
pub struct PoliciesLayer {
    policies: Policies,
}

impl PoliciesLayer {
    /// Gives the policies that there are when a request comes by.
    pub fn new(policies: Policies) -> Self {
        Self { policies }
    }
}

impl<S> Layer<S> for PoliciesLayer {
    type Service = WithPolicies<S>;

    fn layer(&self, inner: S) -> WithPolicies<S> {
        WithPolicies {
            inner,
            policies: self.policies.clone(),
        }
    }
}

/// The service of [`PoliciesLayer`].
///
/// # Errors
///
/// [`ErrorKind::Internal`] if there is no `metadata` above it on the server side;
/// [`ErrorKind::InvalidArgument`] if the connection has no id.
#[derive(Clone, Debug)]
pub struct WithPolicies<S> {
    inner: S,
    policies: Policies,
}

/// The chain is not put together as it must be.
#[derive(Debug, thiserror::Error)]
#[error("there is no metadata layer of the server side above")]
struct NoMetadata;

impl<S: NetworkService> Service<Call> for WithPolicies<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        if let Operation::Close(_) = call.operation {
            if let Ok(id) = call.connection_id() {
                self.policies.forget(&id);
            }
            return Box::pin(inner.call(call));
        }
        let policies = self.policies.clone();
        Box::pin(async move {
            let store = Store::of(&call, Side::Server)
                .cloned()
                .ok_or_else(|| Error::new(ErrorKind::Internal, ELEMENT, NoMetadata))?;
            let id = call
                .connection_id()
                .map_err(|empty| Error::new(ErrorKind::InvalidArgument, ELEMENT, empty))?;
            let known = store.get::<Memory>().unwrap_or_default();
            let connection = call.connection_mut();
            let (given, list) = policies.give(id, &connection.labels);
            let own = list.policies_for(&connection.labels).cloned();
            let own: Vec<PolicyRoute> = own.collect();
            let memory = apply(connection.ip_context_mut(), &own, &known);
            let connection = inner.call(call).await?;
            // What a failed request would have given, the client never had.
            given.keep();
            store.insert(memory);
            Ok(connection)
        })
    }
}
