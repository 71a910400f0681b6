//! What the kernel is asked, and what it must answer.

use super::words::ErrnoName;
use super::{ports, protocol};
use nsm_netlink::Errno;
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;

/// A packet for which the kernel is asked the way, by the names of `ip route get`, and what it
/// must answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "LookupFields")]
pub struct Lookup {
    /// The destination.
    pub to: IpAddr,
    /// The source.
    pub from: Option<IpAddr>,
    /// The IP protocol.
    pub proto: Option<u8>,
    /// The source port.
    pub sport: Option<u16>,
    /// The destination port.
    pub dport: Option<u16>,
    /// The firewall mark.
    pub mark: Option<u32>,
    /// The link that it came in by.
    pub iif: Option<String>,
    /// The link that it is bound to.
    pub oif: Option<String>,
    /// The type of service.
    pub tos: Option<u8>,
    /// The user who sends it.
    pub uid: Option<u32>,
    /// The answer.
    pub answer: ExpectedAnswer,
}

/// What the kernel must answer; what is absent is not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedAnswer {
    /// A way out.
    Route {
        /// The link.
        dev: Option<String>,
        /// The next hop.
        via: Option<Gateway>,
        /// The table that the route is from.
        table: Option<u32>,
    },
    /// A refusal.
    Error(Errno),
}

/// The next hop that a lookup must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Gateway {
    /// None: the destination is on the link.
    None,
    /// This one.
    Address(IpAddr),
}

impl TryFrom<String> for Gateway {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "none" => Ok(Self::None),
            _ => text
                .parse()
                .map(Self::Address)
                .map_err(|_| format!("{text:?} is neither an address nor `none`")),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LookupFields {
    to: IpAddr,
    from: Option<IpAddr>,
    proto: Option<String>,
    sport: Option<u16>,
    dport: Option<u16>,
    mark: Option<u32>,
    iif: Option<String>,
    oif: Option<String>,
    tos: Option<u8>,
    uid: Option<u32>,
    dev: Option<String>,
    via: Option<Gateway>,
    table: Option<String>,
    error: Option<ErrnoName>,
}

impl TryFrom<LookupFields> for Lookup {
    type Error = String;

    fn try_from(fields: LookupFields) -> Result<Self, String> {
        let answer = match (fields.dev, fields.via, fields.table, fields.error) {
            (None, None, None, None) => {
                return Err("a lookup expects one of `dev`, `via`, `table`, `error`".to_owned());
            }
            (None, None, None, Some(errno)) => ExpectedAnswer::Error(errno.0),
            (dev, via, table, None) => {
                let table = table.as_deref().map(table_number).transpose()?;
                ExpectedAnswer::Route { dev, via, table }
            }
            _ => return Err("a lookup with an `error` has no `dev`, `via` or `table`".to_owned()),
        };
        let port = |port: Option<u16>| port.map(|port| ports(&port.to_string())).transpose();
        port(fields.sport)?;
        port(fields.dport)?;
        Ok(Self {
            to: fields.to,
            from: fields.from,
            proto: fields.proto.as_deref().map(protocol).transpose()?,
            sport: fields.sport,
            dport: fields.dport,
            mark: fields.mark,
            iif: fields.iif,
            oif: fields.oif,
            tos: fields.tos,
            uid: fields.uid,
            answer,
        })
    }
}

/// A table by its number or by the name that iproute2 gives the kernel's own.
///
/// # Errors
/// When the text is neither.
pub fn table_number(text: &str) -> Result<u32, String> {
    match text {
        "default" => Ok(253),
        "main" => Ok(254),
        "local" => Ok(255),
        number => number.parse().map_err(|_| format!("{text:?} is no table")),
    }
}

/// A table as iproute2 prints it.
pub fn table_name(number: u32) -> String {
    match number {
        253 => "default".to_owned(),
        254 => "main".to_owned(),
        255 => "local".to_owned(),
        number => number.to_string(),
    }
}

impl Lookup {
    /// The question in the words of `ip route get`, which are also what it is asked with.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![self.to.to_string()];
        let mut add = |name: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        add("from", self.from.map(|from| from.to_string()));
        add("iif", self.iif.clone());
        add("oif", self.oif.clone());
        add("mark", self.mark.map(|mark| mark.to_string()));
        add("tos", self.tos.map(|tos| format!("{tos:#x}")));
        add("uid", self.uid.map(|uid| uid.to_string()));
        add("ipproto", self.proto.map(|proto| proto.to_string()));
        add("sport", self.sport.map(|port| port.to_string()));
        add("dport", self.dport.map(|port| port.to_string()));
        words
    }
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip route get {}", self.words().join(" "))
    }
}

impl fmt::Display for ExpectedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Route { dev, via, table } = self else {
            let Self::Error(errno) = self else {
                return Ok(());
            };
            return write!(f, "error {errno:?}");
        };
        let words = [
            via.map(|via| match via {
                Gateway::None => "without via".to_owned(),
                Gateway::Address(via) => format!("via {via}"),
            }),
            dev.as_ref().map(|dev| format!("dev {dev}")),
            table.map(|table| format!("table {}", table_name(table))),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}
