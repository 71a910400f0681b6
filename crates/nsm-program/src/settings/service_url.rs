//! What a client connects to.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use nsm_api::{InterfaceName, InterfaceNameError};

use super::as_text;

/// A network service that a client wants, and how: `[mech://]service[@domain]/ifname?label=value`.
///
/// ```
/// use nsm_program::settings::ServiceUrl;
///
/// let url: ServiceUrl = "kernel://icmp-responder@cluster2/nsm-1?app=ping&zone=a".parse().unwrap();
/// assert_eq!(url.mechanism(), Some("KERNEL"));
/// assert_eq!(url.network_service(), "icmp-responder@cluster2");
/// assert_eq!(url.interface().map(|name| name.as_str()), Some("nsm-1"));
/// assert_eq!(url.labels()["app"], "ping");
/// ```
///
/// Parts may be percent-encoded, which is how a comma gets into a list of such URLs. A label that
/// comes more than once has all its values, joined by commas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceUrl {
    mechanism: Option<String>,
    network_service: String,
    interface: Option<InterfaceName>,
    labels: BTreeMap<String, String>,
}

/// Why a text names no network service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceUrlError {
    /// A mechanism is letters, digits, `+`, `-` and `.`.
    #[error("{mechanism:?} is no mechanism")]
    Mechanism {
        /// What stands in its place.
        mechanism: String,
    },
    /// There is no service's name.
    #[error("no network service: [mechanism://]service[@domain]/interface is wanted")]
    NoService,
    /// A service's or domain's name has no such characters.
    #[error("{name:?} is no name of a network service")]
    Service {
        /// What stands in its place.
        name: String,
    },
    /// The interface's name.
    #[error("{name:?}")]
    Interface {
        /// What stands in its place.
        name: String,
        /// What is wrong with it.
        #[source]
        source: InterfaceNameError,
    },
    /// A label without a name.
    #[error("a label in {query:?} has no name")]
    Label {
        /// All labels.
        query: String,
    },
    /// A percent sign without two hexadecimal digits, or bytes that are no UTF-8.
    #[error("{part:?} is wrongly encoded")]
    Encoding {
        /// The part.
        part: String,
    },
    /// Something behind a `#`.
    #[error("a fragment (#) means nothing here")]
    Fragment,
}

impl ServiceUrl {
    /// The mechanism that is asked for, in capitals: `KERNEL`, `MEMIF`, ...
    pub fn mechanism(&self) -> Option<&str> {
        self.mechanism.as_deref()
    }

    /// The network service, with its domain if it has one.
    pub fn network_service(&self) -> &str {
        &self.network_service
    }

    /// The name for the client's interface. Without one, a name is made up.
    pub fn interface(&self) -> Option<&InterfaceName> {
        self.interface.as_ref()
    }

    /// The labels of the request.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }
}

impl FromStr for ServiceUrl {
    type Err = ServiceUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('#') {
            return Err(ServiceUrlError::Fragment);
        }
        let (mechanism, rest) = match text.split_once("://") {
            Some((mechanism, rest)) => (Some(mechanism), rest),
            None => (None, text),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, query),
            None => (rest, ""),
        };
        let (service, interface) = match rest.split_once('/') {
            Some((service, interface)) => (service, Some(interface)),
            None => (rest, None),
        };
        Ok(Self {
            mechanism: mechanism.map(read_mechanism).transpose()?,
            network_service: read_service(service)?,
            interface: interface
                .filter(|interface| !interface.is_empty())
                .map(read_interface)
                .transpose()?,
            labels: read_labels(query)?,
        })
    }
}

fn read_mechanism(mechanism: &str) -> Result<String, ServiceUrlError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if mechanism.starts_with(|c: char| c.is_ascii_alphabetic()) && mechanism.chars().all(fits) {
        return Ok(mechanism.to_ascii_uppercase());
    }
    let mechanism = mechanism.to_owned();
    Err(ServiceUrlError::Mechanism { mechanism })
}

fn read_service(service: &str) -> Result<String, ServiceUrlError> {
    let name = decode(service, Plus::IsItself)?;
    if name.is_empty() {
        return Err(ServiceUrlError::NoService);
    }
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '/';
    let (service, domain) = match name.split_once('@') {
        Some((service, domain)) => (service, Some(domain)),
        None => (name.as_str(), None),
    };
    let no_domain = domain.is_some_and(|domain| domain.is_empty() || domain.contains('@'));
    if service.is_empty() || no_domain || name.contains(odd) {
        return Err(ServiceUrlError::Service { name });
    }
    Ok(name)
}

fn read_interface(interface: &str) -> Result<InterfaceName, ServiceUrlError> {
    let name = decode(interface, Plus::IsItself)?;
    name.parse()
        .map_err(|source| ServiceUrlError::Interface { name, source })
}

fn read_labels(query: &str) -> Result<BTreeMap<String, String>, ServiceUrlError> {
    let mut labels = BTreeMap::<String, String>::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name, Plus::IsBlank)?;
        let value = decode(value, Plus::IsBlank)?;
        if name.is_empty() {
            let query = query.to_owned();
            return Err(ServiceUrlError::Label { query });
        }
        labels
            .entry(name)
            .and_modify(|values| {
                values.push(',');
                values.push_str(&value);
            })
            .or_insert(value);
    }
    Ok(labels)
}

/// What a plus sign stands for: among labels a blank.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    IsItself,
    IsBlank,
}

