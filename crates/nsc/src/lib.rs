//! A client of the Network Service Mesh: it asks for the connections of its pod, keeps them as long
//! as it runs, and closes them at its end.
//!
//! [`Config`] is what it can be told, [`chain`] is what it does with a call, [`keep`] is when it
//! calls. The program is a library with a one-line `main`, so that an example can be the program
//! without a second build of it.

pub mod chain;
mod config;
pub mod keep;
pub mod liveness;
pub mod ready;
pub mod request;
pub mod resume;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nsm_chain::BoxNetworkService;
use nsm_chain::monitor::Watch;
use nsm_grpc::{Connect, Inode, Transport};
use nsm_netlink::{Namespace, Netns, NetnsError, NetnsId};
use nsm_program::shutdown::Shutdown;
use nsm_program::{Observability, Program, WithoutEffect};
use thiserror::Error;
use tokio::task::JoinSet;

pub use config::{AwarenessGroups, AwarenessGroupsError, Config, Names, Place};
use keep::{Closed, Keeper};
use resume::Client;

/// What the end needs besides the closes: the last spans.
const END: Duration = Duration::from_secs(5);

/// Runs the program with the command line and the environment of this process, and gives the status
/// to end with.
pub fn main() -> ExitCode {
    nsm_program::main::<Config>()
}

/// Why the client cannot work, or has not ended well.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no namespace to have interfaces in.
    #[error("the client cannot tell its own network namespace")]
    OwnNamespace(#[from] NetnsError),
    /// Not everything could be closed. Who serves it closes it when the tokens end.
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
        END + self.calls.request_timeout.get()
    }

    async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        // Once, before there is any work: threads that work are in other namespaces at times.
        let NetnsId { dev, ino } = Netns::current()?.id();
        let client = Client {
            name: self.name.clone(),
            netns: Inode { dev, ino },
        };
        let transport = Transport::new(self.connect_to.clone(), self.dial_timeout.get());
        let ready = self.ready();
        let chain: BoxNetworkService = chain::chain(&self, transport.clone(), ready.clone())?;
        let connected = transport.connected();
        let forwarder: Arc<dyn Watch> = Arc::new(Connect::to(transport));
        let mut keepers = JoinSet::new();
        for request in request::first_requests(&self) {
            let keeper = Keeper::new(chain.clone(), request, connected.clone())
                .resuming(client.clone(), Arc::clone(&forwarder));
            keepers.spawn(keeper.keep_until(shutdown.clone()));
        }
        let mut closed = std::pin::pin!(not_closed(keepers));
        let left = tokio::select! {
            left = &mut closed => left,
            () = shutdown.requested() => {
                if let Some(ready) = ready {
                    ready.end();
                }
                closed.await
            }
        };
        if left > 0 {
            return Err(Error::NotClosed(left));
        }
        Ok(())
    }
}

/// Waits for all keepers to end, and tells how many have not closed their connections.
async fn not_closed(mut keepers: JoinSet<Closed>) -> usize {
    let mut left = 0;
    while let Some(ended) = keepers.join_next().await {
        if !matches!(ended, Ok(Closed::Yes)) {
            left += 1;
        }
    }
    left
}
