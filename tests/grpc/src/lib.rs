//! Servers, clients and folders for the behaviours of the edge.

// Tests only: what fails here fails a test.
#![allow(clippy::unwrap_used)]

pub mod peer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{BoxNetworkService, Call, Error, NetworkService};
use nsm_grpc::{Address, Connect, Listener, Server, Transport};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, timeout};
use tower::ServiceExt;

/// The time that a call of a test has. Nothing that goes well needs it.
pub const PLENTY: Duration = Duration::from_secs(10);

/// A folder for sockets, which goes with the value.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder with a short path: that of a socket may not be long.
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("nsm-grpc-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The address of a socket in it.
    pub fn socket(&self, name: &str) -> Address {
        Address::Unix(self.file(name))
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Serving {
    /// Where it listens.
    pub address: Address,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Serves a chain.
    pub async fn chain(address: &Address, chain: impl NetworkService) -> Self {
        Self::server(address, Server::new(BoxNetworkService::new(chain))).await
    }

    /// Runs a server.
    pub async fn server(address: &Address, server: Server) -> Self {
        let listener = Listener::bind(address).await.unwrap();
        let address = listener.address();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.serve(listener, async {
            stopped.await.ok();
        }));
        Self {
            address,
            stop,
            task,
        }
    }

    /// Stops it, and waits until it has stopped.
    pub async fn stop(self) {
        self.stop.send(()).ok();
        timeout(PLENTY, self.task).await.unwrap().unwrap();
    }

    /// Tells it to stop, and gives what ends when it has.
    pub fn begin_to_stop(self) -> JoinHandle<()> {
        self.stop.send(()).ok();
        self.task
    }

    /// Cuts everything off at once.
    pub async fn kill(self) {
        self.task.abort();
        self.task.await.ok();
    }
}

/// A client of an address.
pub fn client(address: &Address) -> Connect {
    Connect::to(transport(address))
}

/// A transport to an address.
pub fn transport(address: &Address) -> Transport {
    Transport::new(address.clone(), Duration::from_secs(1))
}

/// A request with plenty of time.
pub fn request(connection: Connection) -> Call {
    within(
        PLENTY,
        Call::request(NetworkServiceRequest {
            connection: Some(connection),
            ..NetworkServiceRequest::default()
        }),
    )
}

/// A close with plenty of time.
pub fn close(connection: Connection) -> Call {
    within(PLENTY, Call::close(connection))
}

/// Gives a call its time.
pub fn within(time: Duration, mut call: Call) -> Call {
    call.deadline = Some(Instant::now() + time);
    call
}

/// A connection with an id.
pub fn connection(id: &str) -> Connection {
    Connection {
        id: id.to_owned(),
        ..Connection::default()
    }
}

/// Calls a service.
pub async fn call(service: &impl NetworkService, call: Call) -> Result<Connection, Error> {
    service.clone().oneshot(call).await
}
