//! Streams of what becomes of connections, over real sockets.

// What fails here fails a test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod between;
mod ends;
mod events;
mod leaves;
mod peer;
mod room;
mod silence;

use futures_util::StreamExt;
use grpc_suite::{PLENTY, Serving, connection};
use http::Extensions;
use nsm_api::connection::{
    Connection, ConnectionEvent, ConnectionEventType, MonitorScopeSelector, Path, PathSegment,
};
use nsm_chain::monitor::{EventStream, Monitor, Watch};
use nsm_chain::{BoxNetworkService, End, Error};
use nsm_grpc::{Address, Connect, Server};
use tokio::time::timeout;

/// A server of a monitor.
async fn monitored(address: &Address, monitor: &Monitor) -> Serving {
    Serving::server(address, server(monitor)).await
}

fn server(monitor: &Monitor) -> Server {
    Server::new(BoxNetworkService::new(End)).monitor(monitor.clone())
}

/// A connection whose path has a segment of its own id.
fn standing(id: &str) -> Connection {
    Connection {
        path: Some(Path {
            index: 0,
            path_segments: vec![segment(id)],
        }),
        ..connection(id)
    }
}

fn segment(id: &str) -> PathSegment {
    PathSegment {
        id: id.to_owned(),
        name: "nsc".to_owned(),
        ..PathSegment::default()
    }
}

/// Selects the connection of that id.
fn of(id: &str) -> MonitorScopeSelector {
    nsm_chain::monitor::of_segment(&segment(id))
}

fn all() -> MonitorScopeSelector {
    MonitorScopeSelector::default()
}

fn watch(connect: &Connect, selector: MonitorScopeSelector) -> EventStream {
    connect.watch(&Extensions::new(), selector)
}

/// What comes next.
async fn heard(events: &mut EventStream) -> (ConnectionEventType, Vec<Connection>) {
    told(
        timeout(PLENTY, events.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap(),
    )
}

fn told(event: ConnectionEvent) -> (ConnectionEventType, Vec<Connection>) {
    let mut connections: Vec<_> = event.connections.clone().into_values().collect();
    connections.sort_by(|one, other| one.id.cmp(&other.id));
    (event.r#type(), connections)
}

/// Why the stream ends. Nothing comes behind it.
async fn lost(events: &mut EventStream) -> Error {
    let lost = async {
        loop {
            match events.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return error,
                None => panic!("a stream ends with the reason for it"),
            }
        }
    };
    let error = timeout(2 * PLENTY, lost).await.expect("the stream ends");
    assert!(events.next().await.is_none());
    error
}
