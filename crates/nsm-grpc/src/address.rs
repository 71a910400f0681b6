//! Where a peer listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

use crate::url_path::{self, Encoded};

/// Where a server listens, and a client finds it.
///
/// As text it is `unix:///run/nsm.sock` (or `unix:/run/nsm.sock`), where a byte of the path may be
/// percent-encoded and those that mean something in a URL have to be, or `tcp://host:port`. A server
/// may leave the host out, and listens on all addresses then; so may a client, which then finds
/// the server on its own machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// The path of a unix socket.
    Unix(PathBuf),
    /// `host:port`, an IPv6 address in brackets.
    Tcp(String),
}

/// The text is no address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Neither of the two schemes.
    #[error("{0:?} is no address: unix:///path or tcp://host:port is expected")]
    Scheme(String),
    /// A unix socket without an absolute path, or with something that no path has.
    #[error("{0:?} has no absolute path: unix:///path is expected, and %XX for what is no letter")]
    Path(String),
    /// A TCP address without a port, or with something else behind it.
    #[error("{0:?} has no port: tcp://host:port is expected")]
    Port(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = url_path::decode(path.strip_prefix("//").unwrap_or(path));
            let path = path.ok_or_else(|| AddressError::Path(text.to_owned()))?;
            return Ok(Self::Unix(path));
        }
        let Some(rest) = text.strip_prefix("tcp://") else {
            return Err(AddressError::Scheme(text.to_owned()));
        };
        let (host, port) = rest
            .rsplit_once(':')
            .ok_or_else(|| AddressError::Port(text.to_owned()))?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let plain = !host.contains([':', '[', ']', '/', '@', '?', '#', ' ']);
        if port.parse::<u16>().is_err() || port.starts_with('+') || !(bracketed || plain) {
            return Err(AddressError::Port(text.to_owned()));
        }
        Ok(Self::Tcp(rest.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", Encoded(path)),
            Self::Tcp(host_and_port) => write!(f, "tcp://{host_and_port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_what_it_displays() {
        for text in [
            "unix:///run/nsm.sock",
            "tcp://127.0.0.1:5001",
            "tcp://[::1]:5001",
            "tcp://nse.example:1",
            "tcp://:5001",
            "unix:///run/a%20b/100%25%2C.sock",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let short: Address = "unix:/run/nsm.sock".parse().unwrap();
        assert_eq!(short.to_string(), "unix:///run/nsm.sock");
        let encoded: Address = "unix:///run/a%20b".parse().unwrap();
        assert_eq!(encoded, Address::Unix("/run/a b".into()));
    }

    #[test]
    fn nothing_else_is_an_address() {
        for text in [
            "",
            "/run/nsm.sock",
            "unix:nsm.sock",
            "unix://nsm.sock",
            "unix:///run/",
            "unix:///run/a%2",
            "unix:///run/a%00b",
            "unix:///run/a?b",
            "unix:///run/a#b",
            "tcp://host",
            "tcp://host:",
            "tcp://host:+1",
            "tcp://host:65536",
            "tcp://::1:5001",
            "tcp://host:1/path",
            "tcp://user@host:1",
            "http://host:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}
