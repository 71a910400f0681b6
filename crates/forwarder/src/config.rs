//! What the forwarder can be told.

use std::num::NonZeroU8;

use nsm_grpc::Address;
use nsm_netlink::{Owner, TableRange};
use nsm_program::settings::{GoDuration, parse_bool, positive};
use nsm_program::{Calls, Observability, PolicyRules, WithoutEffect};

use crate::endpoints::Endpoints;

/// Settings of the mesh's Go forwarders that mean nothing here.
pub(crate) const WITHOUT_EFFECT: &[WithoutEffect] = &[
    (
        &[
            "NSM_CONNECT_TO",
            "NSM_LABELS",
            "NSM_NSNAME",
            "NSM_REGISTRY_CLIENT_POLICIES",
        ],
        "there is no registry: NSM_ENDPOINTS lists the endpoints",
    ),
    (
        &["NSM_BRIDGE_NAME", "NSM_TUNNEL_IP", "NSM_VXLAN_PORT"],
        "client and endpoint are joined directly, on one node",
    ),
    (
        &[
            "NSM_CGROUP_PATH",
            "NSM_DEVICE_PLUGIN_PATH",
            "NSM_L2_RESOURCE_SELECTOR_FILE",
            "NSM_PCI_DEVICES_PATH",
            "NSM_PCI_DRIVERS_PATH",
            "NSM_POD_RESOURCES_PATH",
            "NSM_RESOURCE_POLL_TIMEOUT",
            "NSM_SRIOV_CONFIG_FILE",
            "NSM_VFIO_PATH",
        ],
        "interfaces are not those of a device",
    ),
];

/// A forwarder of the Network Service Mesh: joins clients and endpoints with kernel interfaces, and
/// installs the endpoints' policies
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "forwarder", version)]
pub struct Config {
    /// The name of this forwarder in the path of every connection; it should be the same after a
    /// restart
    #[arg(
        long,
        env = "NSM_NAME",
        value_name = "NAME",
        default_value = "forwarder"
    )]
    pub name: String,

    /// Where clients find this forwarder
    //
    // Where a client looks for the mesh by default: without a manager between them, this is it.
    #[arg(
        long,
        env = "NSM_LISTEN_ON",
        value_name = "URL",
        default_value = "unix:///var/lib/networkservicemesh/nsm.io.sock"
    )]
    pub listen_on: Address,

    /// Where the endpoints of each network service are; a service that comes again has several
    #[arg(
        long,
        env = "NSM_ENDPOINTS",
        value_name = "SERVICE=URL,...",
        default_value = ""
    )]
    pub endpoints: Endpoints,

    /// How long one attempt to reach an endpoint may take
    //
    // A manager's default for the same. The Go forwarder has 50ms, which a machine at work can
    // take to its first word.
    #[arg(
        long,
        env = "NSM_DIAL_TIMEOUT",
        value_name = "DURATION",
        default_value = "750ms",
        value_parser = positive
    )]
    pub dial_timeout: GoDuration,

    /// How long calls take.
    #[command(flatten)]
    pub calls: Calls,

    /// Whether all connections are closed at the end, instead of being left to a successor
    #[arg(
        long,
        env = "NSM_CLOSE_ON_EXIT",
        value_name = "BOOL",
        default_value = "false",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_parser = parse_bool,
    )]
    pub close_on_exit: bool,

    /// The rtnetlink protocol number that marks what is ours in a pod; a second forwarder on a node
    /// needs one of its own
    #[arg(
        long,
        env = "NSM_ROUTE_PROTOCOL",
        value_name = "1-255",
        default_value_t = PROTOCOL
    )]
    pub route_protocol: NonZeroU8,

    /// Whether policies become rules and routing tables of clients
    #[arg(
        long,
        env = "NSM_POLICY_ROUTE",
        value_name = "BOOL",
        default_value = "true",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_parser = parse_bool,
        help_heading = "Policies"
    )]
    pub policy_route: bool,

    /// The routing tables that policies get
    #[arg(
        long,
        env = "NSM_POLICY_ROUTE_TABLES",
        value_name = "FIRST-LAST",
        default_value = "20000-24999",
        help_heading = "Policies"
    )]
    pub policy_route_tables: TableRange,

    /// Whether what others remove of our rules and routes is put back at once, and not only with the
    /// next refresh
    #[arg(
        long,
        env = "NSM_POLICY_WATCH",
        value_name = "BOOL",
        default_value = "false",
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

/// By convention that of a forwarder.
const PROTOCOL: NonZeroU8 = NonZeroU8::new(78).unwrap();

/// Numbers up to this one are everybody's (`RTPROT_STATIC` in rtnetlink.h): those of the kernel's own
/// routes and addresses, and of what an administrator adds.
const EVERYBODYS: u8 = 4;

impl Config {
    /// The number that marks interfaces and what is on them. Policies have tables of their own, and
    /// may share a number with others; the main table and the addresses are everybody's.
    pub fn interface_protocol(&self) -> NonZeroU8 {
        match self.route_protocol.get() {
            ..=EVERYBODYS => PROTOCOL,
            _ => self.route_protocol,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_program::command::{Asked, omissions, read};
    use std::ffi::OsString;

    fn asked(arguments: &[&str]) -> Asked<Config> {
        let arguments = ["forwarder"].iter().chain(arguments).map(OsString::from);
        read(arguments, [])
    }

    #[test]
    fn every_setting_has_a_variable_a_flag_and_a_help() {
        assert_eq!(omissions::<Config>(), [""; 0]);
    }

    #[test]
    fn what_has_no_effect_is_no_setting() {
        for name in WITHOUT_EFFECT.iter().flat_map(|(names, _)| *names) {
            let Asked::Run(configured) = read::<Config>(["forwarder".into()], [name.into()]) else {
                panic!("not configured");
            };
            assert_eq!(configured.unknown.len(), 1, "{name}");
        }
    }

    #[test]
    fn policies_are_installed_and_connections_left_if_nothing_else_is_said() {
        let Asked::Run(configured) = asked(&[]) else {
            panic!("not configured");
        };
        let config = configured.config;
        assert!(config.policy_route && !config.close_on_exit);
        let owner = config.policies().owner;
        assert_eq!(owner.protocol.get(), 78);
        assert_eq!(owner.tables.to_string(), "20000-24999");
    }

    #[test]
    fn endpoints_are_a_map_of_services_and_addresses() {
        let Asked::Run(configured) =
            asked(&["--endpoints=a=unix:///run/a.sock, b@c=tcp://10.0.0.1:5001, a=unix:///b"])
        else {
            panic!("not configured");
        };
        let endpoints = configured.config.endpoints.into_inner();
        let addresses = |service: &str| {
            let list = endpoints[service].iter();
            list.map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(addresses("a"), ["unix:///run/a.sock", "unix:///b"]);
        assert_eq!(addresses("b@c"), ["tcp://10.0.0.1:5001"]);
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused_in_one_line() {
        for (argument, words) in [
            ("--endpoints=a", "service=URL"),
            ("--endpoints=a=b", "is no address"),
            ("--endpoints=a=unix:///1,a=unix:///1", "twice"),
            ("--route-protocol=0", "zero"),
            ("--policy-route=maybe", "neither true"),
            ("--policy-route-tables=253-254", "253"),
        ] {
            match asked(&[argument]) {
                Asked::Refused(reason) => {
                    assert!(reason.starts_with("forwarder: NSM_"), "{reason}");
                    assert!(reason.contains(words), "{reason}");
                    assert!(!reason.contains('\n'), "{reason}");
                }
                other => panic!("{argument}: {other:?}"),
            }
        }
    }
}
