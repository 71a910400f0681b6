//! Names that connections bring.

use std::net::SocketAddr;
use std::path::PathBuf;

use nsm_dns::Settings;
use nsm_program::settings::parse_bool;

/// How the DNS servers of connections come into use.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Names")]
pub struct Names {
    /// Whether the DNS servers that connections bring are used: a DNS proxy asks them, and
    /// resolv.conf names it as long as there is such a connection
    #[arg(
        long,
        env = "NSM_LOCAL_DNS_SERVER_ENABLED",
        value_name = "BOOL",
        default_value = "true",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_parser = parse_bool,
    )]
    pub local_dns_server_enabled: bool,

    /// Where that proxy listens; resolvers find it at port 53 only
    #[arg(
        long,
        env = "NSM_LOCAL_DNS_SERVER_ADDRESS",
        value_name = "IP:PORT",
        default_value = "127.0.0.1:53"
    )]
    pub local_dns_server_address: SocketAddr,

    /// The file that names the DNS servers of this pod
    #[arg(
        long,
        env = "NSM_RESOLV_CONF",
        value_name = "FILE",
        default_value = "/etc/resolv.conf"
    )]
    pub resolv_conf: PathBuf,
}

impl Names {
    /// The same, for connections, if they are used.
    pub fn settings(&self) -> Option<Settings> {
        self.local_dns_server_enabled.then(|| Settings {
            address: self.local_dns_server_address,
            resolv_conf: self.resolv_conf.clone(),
        })
    }
}