fn decode(part: &str, plus: Plus) -> Result<String, ServiceUrlError> {
    let wrong = || ServiceUrlError::Encoding {
        part: part.to_owned(),
    };
    let mut decoded = Vec::with_capacity(part.len());
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = digit().zip(digit()).ok_or_else(wrong)?;
                u8::try_from(high * 16 + low).map_err(|_| wrong())?
            }
            b'+' if plus == Plus::IsBlank => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).map_err(|_| wrong())
}

/// Encodes what has a meaning in a URL or in a list of them, and leaves the rest readable.
fn encode(f: &mut fmt::Formatter<'_>, part: &str) -> fmt::Result {
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => {
                write!(f, "{}", char::from(byte))?;
            }
            byte => write!(f, "%{byte:02X}")?,
        }
    }
    Ok(())
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(mechanism) = &self.mechanism {
            write!(f, "{}://", mechanism.to_ascii_lowercase())?;
        }
        encode(f, &self.network_service)?;
        if let Some(interface) = &self.interface {
            f.write_str("/")?;
            encode(f, interface.as_str())?;
        }
        for (place, (name, value)) in self.labels.iter().enumerate() {
            f.write_str(if place == 0 { "?" } else { "&" })?;
            encode(f, name)?;
            f.write_str("=")?;
            encode(f, value)?;
        }
        Ok(())
    }
}

as_text!(ServiceUrl);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::settings::List;

    fn url(text: &str) -> ServiceUrl {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> String {
        let error = text.parse::<ServiceUrl>().unwrap_err();
        nsm_chain::ErrorChain(&error).to_string()
    }

    #[test]
    fn every_part_but_the_service_may_be_left_out() {
        let whole = url("kernel://svc@domain/nsm-1?a=1&b=2");
        assert_eq!(whole.mechanism(), Some("KERNEL"));
        assert_eq!(whole.network_service(), "svc@domain");
        assert_eq!(whole.interface().unwrap().as_str(), "nsm-1");
        assert_eq!(whole.labels().len(), 2);

        for text in ["svc", "svc/", "kernel://svc", "svc/nsm-1", "svc?a=1"] {
            assert_eq!(url(text).network_service(), "svc", "{text}");
        }
        assert_eq!(url("svc/").interface(), None);
        assert_eq!(url("memif://svc").mechanism(), Some("MEMIF"));
    }

    #[test]
    fn labels_are_decoded_and_those_that_come_twice_are_joined() {
        let labels = |text| url(text).labels().clone().into_iter().collect::<Vec<_>>();
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());

        assert_eq!(labels("svc?a=1&a=2"), [label("a", "1,2")]);
        assert_eq!(
            labels("svc?a=x+y%2Cz&b"),
            [label("a", "x y,z"), label("b", "")]
        );
        assert_eq!(labels("svc?a=b=c&&"), [label("a", "b=c")]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            (
                "",
                "no network service: [mechanism://]service[@domain]/interface is wanted",
            ),
            (
                "kernel:///nsm-1",
                "no network service: [mechanism://]service[@domain]/interface is wanted",
            ),
            ("://svc", "\"\" is no mechanism"),
            ("k l://svc", "\"k l\" is no mechanism"),
            ("1k://svc", "\"1k\" is no mechanism"),
            ("@domain", "\"@domain\" is no name of a network service"),
            ("svc@", "\"svc@\" is no name of a network service"),
            ("svc@a@b", "\"svc@a@b\" is no name of a network service"),
            ("my svc/a", "\"my svc\" is no name of a network service"),
            ("svc/a/b", "\"a/b\": it has a '/'"),
            ("svc/a%20b", "\"a b\": it has a ' '"),
            (
                "svc/..",
                "\"..\": it stands for something else than an interface",
            ),
            (
                "svc/sixteen-bytes-xx",
                "\"sixteen-bytes-xx\": it has 16 bytes, and a name of an interface has 1 to 15",
            ),
            (
                "svc/%C3%B6%C3%B6%C3%B6%C3%B6%C3%B6%C3%B6%C3%B6%C3%B6",
                "\"\u{f6}\u{f6}\u{f6}\u{f6}\u{f6}\u{f6}\u{f6}\u{f6}\": it has 16 bytes, and a name of an interface has 1 to 15",
            ),
            ("svc?=1", "a label in \"=1\" has no name"),
            ("svc?a=%2", "\"%2\" is wrongly encoded"),
            ("svc?a=%zz", "\"%zz\" is wrongly encoded"),
            ("svc?a=%ff", "\"%ff\" is wrongly encoded"),
            ("svc#here", "a fragment (#) means nothing here"),
        ] {
            assert_eq!(refusal(text), words);
        }
    }

    #[test]
    fn a_list_of_them_is_read_and_shown() {
        let text = "kernel://svc-1/nsm-1?a=x%2Cy,svc-2/nsm-2";
        let services: List<ServiceUrl> = text.parse().unwrap();

        assert_eq!(services.len(), 2);
        assert_eq!(services[0].labels()["a"], "x,y");
        assert_eq!(services.to_string(), text);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(text in "([a-z]{1,3}://)?[a-zö%2C+]{1,8}(@[a-z]{1,4})?(/[a-z0-9ä]{1,7})?(\\?[a-z=&+%20ö]{0,12})?") {
            if let Ok(url) = text.parse::<ServiceUrl>() {
                prop_assert_eq!(url.to_string().parse(), Ok(url));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = text.parse::<ServiceUrl>();
        }
    }
}
