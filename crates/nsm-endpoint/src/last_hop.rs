//! Says that the connection ends here, and at which endpoint.
//!
//! A path that went on behind an endpoint of this name before, at hops that serve it no more, would
//! have them in each answer, with tokens that end and are not renewed: whoever goes by the first
//! token that ends would ask again without a pause.

use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use nsm_chain::{BoxFuture, Call, Error, NetworkService, Operation, take_ready};
use tower::{Layer, Service};

/// Ends the path of each answer at this hop, and names this endpoint in it. See the
/// [module](self).
///
/// It sits below [`UpdatePathLayer`](nsm_chain::UpdatePathLayer).
#[derive(Clone, Debug)]
pub struct LastHopLayer {
    endpoint: Arc<str>,
}

impl LastHopLayer {
    /// For an endpoint of that name.
    pub fn new(endpoint: impl Into<Arc<str>>) -> Self {
        Self {
            endpoint: endpoint.into(),
        }
    }
}

impl<S> Layer<S> for LastHopLayer {
    type Service = LastHop<S>;

    fn layer(&self, inner: S) -> LastHop<S> {
        LastHop {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service of [`LastHopLayer`]. Its errors are those from below. A close stays as it is.
#[derive(Clone, Debug)]
pub struct LastHop<S> {
    inner: S,
    layer: LastHopLayer,
}

impl<S: NetworkService> Service<Call> for LastHop<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        if let Operation::Close(_) = call.operation {
            return Box::pin(inner.call(call));
        }
        let LastHopLayer { endpoint } = self.layer.clone();
        Box::pin(async move {
            let mut connection = inner.call(call).await?;
            if let Some(path) = &mut connection.path {
                path.path_segments.truncate(path.index as usize + 1);
            }
            (*endpoint).clone_into(&mut connection.network_service_endpoint_name);
            Ok(connection)
        })
    }
}
