//! What this machine knows of names: the proxy and resolv.conf, as connections want them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use nsm_api::ConnectionId;
use nsm_api::connectioncontext::DnsConfig;
use nsm_chain::ErrorChain;
use tracing::{info, warn};

use crate::proxy::Proxy;
use crate::resolv_conf::ResolvConf;
use crate::resolv_conf::file::ResolvConfFile;
use crate::routes::Routes;

/// Where resolvers look for servers: resolv.conf(5) has no place for another port.
const PORT: u16 = 53;

/// How many servers of each config count: as many as a resolver knows (`MAXNS` of resolv.conf(5)).
const SERVERS: usize = 3;
/// How many configs of a connection count, and how many domains in all of them; and how many domains
/// the file gets.
const CONFIGS: usize = 32;
const DOMAINS: usize = 32;
/// The longest domain, as it is written (RFC 1035, 2.3.4).
const LONGEST_DOMAIN: usize = 254;

/// Where names are asked for and told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the proxy listens, over UDP and TCP. Only at port 53 resolvers find it, and only then
    /// the file is written.
    pub address: SocketAddr,
    /// The file of resolv.conf(5).
    pub resolv_conf: PathBuf,
}

/// The names of a process's connections. What it has changed comes back with it.
#[derive(Debug)]
pub(crate) struct Local {
    address: SocketAddr,
    file: ResolvConfFile,
    connections: BTreeMap<ConnectionId, Vec<DnsConfig>>,
    /// Whether the file may still have to come back though nobody wants it otherwise.
    is_owed: bool,
    proxy: Option<Proxy>,
    /// The last thing that was warned about.
    warned: Option<String>,
}

impl Local {
    /// Nothing is known, and what a process that was killed has left in the file is undone.
    pub(crate) fn new(settings: Settings) -> Self {
        let mut local = Self {
            address: settings.address,
            file: ResolvConfFile::new(settings.resolv_conf),
            connections: BTreeMap::new(),
            is_owed: false,
            proxy: None,
            warned: None,
        };
        local.restore();
        local
    }

    /// Where the proxy listens, if there is one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.proxy.as_ref().map(Proxy::address)
    }

    /// Takes what a connection brings, up to a bound. What brings no server brings nothing.
    pub(crate) async fn set(&mut self, id: ConnectionId, mut configs: Vec<DnsConfig>) {
        bound(&mut configs);
        if configs.is_empty() {
            return self.remove(&id);
        }
        self.connections.insert(id, configs);
        self.apply().await;
    }

    /// Forgets a connection. With the last one everything is as it was before; what could not be
    /// brought back is tried again each time.
    pub(crate) fn remove(&mut self, id: &ConnectionId) {
        if self.connections.remove(id).is_none() && !self.is_owed {
            return;
        }
        if let Some(address) = self.address() {
            let routes = self.routes(address);
            if let Some(proxy) = &self.proxy {
                proxy.route(routes);
            }
            if !self.connections.is_empty() {
                self.write(address);
            }
        }
        if self.connections.is_empty() {
            self.end();
        }
    }

    /// The proxy listens before anybody is sent to it.
    async fn apply(&mut self) {
        let routes = self.routes(self.address);
        match &self.proxy {
            Some(proxy) => proxy.route(routes),
            None => match Proxy::start(self.address, routes).await {
                Ok(proxy) => {
                    info!(address = %proxy.address(), "names are asked for by connections' servers");
                    self.proxy = Some(proxy);
                }
                Err(error) => {
                    let address = self.address;
                    return self.warn(format!("no DNS proxy can listen at {address}: {error}"));
                }
            },
        }
        if let Some(address) = self.address() {
            self.write(address);
        }
    }

    fn routes(&mut self, proxy: SocketAddr) -> Routes {
        let original = self.file.original().unwrap_or_else(|error| {
            self.warn(ErrorChain(&error).to_string());
            ResolvConf::default()
        });
        Routes::new(&self.configs(), &original, proxy)
    }

    fn write(&mut self, proxy: SocketAddr) {
        if proxy.port() != PORT {
            return self.warn(format!(
                "resolvers are not told of the DNS proxy: it listens at {proxy}, and they look for \
                 port {PORT}"
            ));
        }
        let configs = self.configs();
        let domains = configs.iter().flat_map(|config| &config.search_domains);
        let domains = domains.filter(|it| is_word(it)).take(DOMAINS);
        let domains: Vec<String> = domains.cloned().collect();
        match self.file.take(proxy.ip(), &domains) {
            Ok(()) => self.warned = None,
            Err(error) => self.warn(ErrorChain(&error).to_string()),
        }
    }

    fn configs(&self) -> Vec<DnsConfig> {
        self.connections.values().flatten().cloned().collect()
    }

    /// Nobody is sent to the proxy any more before it ends: it stays as long as the file may name it.
    fn end(&mut self) {
        self.restore();
        if !self.is_owed && self.proxy.take().is_some() {
            info!("names are asked for as before");
        }
    }

    fn restore(&mut self) {
        let restored = self.file.restore();
        self.is_owed = restored.is_err();
        match restored {
            Ok(_) => self.warned = None,
            Err(error) => self.warn(ErrorChain(&error).to_string()),
        }
    }

    /// Warns, unless that is what was said last: refreshes go on for days.
    fn warn(&mut self, what: String) {
        if self.warned.as_ref() != Some(&what) {
            warn!("{what}; connections stand all the same");
            self.warned = Some(what);
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if !self.connections.is_empty() || self.is_owed {
            self.end();
        }
    }
}

/// Leaves of what a connection brings as much as is of use, and what is asked of nobody out.
fn bound(configs: &mut Vec<DnsConfig>) {
    configs.retain(|config| !config.dns_server_ips.is_empty());
    configs.truncate(CONFIGS);
    let mut room = DOMAINS;
    for config in configs {
        config.dns_server_ips.truncate(SERVERS);
        config.search_domains.truncate(room);
        room -= config.search_domains.len();
    }
}

/// Whether a domain is a word in a line of the file, and not one more line.
fn is_word(domain: &str) -> bool {
    (1..=LONGEST_DOMAIN).contains(&domain.len()) && domain.chars().all(|c| c.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_brings_has_bounds() {
        let texts = |count| vec!["10.0.0.1".to_owned(); count];
        let config = |servers, domains| DnsConfig {
            dns_server_ips: texts(servers),
            search_domains: texts(domains),
        };
        let mut configs = vec![config(0, 9), config(4, 20), config(2, 20), config(1, 1)];
        bound(&mut configs);
        assert_eq!(configs, [config(3, 20), config(2, 12), config(1, 0)]);

        let mut many = vec![config(1, 0); 100];
        bound(&mut many);
        assert_eq!(many.len(), 32);
    }

    #[test]
    fn a_domain_is_one_word_of_up_to_254_letters() {
        assert!(is_word("a.example") && is_word(&"a".repeat(254)));
        for none in ["", "a b", "a\nnameserver", &"a".repeat(255)] {
            assert!(!is_word(none), "{none}");
        }
    }
}
