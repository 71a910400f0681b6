//! A forwarder of the Network Service Mesh: it joins the network namespaces of clients and
//! endpoints with pairs of kernel interfaces, and turns the policies of endpoints into rules and
//! routing tables of clients.
//!
//! [`Config`] is what it can be told, [`chain`] is what it does with a call. A forwarder that ends,
//! however it ends, leaves everything as it stands: its successor finds it again, and no packet
//! goes another way. The program is a library with a one-line `main`, so that an example can be
//! the program without a second build of it.

pub mod chain;
mod config;
pub mod directory;
pub mod discover;
mod endpoints;
pub mod mechanism;
pub mod reunite;
pub mod round_robin;
pub mod standing;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use nsm_grpc::{ListenError, Listener, Server};
use nsm_netlink::NetnsError;
use nsm_program::shutdown::Shutdown;
use nsm_program::{Observability, Program, WithoutEffect};
use thiserror::Error;

use chain::Forwarder;
pub use config::Config;
pub use endpoints::{Endpoint, EndpointError, Endpoints, EndpointsError};

/// What the end needs besides the closes: the calls that are under way (5 s), and the last spans.
const END: Duration = Duration::from_secs(10);

/// Runs the program with the command line and the environment of this process, and gives the status
/// to end with.
pub fn main() -> ExitCode {
    nsm_program::main::<Config>()
}

/// Why the forwarder cannot serve, or has not ended well.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Its own network namespace cannot be told, and so not be kept from clients.
    #[error("the forwarder cannot tell its own network namespace")]
    OwnNamespace(#[from] NetnsError),
    /// The kernel cannot be told.
    #[error("the forwarder cannot tell which kernel it runs on")]
    Kernel(#[source] io::Error),
    /// There is nothing to listen at.
    #[error("the forwarder cannot serve")]
    Listen(#[from] ListenError),
    /// It was to close everything, and could not.
    #[error("{0} connections could not be closed")]
    NotClosed(usize),
}

impl Program for Config {
    type Error = Error;

    const WITHOUT_EFFECT: &'static [WithoutEffect] = config::WITHOUT_EFFECT;

    fn name(&self) -> &str {
        &self.name
    }

    fn observability(&self) -> &Observability {
        &self.observability
    }

    fn shutdown_timeout(&self) -> Duration {
        END + if self.close_on_exit {
            self.calls.request_timeout.get()
        } else {
            Duration::ZERO
        }
    }

    async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        // First of all: of two forwarders at one address, the second touches nothing.
        let listener = Listener::bind(&self.listen_on).await?;
        // The chain outlives the server, for the closes at the end go through it.
        let Forwarder {
            chain,
            standing,
            monitor,
        } = Forwarder::new(&self)?;
        let services = self.endpoints.services().cloned();
        Server::new(chain.clone())
            .monitor(monitor)
            .service_names(services)
            .serve(listener, shutdown.requested())
            .await;
        if self.close_on_exit {
            tracing::info!(connections = standing.len(), "closing what stands");
            let left = standing.close_all(self.calls.request_timeout.get()).await;
            if left > 0 {
                return Err(Error::NotClosed(left));
            }
        }
        drop(chain);
        Ok(())
    }
}
