//! Which servers are asked for a name. Pure.

use std::net::{IpAddr, SocketAddr};

use hickory_proto::rr::Name;
use nsm_api::connectioncontext::DnsConfig;

use crate::resolv_conf::ResolvConf;

/// Where DNS servers listen.
const PORT: u16 = 53;

/// How many servers are asked for a name at once.
const AT_ONCE: usize = 8;

/// The servers that there are, and what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Routes {
    configs: Vec<Config>,
    original: Vec<SocketAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Config {
    servers: Vec<SocketAddr>,
    domains: Vec<Name>,
    /// Whether a connection has brought it.
    brought: bool,
}

impl Routes {
    /// The servers of connections, and those that stood in the file. The proxy itself is never one.
    pub(crate) fn new(configs: &[DnsConfig], original: &ResolvConf, proxy: SocketAddr) -> Self {
        let allowed = |address: &SocketAddr| !is_proxy(*address, proxy);
        let servers = |addresses: &mut dyn Iterator<Item = IpAddr>| -> Vec<_> {
            let sockets = addresses.map(|ip| SocketAddr::new(ip, PORT));
            sockets.filter(allowed).collect()
        };
        let mut all: Vec<_> = configs
            .iter()
            .map(|config| Config {
                servers: servers(
                    &mut config
                        .dns_server_ips
                        .iter()
                        .filter_map(|it| it.parse().ok()),
                ),
                domains: domains(&config.search_domains),
                brought: true,
            })
            .collect();
        let original_servers = servers(&mut original.servers.iter().copied());
        all.push(Config {
            servers: original_servers.clone(),
            domains: domains(&original.search),
            brought: false,
        });
        Self {
            configs: all,
            original: original_servers,
        }
    }

    /// The servers to ask for a name: those of a group at once, of which there are eight at most, and
    /// the next group where the one before has no good answer.
    pub(crate) fn groups(&self, name: &Name) -> Vec<Vec<SocketAddr>> {
        let configs = self.configs.iter();
        let is_for = |config: &&Config| config.domains.iter().any(|it| it.zone_of(name));
        let mut first = servers(configs.clone().filter(is_for));
        if first.is_empty() {
            first = servers(configs.filter(|config| config.brought));
        }
        let last: Vec<_> = self
            .original
            .iter()
            .filter(|server| !first.contains(server))
            .copied()
            .take(AT_ONCE)
            .collect();
        let groups = [first, last];
        groups.into_iter().filter(|it| !it.is_empty()).collect()
    }
}

/// The first servers of configs, each once.
fn servers<'a>(configs: impl Iterator<Item = &'a Config>) -> Vec<SocketAddr> {
    let mut all = Vec::new();
    for server in configs.flat_map(|config| &config.servers) {
        if all.len() < AT_ONCE && !all.contains(server) {
            all.push(*server);
        }
    }
    all
}

/// Domains, absolute ones. The root is none: everything ends with it.
fn domains(texts: &[String]) -> Vec<Name> {
    let names = texts.iter().filter_map(|text| {
        let mut name = Name::from_utf8(text).ok()?;
        name.set_fqdn(true);
        Some(name)
    });
    names.filter(|name| !name.is_root()).collect()
}

/// Whether what is sent there comes to the proxy.
fn is_proxy(server: SocketAddr, proxy: SocketAddr) -> bool {
    let (to, at) = (server.ip().to_canonical(), proxy.ip().to_canonical());
    server.port() == proxy.port()
        && (to == at || to.is_unspecified() || (at.is_unspecified() && to.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(servers: &[&str], domains: &[&str]) -> DnsConfig {
        let texts = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect();
        DnsConfig {
            dns_server_ips: texts(servers),
            search_domains: texts(domains),
        }
    }

    fn routes(configs: &[DnsConfig], original: &str) -> Routes {
        let proxy = SocketAddr::from(([127, 0, 0, 1], 53));
        Routes::new(configs, &ResolvConf::parse(original.as_bytes()), proxy)
    }

    /// The last bytes of the servers' addresses, group by group.
    fn asked(routes: &Routes, name: &str) -> Vec<Vec<u8>> {
        let last = |it: &SocketAddr| match it.ip() {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(ip) => ip.octets()[15],
        };
        let groups = routes.groups(&Name::from_ascii(name).unwrap());
        groups
            .iter()
            .map(|it| it.iter().map(last).collect())
            .collect()
    }

    #[test]
    fn a_name_goes_to_the_servers_of_its_domain_else_to_all_and_at_last_to_the_originals() {
        let configs = [
            config(&["10.0.0.1", "10.0.0.2"], &["a.example"]),
            config(&["10.0.0.3"], &["b.example", "a.example."]),
            config(&["10.0.0.4", "10.0.0.1"], &[]),
        ];
        let original = "nameserver 10.0.0.9\nsearch cluster.local\n";
        let routes = routes(&configs, original);

        for (name, expected) in [
            ("www.a.example.", &[&[1, 2, 3][..], &[9]][..]),
            ("A.EXAMPLE.", &[&[1, 2, 3], &[9]]),
            ("b.example.", &[&[3], &[9]]),
            ("xa.example.", &[&[1, 2, 3, 4], &[9]]),
            ("www.org.", &[&[1, 2, 3, 4], &[9]]),
            ("dns.cluster.local.", &[&[9]]),
            (".", &[&[1, 2, 3, 4], &[9]]),
        ] {
            assert_eq!(asked(&routes, name), expected, "{name}");
        }
    }

    #[test]
    fn eight_servers_are_asked_at_once_and_no_more() {
        let numbers = |from: u8| (from..from + 10).map(|it| format!("10.0.0.{it}"));
        let brought: Vec<_> = numbers(1).map(|it| config(&[&it], &[])).collect();
        let original: String = numbers(11).map(|it| format!("nameserver {it}\n")).collect();

        let asked = asked(&routes(&brought, &original), "www.org.");

        assert_eq!(
            asked,
            [[1, 2, 3, 4, 5, 6, 7, 8], [11, 12, 13, 14, 15, 16, 17, 18]]
        );
    }

    #[test]
    fn the_proxy_is_never_asked() {
        let to = |at: &str, server: &str| {
            let proxy = at.parse().unwrap();
            let configs = [config(&[server], &["a.example"])];
            let original = ResolvConf::parse(format!("nameserver {server}\n").as_bytes());
            let name = Name::from_ascii("a.example.").unwrap();
            Routes::new(&configs, &original, proxy).groups(&name).len()
        };
        assert_eq!(to("127.0.0.1:53", "127.0.0.1"), 0);
        assert_eq!(to("127.0.0.1:53", "::ffff:127.0.0.1"), 0);
        assert_eq!(to("127.0.0.1:53", "0.0.0.0"), 0);
        assert_eq!(to("0.0.0.0:53", "127.0.0.11"), 0);
        assert_eq!(to("[::]:53", "::1"), 0);
        assert_eq!(to("127.0.0.1:53", "127.0.0.11"), 1, "it is another one");
        assert_eq!(to("127.0.0.1:5353", "127.0.0.1"), 1, "it is another one");
    }

    #[test]
    fn what_is_no_address_or_domain_does_not_count() {
        let configs = [config(&["x", "10.0.0.1"], &["..", "", "."])];

        assert_eq!(asked(&routes(&configs, ""), "a."), [[1]]);
    }
}
