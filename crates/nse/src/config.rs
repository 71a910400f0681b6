//! What the endpoint can be told.

use std::path::PathBuf;

use nsm_endpoint::{CidrGroups, DnsConfigs, IpamPolicy};
use nsm_grpc::Address;
use nsm_program::settings::List;
use nsm_program::{Calls, Observability, WithoutEffect};

/// Settings of the mesh's Go endpoints that mean nothing here.
pub(crate) const WITHOUT_EFFECT: &[WithoutEffect] = &[
    (
        &[
            "NSM_CONNECT_TO",
            "NSM_LABELS",
            "NSM_REGISTER_SERVICE",
            "NSM_REGISTRY_CLIENT_POLICIES",
            "NSM_UNREGISTER_ITSELF",
        ],
        "there is no registry: the forwarder's NSM_ENDPOINTS names NSM_LISTEN_ON",
    ),
    (&["NSM_BASE_DIR"], "no files are made"),
    (&["NSM_IDLE_TIMEOUT"], "it runs until it is stopped"),
];

/// An endpoint of the Network Service Mesh: gives each client an interface, addresses, and policies
/// from a file
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "nse", version)]
pub struct Config {
    /// The name of this endpoint in the path of every connection; it should be the same after a
    /// restart
    #[arg(
        long,
        env = "NSM_NAME",
        value_name = "NAME",
        default_value = "icmp-server"
    )]
    pub name: String,

    /// Where the forwarder finds this endpoint
    //
    // The mesh's Go endpoints make a socket of a random name and tell the registry. As long as a
    // forwarder finds endpoints by a list of its own, the name has to be one that can be listed,
    // and the same after a restart. The variable is that of the mesh's other servers.
    #[arg(
        long,
        env = "NSM_LISTEN_ON",
        value_name = "URL",
        default_value = "unix:///var/lib/networkservicemesh/nse.io.sock"
    )]
    pub listen_on: Address,

    /// The network services that are offered
    #[arg(
        long,
        env = "NSM_SERVICE_NAMES",
        value_name = "NAME,...",
        default_value = "icmp-responder"
    )]
    pub service_names: List<String>,

    /// What connections carry: ETHERNET or IP
    #[arg(
        long,
        env = "NSM_PAYLOAD",
        value_name = "PAYLOAD",
        default_value = "ETHERNET"
    )]
    pub payload: String,

    /// The prefixes that addresses come from; each client gets a pair of each group: one prefix,
    /// or several in brackets
    #[arg(
        long,
        env = "NSM_CIDR_PREFIX",
        value_name = "PREFIX,[PREFIX,...],...",
        default_value = "169.254.0.0/16"
    )]
    pub cidr_prefix: CidrGroups,

    /// What becomes of other addresses and routes that a client brings: with polite they stay, with
    /// strict they go
    #[arg(
        long,
        env = "NSM_IPAM_POLICY",
        value_name = "POLICY",
        default_value = "polite"
    )]
    pub ipam_policy: IpamPolicy,

    /// DNS servers that clients are told of, with the domains that they are for:
    /// [{"dns_server_ips": ["10.0.0.53"], "search_domains": ["example.com"]}]
    #[arg(long, env = "NSM_DNS_CONFIGS", value_name = "JSON", default_value = "")]
    pub dns_configs: DnsConfigs,

    /// The file with the policies, in YAML; without it there are none. Changes of it are followed
    #[arg(
        long,
        env = "NSM_PBR_CONFIG_PATH",
        value_name = "FILE",
        default_value = "/etc/policy-based-routing/config.yaml"
    )]
    pub pbr_config_path: PathBuf,

    /// How long calls take.
    #[command(flatten)]
    pub calls: Calls,

    /// What can be seen of it.
    #[command(flatten)]
    pub observability: Observability,
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_program::command::{Asked, omissions, read};
    use std::ffi::OsString;

    fn asked(arguments: &[&str]) -> Asked<Config> {
        let arguments = ["nse"].iter().chain(arguments).map(OsString::from);
        read(arguments, [])
    }

    #[test]
    fn every_setting_has_a_variable_a_flag_and_a_help() {
        assert_eq!(omissions::<Config>(), [""; 0]);
    }

    #[test]
    fn what_has_no_effect_is_no_setting() {
        for name in WITHOUT_EFFECT.iter().flat_map(|(names, _)| *names) {
            let Asked::Run(configured) = read::<Config>(["nse".into()], [name.into()]) else {
                panic!("not configured");
            };
            assert_eq!(configured.unknown.len(), 1, "{name}");
        }
    }

    #[test]
    fn what_is_set_is_what_is_printed() {
        let arguments = [
            "--cidr-prefix=172.16.1.0/24,[fd00:1::/64]",
            "--ipam-policy=Strict",
            "--print-config",
        ];
        let Asked::Print(text) = asked(&arguments) else {
            panic!("not printed");
        };
        for line in [
            "NSM_NAME=icmp-server",
            "NSM_CIDR_PREFIX=172.16.1.0/24,[fd00:1::/64]",
            "NSM_IPAM_POLICY=Strict",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused_in_one_line() {
        for (argument, words) in [
            ("--listen-on=/run/nse.sock", "unix:///path"),
            ("--cidr-prefix=172.16.1.0/32", "need two"),
            ("--ipam-policy=rude", "polite and strict"),
            ("--request-timeout=0", "more than zero"),
        ] {
            match asked(&[argument]) {
                Asked::Refused(reason) => {
                    assert!(reason.starts_with("nse: NSM_"), "{reason}");
                    assert!(reason.contains(words), "{reason}");
                    assert!(!reason.contains('\n'), "{reason}");
                }
                other => panic!("{argument}: {other:?}"),
            }
        }
    }
}
