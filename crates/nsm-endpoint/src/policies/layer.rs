//! The policies of an endpoint, and the element that gives them to connections.

use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use nsm_chain::metadata::Store;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, Side, take_ready};
use tower::{Layer, Service};

use super::apply::{Memory, apply};
use super::file::PolicyList;

const ELEMENT: &str = "policies";

/// The policies of an endpoint, which may change while it serves. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Policies(Arc<RwLock<PolicyList>>);

impl Policies {
    /// Begins with a list.
    pub fn new(list: PolicyList) -> Self {
        Self(Arc::new(RwLock::new(list)))
    }

    /// The list as it is.
    pub fn get(&self) -> PolicyList {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes another list in its place. Every connection gets it with its next request.
    pub fn set(&self, list: PolicyList) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = list;
    }
}

/// Gives each connection the endpoint's policies. See the [module](super).
///
/// It sits below `metadata`, where it remembers what it added, and below the IPAM, whose
/// addresses it must see.
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
/// [`ErrorKind::Internal`] if there is no `metadata` above it on the server side.
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
            return Box::pin(inner.call(call));
        }
        let list = self.policies.get();
        Box::pin(async move {
            let store = Store::of(&call, Side::Server)
                .cloned()
                .ok_or_else(|| Error::new(ErrorKind::Internal, ELEMENT, NoMetadata))?;
            let known = store.get::<Memory>().unwrap_or_default();
            let ip = call.connection_mut().ip_context_mut();
            let memory = apply(ip, list.policies(), &known);
            let connection = inner.call(call).await?;
            // What a failed request would have given, the client never had.
            store.insert(memory);
            Ok(connection)
        })
    }
}
