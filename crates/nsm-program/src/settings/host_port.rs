//! Addresses of TCP.

use std::fmt;
use std::str::FromStr;

use super::as_text;

/// A host and a port: `localhost:4317`, `10.0.0.1:4317`, `[2001:db8::1]:4317`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

/// Where to listen: nowhere (the empty text), or at a host's address and a port. Without a host,
/// as in `:8081`, it is every address; port 0 is any that is free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListenOn(Option<HostPort>);

/// Why a text is no host and port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostPortError {
    /// It has a scheme.
    #[error("host:port without a scheme is wanted")]
    Scheme,
    /// There is no port.
    #[error("no port: host:port is wanted")]
    NoPort,
    /// The port is no number from 1 to 65535.
    #[error("{port:?} is no port")]
    Port {
        /// What stands in its place.
        port: String,
    },
    /// There is no host.
    #[error("no host: host:port is wanted")]
    NoHost,
    /// A host has no such characters; an IPv6 address stands in brackets.
    #[error("{host:?} is no host")]
    Host {
        /// What stands in its place.
        host: String,
    },
}

impl HostPort {
    /// The host: a name or an address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl ListenOn {
    /// Where to listen, if anywhere. The host may be empty.
    pub fn get(&self) -> Option<&HostPort> {
        self.0.as_ref()
    }
}

/// Reads host and port; the host may be empty.
fn read(text: &str) -> Result<HostPort, HostPortError> {
    if text.contains("://") {
        return Err(HostPortError::Scheme);
    }
    let (host, port) = text.rsplit_once(':').ok_or(HostPortError::NoPort)?;
    let number = match port.parse() {
        // `+1` is a number for the parser.
        Ok(number) if port.bytes().all(|digit| digit.is_ascii_digit()) => number,
        _ => {
            let port = port.to_owned();
            return Err(HostPortError::Port { port });
        }
    };
    let name = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => {
            let address: Option<std::net::Ipv6Addr> = address.parse().ok();
            address.map(|address| address.to_string())
        }
        None => {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            host.chars().all(fits).then(|| host.to_owned())
        }
    };
    match name {
        Some(host) => Ok(HostPort { host, port: number }),
        None => Err(HostPortError::Host {
            host: host.to_owned(),
        }),
    }
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = read(text)?;
        if read.host.is_empty() {
            return Err(HostPortError::NoHost);
        }
        if read.port == 0 {
            let port = read.port.to_string();
            return Err(HostPortError::Port { port });
        }
        Ok(read)
    }
}

impl FromStr for ListenOn {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Ok(Self(None)),
            text => read(text).map(|at| Self(Some(at))),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for ListenOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|at| at.fmt(f))
    }
}

as_text!(HostPort);
as_text!(ListenOn);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read_and_shown() {
        for text in [
            "otel-collector.observability.svc.cluster.local:4317",
            "localhost:1",
            "10.0.0.1:65535",
            "[::1]:4317",
        ] {
            assert_eq!(text.parse::<HostPort>().unwrap().to_string(), text);
            assert_eq!(text.parse::<ListenOn>().unwrap().to_string(), text);
        }
        assert_eq!("[0:0::1]:1".parse::<HostPort>().unwrap().host(), "::1");
    }

    #[test]
    fn what_is_no_host_and_port_is_refused_in_words() {
        for (text, words) in [
            ("", "no port: host:port is wanted"),
            ("localhost", "no port: host:port is wanted"),
            (":4317", "no host: host:port is wanted"),
            (
                "http://localhost:4317",
                "host:port without a scheme is wanted",
            ),
            ("localhost:", "\"\" is no port"),
            ("localhost:0", "\"0\" is no port"),
            ("localhost:+1", "\"+1\" is no port"),
            ("localhost:65536", "\"65536\" is no port"),
            ("::1:4317", "\"::1\" is no host"),
            ("[nowhere]:4317", "\"[nowhere]\" is no host"),
            ("a b:4317", "\"a b\" is no host"),
            ("a/b:4317", "\"a/b\" is no host"),
        ] {
            assert_eq!(text.parse::<HostPort>().unwrap_err().to_string(), words);
        }
    }

    #[test]
    fn one_listens_nowhere_at_every_address_or_at_one() {
        assert_eq!("".parse::<ListenOn>().unwrap().get(), None);
        let everywhere: ListenOn = ":8081".parse().unwrap();
        assert_eq!(everywhere.get().map(HostPort::host), Some(""));
        assert_eq!(everywhere.to_string(), ":8081");
        assert!("localhost:0".parse::<ListenOn>().is_ok());
    }
}
