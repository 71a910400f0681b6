//! What a program says of its connections, to a listener of ours.

use futures_util::StreamExt;
use http::Extensions;
use nsm_api::connection::{Connection, MonitorScopeSelector};
use nsm_chain::monitor::Watch;
use nsm_grpc::{Connect, Transport};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// All connections that it knows, by its first event.
pub(super) fn connections(url: &str) -> Vec<Connection> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let transport = Transport::new(url.parse().unwrap(), PATIENCE);
        let hears = Connect::to(transport);
        let mut events = hears.watch(&Extensions::new(), MonitorScopeSelector::default());
        let first = timeout(PATIENCE, events.next()).await;
        let event = first.unwrap().unwrap().unwrap();
        event.connections.into_values().collect()
    })
}

/// The only connection that it knows.
pub(super) fn connection(url: &str) -> Connection {
    let mut connections = connections(url);
    assert_eq!(connections.len(), 1, "{connections:?}");
    connections.remove(0)
}
