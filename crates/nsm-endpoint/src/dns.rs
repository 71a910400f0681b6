//! DNS servers that clients are told of.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use nsm_api::connectioncontext::{DnsConfig, DnsContext};
use nsm_chain::{Call, Error, NetworkService, Operation};
use serde::{Deserialize, Serialize};
use tower::{Layer, Service};

/// DNS servers and the domains that they are for, in JSON:
/// `[{"dns_server_ips": ["10.0.0.53"], "search_domains": ["example.com"]}]`. The empty text is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsConfigs(Arc<[Servers]>);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Servers {
    dns_server_ips: Vec<IpAddr>,
    #[serde(default)]
    search_domains: Vec<String>,
}

/// Why a text is no list of DNS servers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DnsConfigsError {
    /// It is no such JSON.
    #[error("no list of {{\"dns_server_ips\": [...], \"search_domains\": [...]}}")]
    Json(#[from] serde_json::Error),
    /// Domains without servers.
    #[error("item {0} of the list has no server")]
    NoServer(usize),
    /// A domain that cannot be one.
    #[error("{0:?} is no domain")]
    Domain(String),
}

impl FromStr for DnsConfigs {
    type Err = DnsConfigsError;

    fn from_str(text: &str) -> Result<Self, DnsConfigsError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let configs: Vec<Servers> = serde_json::from_str(text)?;
        if let Some(index) = configs.iter().position(|it| it.dns_server_ips.is_empty()) {
            return Err(DnsConfigsError::NoServer(index + 1));
        }
        let domains = configs.iter().flat_map(|it| &it.search_domains);
        if let Some(wrong) = domains.into_iter().find(|it| !is_domain(it)) {
            return Err(DnsConfigsError::Domain(wrong.clone()));
        }
        Ok(Self(configs.into()))
    }
}

impl fmt::Display for DnsConfigs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string(&*self.0).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

/// Labels of up to 63 bytes, 253 in all (RFC 1035, 2.3.4); a dot may end it.
fn is_domain(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.chars().all(|c| c.is_ascii_graphic())
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Tells clients of DNS servers, in place of what a request brings: that may be what another
/// endpoint told, or this one before a restart.
#[derive(Clone, Debug)]
pub struct DnsLayer {
    context: Option<Arc<DnsContext>>,
}

impl DnsLayer {
    /// Tells of these.
    pub fn new(configs: &DnsConfigs) -> Self {
        let config = |it: &Servers| DnsConfig {
            dns_server_ips: it.dns_server_ips.iter().map(IpAddr::to_string).collect(),
            search_domains: it.search_domains.clone(),
        };
        let configs: Vec<_> = configs.0.iter().map(config).collect();
        Self {
            context: (!configs.is_empty()).then(|| Arc::new(DnsContext { configs })),
        }
    }
}

impl<S> Layer<S> for DnsLayer {
    type Service = Dns<S>;

    fn layer(&self, inner: S) -> Dns<S> {
        Dns {
            inner,
            context: self.context.clone(),
        }
    }
}

/// The service of [`DnsLayer`]. Its errors are those from below.
#[derive(Clone, Debug)]
pub struct Dns<S> {
    inner: S,
    context: Option<Arc<DnsContext>>,
}

impl<S: NetworkService> Service<Call> for Dns<S> {
    type Response = Connection;
    type Error = Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        if matches!(call.operation, Operation::Request(_)) {
            let connection = call.connection_mut();
            match (&self.context, &mut connection.context) {
                (Some(told), context) => {
                    context.get_or_insert_default().dns_context = Some(DnsContext::clone(told));
                }
                (None, Some(context)) => context.dns_context = None,
                (None, None) => {}
            }
        }
        self.inner.call(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::connectioncontext::ConnectionContext;
    use nsm_api::networkservice::NetworkServiceRequest;
    use nsm_chain::ErrorChain;
    use nsm_chain::test_util::echo;
    use tower::ServiceExt;

    const TEXT: &str =
        r#"[{"dns_server_ips":["10.0.0.53","fd00::53"],"search_domains":["example.com"]}]"#;

    async fn told(text: &str, brought: Option<ConnectionContext>) -> Option<ConnectionContext> {
        let chain = DnsLayer::new(&text.parse().unwrap()).layer(echo());
        let call = Call::request(NetworkServiceRequest {
            connection: Some(Connection {
                context: brought,
                ..Connection::default()
            }),
            ..NetworkServiceRequest::default()
        });
        chain.oneshot(call).await.unwrap().context
    }

    fn of_another() -> ConnectionContext {
        let config = DnsConfig {
            dns_server_ips: vec!["10.0.0.1".to_owned()],
            ..DnsConfig::default()
        };
        ConnectionContext {
            dns_context: Some(DnsContext {
                configs: vec![config],
            }),
            mtu: 1400,
            ..ConnectionContext::default()
        }
    }

    #[tokio::test]
    async fn clients_are_told_of_these_servers_and_of_no_others() {
        for brought in [None, Some(of_another())] {
            let mtu = brought.as_ref().map_or(0, |context| context.mtu);
            let context = told(TEXT, brought).await.unwrap();

            let configs = context.dns_context.unwrap().configs;
            assert_eq!(configs.len(), 1);
            assert_eq!(configs[0].dns_server_ips, ["10.0.0.53", "fd00::53"]);
            assert_eq!(configs[0].search_domains, ["example.com"]);
            assert_eq!(context.mtu, mtu, "the rest stays");
        }
    }

    #[tokio::test]
    async fn where_there_are_none_a_client_keeps_none() {
        assert_eq!(told("", None).await, None);
        let context = told("", Some(of_another())).await.unwrap();
        assert_eq!((context.dns_context, context.mtu), (None, 1400));
    }

    #[test]
    fn a_list_is_shown_as_it_is_read() {
        for text in ["", TEXT] {
            assert_eq!(text.parse::<DnsConfigs>().unwrap().to_string(), text);
        }
        let short = r#" [ {"dns_server_ips": ["10.0.0.53"]} ] "#;
        assert_eq!(short.parse::<DnsConfigs>().unwrap().0.len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("10.0.0.53", "no list of {\"dns_server_ips\""),
            (r#"[{"servers": []}]"#, "unknown field `servers`"),
            (r#"[{"dns_server_ips": ["x"]}]"#, "invalid IP address"),
            (
                r#"[{"dns_server_ips": []}]"#,
                "item 1 of the list has no server",
            ),
            (
                r#"[{"dns_server_ips": ["10.0.0.1"], "search_domains": ["a..b"]}]"#,
                "\"a..b\" is no domain",
            ),
            (
                r#"[{"dns_server_ips": ["10.0.0.1"], "search_domains": ["a b"]}]"#,
                "\"a b\" is no domain",
            ),
        ] {
            let error = text.parse::<DnsConfigs>().unwrap_err();
            let error = ErrorChain(&error).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
