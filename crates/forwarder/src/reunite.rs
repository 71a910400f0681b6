//! Brings a client that has forgotten its way back to its connection.
//!
//! A client that was killed and starts again asks by the same name and id, and knows nothing of the
//! hops behind it. Taken as another connection, it would share its interface and its policies with
//! a ghost until the ghost's token ends. So it is given the way that it had: the connection that
//! stands for the same hops before us, and the same network namespace.

use std::task::{Context, Poll};

use nsm_api::connection::{Connection, Mechanism, PathSegment};
use nsm_api::mechanism::KERNEL;
use nsm_chain::{BoxFuture, Call, Error, NetworkService, Operation, take_ready};
use nsm_grpc::Inode;
use tower::{Layer, Service};

use crate::standing::StandingLayer;

/// Who asks for a connection: the hops before us, by name and id, and the client's namespace.
///
/// Two pods may choose one name. As long as a connection stands, its namespace is held, and the
/// inode names no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    hops: Vec<(String, String)>,
    netns: Inode,
}

impl Client {
    /// Who asks by that call, where the first `hops` segments of the path are before us. `None` if
    /// the call does not say it.
    pub fn of(call: &Call, hops: usize) -> Option<Self> {
        let segments = &call.connection().path.as_ref()?.path_segments;
        let hops = segments.get(..hops).filter(|hops| !hops.is_empty())?;
        let mechanism = call.connection().mechanism.as_ref();
        let preferences: &[Mechanism] = match &call.operation {
            Operation::Request(request) => &request.mechanism_preferences,
            Operation::Close(_) => &[],
        };
        let mut kernel = mechanism.into_iter().chain(preferences);
        let kernel = kernel.find(|mechanism| mechanism.r#type == KERNEL)?;
        let url = kernel.parameters.get(nsm_api::mechanism::NETNS_URL)?;
        Some(Self {
            hops: hops
                .iter()
                .map(|hop| (hop.name.clone(), hop.id.clone()))
                .collect(),
            netns: url.parse().ok()?,
        })
    }
}

/// Gives a client that has forgotten its way the one that it had. See the [module](self).
///
/// It sits above [`update_path`](nsm_chain::update_path), which makes a new way otherwise.
#[derive(Clone, Debug)]
pub struct ReuniteLayer {
    standing: StandingLayer,
}

impl ReuniteLayer {
    /// Looks for the way among these.
    pub fn new(standing: StandingLayer) -> Self {
        Self { standing }
    }
}

impl<S> Layer<S> for ReuniteLayer {
    type Service = Reunited<S>;

    fn layer(&self, inner: S) -> Reunited<S> {
        Reunited {
            standing: self.standing.clone(),
            inner,
        }
    }
}

/// The service of [`ReuniteLayer`]. Its errors are those from below.
#[derive(Clone, Debug)]
pub struct Reunited<S> {
    standing: StandingLayer,
    inner: S,
}

impl<S: NetworkService> Service<Call> for Reunited<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        if let Some(mut way) = forgotten(&call).and_then(|client| self.standing.way_of(&client)) {
            let path = call.connection_mut().path.get_or_insert_default();
            path.path_segments.append(&mut way);
        }
        Box::pin(async move { inner.call(call).await })
    }
}

/// Who asks, if the path ends with the hop before us.
fn forgotten(call: &Call) -> Option<Client> {
    let path = call.connection().path.as_ref()?;
    let hops = path.index as usize + 1;
    if path.path_segments.len() != hops {
        return None;
    }
    Client::of(call, hops)
}

/// What is behind the hops before us, ours first.
pub fn way(connection: &Connection) -> Vec<PathSegment> {
    let Some(path) = &connection.path else {
        return Vec::new();
    };
    let behind = path.path_segments.get(path.index as usize..);
    behind.unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::connection::Path;
    use nsm_api::mechanism::NETNS_URL;
    use nsm_api::networkservice::NetworkServiceRequest;
    use nsm_chain::test_util::echo;
    use nsm_chain::{BeginLayer, BoxNetworkService, Side, UpdatePathLayer};
    use tower::{ServiceBuilder, ServiceExt};

    fn chain() -> (BoxNetworkService, StandingLayer) {
        let standing = StandingLayer::default();
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(ReuniteLayer::new(standing.clone()))
            .layer(UpdatePathLayer::new("forwarder"))
            .layer(BeginLayer::new(Side::Server))
            .layer(standing.clone())
            .layer(UpdatePathLayer::new("endpoint"))
            .service(echo());
        (chain, standing)
    }

    /// A client that knows nothing but itself.
    fn request(id: &str, netns: &str) -> Call {
        let segment = PathSegment {
            name: "nsc".to_owned(),
            id: id.to_owned(),
            ..PathSegment::default()
        };
        Call::request(NetworkServiceRequest {
            connection: Some(Connection {
                id: id.to_owned(),
                path: Some(Path {
                    index: 0,
                    path_segments: vec![segment],
                }),
                ..Connection::default()
            }),
            mechanism_preferences: vec![Mechanism::kernel().with_parameter(NETNS_URL, netns)],
        })
    }

    async fn ids(chain: &BoxNetworkService, call: Call) -> Vec<String> {
        let connection = chain.clone().oneshot(call).await.unwrap();
        let path = connection.path.unwrap();
        path.path_segments.into_iter().map(|it| it.id).collect()
    }

    #[tokio::test]
    async fn a_client_that_has_forgotten_its_way_gets_the_one_that_it_had() {
        let (chain, standing) = chain();
        let first = ids(&chain, request("nsc-0", "inode://4/1")).await;

        let again = ids(&chain, request("nsc-0", "inode://4/1")).await;

        assert_eq!(first.len(), 3);
        assert_eq!(again, first);
        assert_eq!(standing.len(), 1);
    }

    #[tokio::test]
    async fn another_pod_another_id_and_no_namespace_are_other_connections() {
        let (chain, standing) = chain();
        for (id, netns) in [
            ("nsc-0", "inode://4/1"),
            ("nsc-0", "inode://4/2"),
            ("nsc-1", "inode://4/1"),
            ("nsc-0", ""),
            ("nsc-0", ""),
        ] {
            ids(&chain, request(id, netns)).await;
        }
        assert_eq!(standing.len(), 5);
    }

    #[tokio::test]
    async fn a_way_that_was_closed_is_not_given_again() {
        let (chain, standing) = chain();
        let call = request("nsc-0", "inode://4/1");
        let first = chain.clone().oneshot(call).await.unwrap();
        chain.clone().oneshot(Call::close(first)).await.unwrap();
        assert!(standing.is_empty());

        ids(&chain, request("nsc-0", "inode://4/1")).await;

        assert_eq!(standing.len(), 1);
    }
}
