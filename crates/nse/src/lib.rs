//! An endpoint of the Network Service Mesh: it gives each client an interface in its own network
//! namespace, addresses, and policies from a file.
//!
//! [`Config`] is what it can be told, [`chain`](chain::chain) is what it does with a call. The
//! program is a library with a one-line `main`, so that an example can be the program without a
//! second build of it.

pub mod chain;
mod config;

use std::process::ExitCode;

use nsm_chain::Monitor;
use nsm_endpoint::{Policies, PolicyFile, PolicyFileError};
use nsm_grpc::{ListenError, Listener, Server};
use nsm_program::shutdown::Shutdown;
use nsm_program::{Observability, Program, WithoutEffect};
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
    #[error("the policies of NSM_PBR_CONFIG_PATH cannot be used")]
    Policies(#[from] PolicyFileError),
    /// There is nothing to listen at.
    #[error("the endpoint cannot serve")]
    Listen(#[from] ListenError),
}

impl Program for Config {
    type Error = Error;

    const WITHOUT_EFFECT: &'static [WithoutEffect] = config::WITHOUT_EFFECT;

    // A file that cannot be read may be readable at the next start, with the same settings.
    fn is_bad_setting(error: &Error) -> bool {
        let Error::Policies(error) = error else {
            return false;
        };
        !matches!(error, PolicyFileError::Unreadable { .. })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn observability(&self) -> &Observability {
        &self.observability
    }

    async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let monitor = Monitor::new();
        let (file, policies) = self.policies(&monitor)?;
        let listener = Listener::bind(&self.listen_on).await?;
        let server = Server::new(chain::chain(&self, policies.clone(), monitor.clone()))
            .monitor(monitor)
            // Its own name, too: by it a forwarder finds where a connection stands.
            .service_names(self.service_names.iter().chain([&self.name]).cloned())
            .serve(listener, shutdown.requested());
        // A change of the file is followed as long as anybody is served.
        tokio::select! {
            () = server => Ok(()),
            never = file.follow(policies) => match never {},
        }
    }
}

impl Config {
    /// The policies of the file. Without a file there are none, as with the mesh's Go endpoints,
    /// whose default path is one that many deployments don't mount.
    fn policies(&self, monitor: &Monitor) -> Result<(PolicyFile, Policies), PolicyFileError> {
        let (file, list) = PolicyFile::read(&self.pbr_config_path)?;
        let path = self.pbr_config_path.display();
        match &list {
            Some(list) => tracing::info!(%path, policies = list.len(), "policies read"),
            None => tracing::info!(%path, "there is no such file, and so there are no policies"),
        }
        let policies = Policies::new(list.unwrap_or_default(), monitor.clone());
        Ok((file, policies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use nsm_chain::ErrorChain;
    use std::fs;
    use std::path::Path;

    /// Why the endpoint does not start with that file, and whether it is a bad setting.
    fn refusal(file: &Path) -> (String, bool) {
        let flag = format!("--pbr-config-path={}", file.display());
        let config = Config::parse_from(["nse", &flag]);
        let error = Error::from(config.policies(&Monitor::new()).unwrap_err());
        (
            ErrorChain(&error).to_string(),
            Config::is_bad_setting(&error),
        )
    }

    #[test]
    fn a_policy_file_with_a_mistake_is_a_bad_setting_and_one_that_cannot_be_read_is_not() {
        let folder = std::env::temp_dir().join(format!("nse-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("policies.yaml");
        fs::write(&file, "- from: 10.0.0.1\n  dstPort: 80\n").unwrap();
        let unknown_key = refusal(&file);
        fs::write(&file, "- proto: 300\n").unwrap();
        let no_such_protocol = refusal(&file);
        let a_folder = refusal(&folder);
        fs::remove_dir_all(&folder).unwrap();

        assert!(
            unknown_key.0.contains("policies.yaml:2:3: "),
            "{unknown_key:?}"
        );
        assert!(unknown_key.1);
        assert!(
            no_such_protocol.0.contains("policies.yaml:1:"),
            "{no_such_protocol:?}"
        );
        assert!(no_such_protocol.1);
        assert!(a_folder.0.contains("cannot read"), "{a_folder:?}");
        assert!(!a_folder.1);
    }
}
