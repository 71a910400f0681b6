//! Serves a chain to the hop before.

mod connection;
mod edge;
mod monitoring;
mod routes;

use std::fmt;
use std::pin::pin;

use nsm_chain::monitor::Monitor;
use nsm_chain::{BoxNetworkService, ErrorChain};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep, timeout};

use crate::reserve::{Reserve, is_exhausted};
use crate::{Address, Listener};
use routes::Routes;

/// How long the server waits after a connection could not be taken: at first, and at most. It is
/// out of descriptors then, and the next attempt fails at once.
const ACCEPT_WAIT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// How many descriptors are kept back for the work on what stands.
const RESERVE: usize = 32;

/// How many connections may be told at once that they are not served.
const REFUSALS: usize = 4;

/// Serves a chain: the service `networkservice.NetworkService` of the mesh, gRPC's health service,
/// and, with a [`Monitor`], the service `connection.MonitorConnection`.
///
/// What comes in over the wire becomes a [`Call`](nsm_chain::Call): the metadata without the
/// headers of the hop and of gRPC, the header `grpc-timeout` as its deadline, and, on a unix
/// socket, the [`Peer`](crate::Peer) in its extensions. It is for the chain to keep the deadline
/// ([`DeadlineLayer`](nsm_chain::DeadlineLayer)). When the caller goes away the future of the
/// chain is dropped ([`begin`](nsm_chain::begin) lets the work go on).
///
/// An error of the chain goes back as a status with the code that its kind says, or that the next
/// hop has given; the message is the error's report, of bounded length and without tokens. What is
/// no message of the mesh is answered with `Internal` as gRPC demands, a message that is too large
/// with `ResourceExhausted`, a method that is not served with `Unimplemented`.
///
/// Whoever listens to the monitor is bounded, too: by the size of his selector (64 KiB), and by how
/// far he may be behind, at which his stream ends with `ResourceExhausted`. He costs a few kilobytes
/// and no descriptor, and nothing as soon as he is gone.
#[derive(Clone)]
pub struct Server {
    chain: BoxNetworkService,
    monitor: Option<Monitor>,
    names: Vec<String>,
    limits: Limits,
}

/// What a peer may take up.
#[derive(Clone, Copy, Debug)]
struct Limits {
    message: usize,
    connections: usize,
    streams: u32,
    headers: u32,
    silence: Duration,
    drain: Duration,
}

impl Server {
    /// A server of that chain. A message may have 4 MiB, as everywhere in gRPC; 1024 connections
    /// may stand at once, with 16384 calls and streams each, since a hop before has one connection
    /// here and listens to each connection of the mesh over it; a connection has 20 s for its first word, and calls
    /// have 5 s to end when the server stops.
    pub fn new(chain: BoxNetworkService) -> Self {
        Self {
            chain,
            monitor: None,
            names: Vec::new(),
            limits: Limits {
                message: crate::MESSAGE_LIMIT,
                connections: 1024,
                streams: 16 << 10,
                headers: 64 << 10,
                silence: Duration::from_secs(20),
                drain: Duration::from_secs(5),
            },
        }
    }

    /// Tells those who ask for it what becomes of connections. When the server stops it closes the
    /// monitor, so that the streams end at once, with `OK`.
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.monitor = Some(monitor);
        self
    }

    /// The names of the network services that the health service speaks for, besides the server as
    /// a whole and `networkservice.NetworkService`.
    #[must_use]
    pub fn service_names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// How large a message may be, in bytes, both ways.
    #[must_use]
    pub fn message_limit(mut self, bytes: usize) -> Self {
        self.limits.message = bytes;
        self
    }

    /// How many connections may stand at once. More wait until one ends.
    #[must_use]
    pub fn connection_limit(mut self, connections: usize) -> Self {
        self.limits.connections = connections;
        self
    }

    /// How long calls may go on when the server stops.
    #[must_use]
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.limits.drain = limit;
        self
    }

    /// Serves until `shutdown`, and then until the calls that are under way have ended or their
    /// time is over.
    ///
    /// At the shutdown the health service answers `NOT_SERVING` to those who watch it and ends
    /// their streams, the listener is closed and its file removed, connections that have no call
    /// are closed, and the others once their calls are answered. What is left after the limit is
    /// cut off. Dropping the future cuts everything off.
    ///
    /// Running out of descriptors stops nothing. 32 are kept in reserve: connections that stand are
    /// served with these, and calls over new ones are answered with `ResourceExhausted`, until there
    /// is room for the reserve again.
    pub async fn serve(self, mut listener: Listener, shutdown: impl Future<Output = ()>) {
        let address = listener.address();
        let routes = Routes::new(
            self.chain,
            self.monitor.clone(),
            &self.names,
            self.limits.message,
        )
        .await;
        let (stop, stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut refusals = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        let mut wait = ACCEPT_WAIT.0;
        let mut reserve = Reserve::new(RESERVE);
        let mut is_full = !reserve.hold();
        tracing::info!(%address, "serving");
        loop {
            let room = connections.len() < self.limits.connections && refusals.len() < REFUSALS;
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                Some(_) = refusals.join_next() => {}
                accepted = listener.accept(), if room => match accepted {
                    Ok(socket) => {
                        wait = ACCEPT_WAIT.0;
                        let holds = reserve.hold();
                        if holds == is_full {
                            is_full = !holds;
                            say_whether(is_full, &address);
                        }
                        if holds {
                            connections.spawn(connection::serve(
                                socket,
                                routes.clone(),
                                self.limits,
                                stopping.clone(),
                            ));
                        } else {
                            refusals.spawn(connection::refuse(socket, self.limits));
                        }
                    }
                    // With what was in reserve it can be taken, and told.
                    Err(error) if is_exhausted(&error) && reserve.is_held() => reserve.release(),
                    Err(error) => {
                        if wait == ACCEPT_WAIT.0 {
                            let error = ErrorChain(&error);
                            tracing::warn!(%address, %error, "cannot take a connection, will try again");
                        }
                        tokio::select! {
                            () = &mut shutdown => break,
                            () = sleep(wait) => {}
                        }
                        wait = (wait * 2).min(ACCEPT_WAIT.1);
                    }
                },
            }
        }
        drop(listener);
        if let Some(monitor) = &self.monitor {
            monitor.close();
        }
        routes.stop(&self.names).await;
        stop.send_replace(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        if timeout(self.limits.drain, drained).await.is_err() {
            tracing::warn!(
                %address,
                connections = connections.len(),
                "calls have not ended in time and are cut off"
            );
        }
        connections.shutdown().await;
        tracing::info!(%address, "stopped");
    }
}

fn say_whether(is_full: bool, address: &Address) {
    match is_full {
        true => tracing::warn!(
            %address,
            "too many descriptors are open: new connections are refused, those that stand are served"
        ),
        false => tracing::info!(%address, "there are descriptors again for new connections"),
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("names", &self.names)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
