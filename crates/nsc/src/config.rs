//! What the client can be told.

mod awareness;
mod liveness;
mod names;
mod place;

use std::num::NonZeroU8;
use std::path::PathBuf;

use nsm_api::mechanism::KERNEL;
use nsm_grpc::Address;
use nsm_netlink::{Owner, TableRange};
use nsm_program::settings::{GoDuration, List, ListError, Map, ServiceUrl, ServiceUrlError};
use nsm_program::settings::{parse_bool, positive};
use nsm_program::{Calls, Observability, PolicyRules, WithoutEffect};
use thiserror::Error;

use crate::ready::ReadyLayer;
pub use awareness::{AwarenessGroups, AwarenessGroupsError};
pub use liveness::LivenessSettings;
pub use names::Names;
pub use place::Place;

/// Settings of the mesh's Go client that mean nothing here.
pub(crate) const WITHOUT_EFFECT: &[WithoutEffect] = &[(
    &["NSM_MECHANISM"],
    "each URL of NSM_NETWORK_SERVICES names its own",
)];

/// A client of the Network Service Mesh: asks for the connections of its pod, keeps them as long as
/// it runs, and closes them at its end
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "nsc", version)]
pub struct Config {
    /// The name of this client; its connections are NAME-0, NAME-1, ... and find what they had
    /// after a restart if it is the same
    #[arg(long, env = "NSM_NAME", value_name = "NAME", default_value = "nsc")]
    pub name: String,

    /// Where the forwarder is
    #[arg(
        long,
        env = "NSM_CONNECT_TO",
        value_name = "URL",
        default_value = "unix:///var/lib/networkservicemesh/nsm.io.sock"
    )]
    pub connect_to: Address,

    /// What to connect to.
    #[arg(
        long,
        env = "NSM_NETWORK_SERVICES",
        help = "What to connect to: [kernel://]SERVICE[@DOMAIN][/INTERFACE][?LABEL=VALUE&...]",
        value_name = "URL,...",
        value_parser = services
    )]
    pub network_services: List<ServiceUrl>,

    /// Labels of all connections; those of a URL come before them
    #[arg(
        long,
        env = "NSM_LABELS",
        value_name = "KEY:VALUE,...",
        default_value = ""
    )]
    pub labels: Map,

    /// Services that may give this client the same addresses; what else it connects to has to be
    /// apart from all others
    #[arg(
        long,
        env = "NSM_AWARENESS_GROUPS",
        value_name = "[URL,...],...",
        default_value = ""
    )]
    pub awareness_groups: AwarenessGroups,

    /// How long one attempt to reach the forwarder may take
    #[arg(
        long,
        env = "NSM_DIAL_TIMEOUT",
        value_name = "DURATION",
        default_value = "5s",
        value_parser = positive
    )]
    pub dial_timeout: GoDuration,

    /// How long calls take.
    #[command(flatten)]
    pub calls: Calls,

    /// A file that is there while all connections stand, for a probe of readiness; none if it is
    /// not set
    #[arg(long, env = "NSM_READY_FILE", value_name = "FILE")]
    pub ready_file: Option<PathBuf>,

    /// Where this client runs.
    #[command(flatten)]
    pub place: Place,

    /// Names that connections bring.
    #[command(flatten)]
    pub names: Names,

    /// How it feels whether its connections work.
    #[command(flatten)]
    pub liveness: LivenessSettings,

    /// Whether this client makes rules and routing tables of the policies, for forwarders that do
    /// not
    #[arg(
        long,
        env = "NSM_POLICY_ROUTE",
        value_name = "BOOL",
        default_value = "false",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_parser = parse_bool,
        help_heading = "Policies"
    )]
    pub policy_route: bool,

    /// The rtnetlink protocol number that marks rules and routes as this client's
    //
    // Not the forwarder's: two elements in one namespace need numbers of their own.
    #[arg(
        long,
        env = "NSM_ROUTE_PROTOCOL",
        value_name = "1-255",
        default_value = "79",
        help_heading = "Policies"
    )]
    pub route_protocol: NonZeroU8,

    /// The routing tables that policies get
    #[arg(
        long,
        env = "NSM_POLICY_ROUTE_TABLES",
        value_name = "FIRST-LAST",
        default_value = "25000-29999",
        help_heading = "Policies"
    )]
    pub policy_route_tables: TableRange,

    /// Whether what others remove of this client's rules and routes is put back at once, and not only with the
    /// next refresh
    #[arg(
        long,
        env = "NSM_POLICY_WATCH",
        value_name = "BOOL",
        default_value = "true",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_parser = parse_bool,
        help_heading = "Policies"
    )]
    pub policy_watch: bool,

    /// What becomes of policies that cannot be followed.
    #[command(flatten)]
    pub policy_rules: PolicyRules,

    /// What can be seen of it.
    #[command(flatten)]
    pub observability: Observability,
}

