//! Says in a connection's labels where the client runs.
//!
//! Endpoints are selected by labels, such as those of the client's own node. A label that the
//! client has set itself stays.

use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use tower::{Layer, Service};

use crate::{Call, Error, NetworkService, Operation};

/// Where a client runs. What is not known, or empty, is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientInfo {
    /// The node, as label `nodeName`.
    pub node: Option<String>,
    /// The pod, as label `podName`.
    pub pod: Option<String>,
    /// The cluster, as label `clusterName`.
    pub cluster: Option<String>,
}

impl ClientInfo {
    fn labels(self) -> impl Iterator<Item = (&'static str, String)> {
        [
            ("nodeName", self.node),
            ("podName", self.pod),
            ("clusterName", self.cluster),
        ]
        .into_iter()
        .filter_map(|(label, value)| Some((label, value.filter(|it| !it.is_empty())?)))
    }
}

/// Adds labels to each request. See the [module](self).
#[derive(Clone, Debug)]
pub struct ClientInfoLayer {
    labels: Arc<[(&'static str, String)]>,
}

impl ClientInfoLayer {
    /// Adds what is known of that.
    pub fn new(info: ClientInfo) -> Self {
        Self {
            labels: info.labels().collect(),
        }
    }
}

impl<S> Layer<S> for ClientInfoLayer {
    type Service = Informed<S>;

    fn layer(&self, inner: S) -> Informed<S> {
        Informed {
            inner,
            labels: Arc::clone(&self.labels),
        }
    }
}

/// The service of [`ClientInfoLayer`]. Its errors are those from below.
#[derive(Clone, Debug)]
pub struct Informed<S> {
    inner: S,
    labels: Arc<[(&'static str, String)]>,
}

impl<S: NetworkService> Service<Call> for Informed<S> {
    type Response = Connection;
    type Error = Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        if matches!(call.operation, Operation::Request(_)) {
            let labels = &mut call.connection_mut().labels;
            for (label, value) in &*self.labels {
                labels
                    .entry((*label).to_owned())
                    .or_insert_with(|| value.clone());
            }
        }
        self.inner.call(call)
    }
}
