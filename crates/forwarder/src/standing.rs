//! The connections that stand: for an end that closes them all, and for clients that have forgotten
//! their way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use nsm_api::ConnectionId;
use nsm_api::connection::{Connection, PathSegment};
use nsm_chain::begin::{Events, Outcome};
use nsm_chain::{BoxFuture, Call, Error, NetworkService, Operation, take_ready};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower::{Layer, Service};
use tracing::warn;

use crate::reunite::{Client, way};

/// Remembers which connections stand.
///
/// It sits below `begin`. The layer holds what it remembers: services made by one layer, or by its
/// clones, share it.
#[derive(Clone, Debug, Default)]
pub struct StandingLayer {
    standing: Arc<Mutex<HashMap<ConnectionId, Known>>>,
}

/// What is known of a connection.
#[derive(Clone, Debug)]
struct Known {
    events: Events,
    /// Whose it is, if that was said.
    client: Option<Client>,
    /// Where it leads.
    way: Vec<PathSegment>,
}

impl StandingLayer {
    /// How many connections stand.
    pub fn len(&self) -> usize {
        self.connections().len()
    }

    /// Whether none stands.
    pub fn is_empty(&self) -> bool {
        self.connections().is_empty()
    }

    /// Closes all connections, at once, and gives how many could not be closed within that time.
    /// The chain has to be there still.
    ///
    /// # Cancellation
    ///
    /// Those closes that have begun go on.
    pub async fn close_all(&self, within: Duration) -> usize {
        let connections: Vec<_> = self.connections().drain().collect();
        let mut left = connections.len();
        let mut closes = JoinSet::new();
        for (id, known) in connections {
            closes.spawn(async move { (id, known.events.close().await) });
        }
        let all = async {
            while let Some(closed) = closes.join_next().await {
                match closed {
                    Ok((_, Ok(Outcome::Done(_) | Outcome::NotKnown))) => left -= 1,
                    Ok((id, Ok(Outcome::ChainGone))) => {
                        warn!(connection.id = %id, "not closed: the chain is gone");
                    }
                    Ok((id, Err(error))) => {
                        warn!(connection.id = %id, error = %error.report(), "not closed");
                    }
                    Err(error) => warn!(%error, "not closed"),
                }
            }
        };
        if timeout(within, all).await.is_err() {
            warn!(?within, "not all connections are closed in time");
        }
        left
    }

    /// Where the connection of a client leads, from us on.
    pub fn way_of(&self, client: &Client) -> Option<Vec<PathSegment>> {
        let connections = self.connections();
        let mut all = connections.values();
        let known = all.find(|known| known.client.as_ref() == Some(client))?;
        Some(known.way.clone())
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<ConnectionId, Known>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Layer<S> for StandingLayer {
    type Service = Standing<S>;

    fn layer(&self, inner: S) -> Standing<S> {
        Standing {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service of [`StandingLayer`]. Its errors are those from below.
#[derive(Clone, Debug)]
pub struct Standing<S> {
    inner: S,
    layer: StandingLayer,
}

impl<S: NetworkService> Service<Call> for Standing<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let layer = self.layer.clone();
        Box::pin(async move {
            let id = call.connection_id().ok();
            let events = call.extensions.get::<Events>().cloned();
            let path = call.connection().path.as_ref();
            let client = path.and_then(|path| Client::of(&call, path.index as usize));
            let is_close = matches!(call.operation, Operation::Close(_));
            if let (true, Some(id)) = (is_close, &id) {
                // Whatever becomes of the close: begin forgets the connection, too.
                layer.connections().remove(id);
            }
            let connection = inner.call(call).await?;
            if let (false, Some(id), Some(events)) = (is_close, id, events) {
                let known = Known {
                    events,
                    client,
                    way: way(&connection),
                };
                layer.connections().insert(id, known);
            }
            Ok(connection)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::networkservice::NetworkServiceRequest;
    use nsm_chain::test_util::{FailOn, Recorder, echo};
    use nsm_chain::{BeginLayer, BoxNetworkService, Side};
    use tower::{ServiceBuilder, ServiceExt};

    fn chain(standing: &StandingLayer, below: &Recorder, wrong: FailOn) -> BoxNetworkService {
        ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(BeginLayer::new(Side::Server))
            .layer(standing.clone())
            .layer(below.clone())
            .layer(wrong)
            .service(echo())
    }

    fn request(id: &str) -> Call {
        Call::request(NetworkServiceRequest {
            connection: Some(connection(id)),
            ..NetworkServiceRequest::default()
        })
    }

    fn connection(id: &str) -> Connection {
        Connection {
            id: id.to_owned(),
            ..Connection::default()
        }
    }

    #[tokio::test]
    async fn what_stands_is_closed_and_what_was_closed_is_not() {
        let (standing, below) = (StandingLayer::default(), Recorder::new());
        let chain = chain(&standing, &below, FailOn::request(0));
        for id in ["1", "2", "3"] {
            chain.clone().oneshot(request(id)).await.unwrap();
        }
        let close = Call::close(connection("2"));
        chain.clone().oneshot(close).await.unwrap();
        assert_eq!(standing.len(), 2);

        let left = standing.close_all(Duration::from_secs(1)).await;

        assert_eq!(left, 0);
        assert!(standing.is_empty());
        let closes = below.operations();
        assert_eq!(closes.iter().filter(|it| **it == "close").count(), 3);
    }

    #[tokio::test]
    async fn without_the_chain_nothing_counts_as_closed() {
        let (standing, below) = (StandingLayer::default(), Recorder::new());
        let chain = chain(&standing, &below, FailOn::request(0));
        chain.oneshot(request("1")).await.unwrap();

        let left = standing.close_all(Duration::from_secs(1)).await;

        assert_eq!(left, 1);
        assert_eq!(below.operations(), ["request"]);
    }

    #[tokio::test]
    async fn a_first_request_that_fails_leaves_nothing_standing() {
        let (standing, below) = (StandingLayer::default(), Recorder::new());
        let chain = chain(&standing, &below, FailOn::request(1));

        chain.oneshot(request("1")).await.unwrap_err();

        assert!(standing.is_empty());
    }
}