impl Config {
    /// What tells that all connections stand, if anybody wants to know.
    pub fn ready(&self) -> Option<ReadyLayer> {
        let file = self.ready_file.clone()?;
        Some(ReadyLayer::new(file, self.network_services.len()))
    }

    /// The settings of the policies' middleware.
    pub fn policies(&self) -> nsm_policyroute::Config {
        let owner = Owner {
            protocol: self.route_protocol,
            tables: self.policy_route_tables,
        };
        nsm_policyroute::Config {
            grace: self.policy_rules.policy_route_grace.get(),
            fail_closed: self.policy_rules.policy_route_fail_closed,
            watch: self.policy_watch,
            ..nsm_policyroute::Config::new(owner)
        }
    }
}

/// Why there is nothing to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum ServicesError {
    #[error(transparent)]
    List(#[from] ListError<ServiceUrlError>),
    #[error("a client without a network service has nothing to do")]
    None,
    #[error("mechanism {0} is not there: {KERNEL} is, and needs no naming")]
    Mechanism(String),
}

fn services(text: &str) -> Result<List<ServiceUrl>, ServicesError> {
    let services: List<ServiceUrl> = text.parse()?;
    if services.is_empty() {
        return Err(ServicesError::None);
    }
    let mechanisms = services.iter().filter_map(ServiceUrl::mechanism);
    if let Some(other) = mechanisms.into_iter().find(|it| *it != KERNEL) {
        return Err(ServicesError::Mechanism(other.to_owned()));
    }
    Ok(services)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_program::command::{Asked, omissions, read};
    use std::ffi::OsString;

    fn asked(arguments: &[&str]) -> Asked<Config> {
        let arguments = ["nsc"].iter().chain(arguments).map(OsString::from);
        read(arguments, [])
    }

    #[test]
    fn every_setting_has_a_variable_a_flag_and_a_help() {
        assert_eq!(omissions::<Config>(), [""; 0]);
    }

    #[test]
    fn what_has_no_effect_is_no_setting() {
        for name in WITHOUT_EFFECT.iter().flat_map(|(names, _)| *names) {
            let arguments = ["nsc", "--network-services=a"].map(OsString::from);
            let Asked::Run(configured) = read::<Config>(arguments, [name.into()]) else {
                panic!("not configured");
            };
            assert_eq!(configured.unknown.len(), 1, "{name}");
        }
    }

    #[test]
    fn a_client_needs_a_network_service_of_a_mechanism_that_there_is() {
        for (arguments, words) in [
            (&[][..], "--network-services"),
            (&["--network-services="], "has nothing to do"),
            (
                &["--network-services=a/nsm-1,memif://b"],
                "mechanism MEMIF is not there",
            ),
        ] {
            match asked(arguments) {
                Asked::Refused(reason) => assert!(reason.contains(words), "{reason}"),
                other => panic!("{arguments:?}: {other:?}"),
            }
        }
    }
}
