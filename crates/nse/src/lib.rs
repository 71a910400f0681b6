//! An endpoint of the Network Service Mesh: it gives each client an interface in its own network
//! namespace, addresses, and policies from a file.
//!
//! [`Config`] is what it can be told, [`chain`](chain::chain) is what it does with a call. The
//! program is a library with a one-line `main`, so that an example can be the program without a
//! second build of it.

pub mod chain;
mod config;

use std::process::ExitCode;

use nsm_endpoint::{Policies, PolicyFileError, PolicyList};
use nsm_grpc::{ListenError, Listener, Server};
use nsm_program::shutdown::Shutdown;
use nsm_program::{Observability, Program};
use thiserror::Error;

pub use config::Config;

/// Runs the program with the command line and the environment of this process, and gives the status
/// to end with.
pub fn main() -> ExitCode {
    nsm_program::main::<Config>()
}

/// Why the endpoint cannot serve.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The policies cannot be read. A part of them would be worse than none: what is missing is
    /// traffic that goes another way.
    #[error("the policies cannot be used")]
    Policies(#[from] PolicyFileError),
    /// There is nothing to listen at.
    #[error("the endpoint cannot serve")]
    Listen(#[from] ListenError),
}

impl Program for Config {
    type Error = Error;

    fn name(&self) -> &str {
        &self.name
    }

    fn observability(&self) -> &Observability {
        &self.observability
    }

    async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let policies = self.policies()?;
        let listener = Listener::bind(&self.listen_on).await?;
        Server::new(chain::chain(&self, policies))
            .service_names(self.service_names.iter().cloned())
            .serve(listener, shutdown.requested())
            .await;
        Ok(())
    }
}

impl Config {
    /// The policies of the file. Without a file there are none, as with the mesh's Go endpoints,
    /// whose default path is one that many deployments don't mount.
    fn policies(&self) -> Result<Policies, PolicyFileError> {
        let list = PolicyList::read(&self.pbr_config_path)?;
        let path = self.pbr_config_path.display();
        match &list {
            Some(list) => tracing::info!(%path, policies = list.policies().len(), "policies read"),
            None => tracing::info!(%path, "there is no such file, and so there are no policies"),
        }
        Ok(Policies::new(list.unwrap_or_default()))
    }
}
