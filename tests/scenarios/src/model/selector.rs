//! Selectors by the names that a request gives them.

use ipnet::IpNet;
use nsm_netlink::{Family, PortRange, Rule, Selector};
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;

/// A selector as a request names it. It stands for one rule, or for one in each family where it
/// does not tell which.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "SelectorFields")]
pub struct NamedSelector {
    /// The family, where `from` tells it.
    pub family: Option<Family>,
    from: Option<IpNet>,
    proto: Option<u8>,
    sport: Option<PortRange>,
    dport: Option<PortRange>,
}

impl NamedSelector {
    /// Reads the fields of a selector; an empty one is an absent one.
    ///
    /// # Errors
    /// When a field is neither empty nor what its name says.
    pub fn read(from: &str, proto: &str, dstport: &str, srcport: &str) -> Result<Self, String> {
        let from = optional(from, prefix)?;
        Ok(Self {
            family: from.as_ref().map(Family::of_net),
            from: from
                .map(|net| net.trunc())
                .filter(|net| net.prefix_len() > 0),
            proto: optional(proto, protocol)?,
            sport: optional(srcport, ports)?,
            dport: optional(dstport, ports)?,
        })
    }

    /// The selector in a family; `from` must not be of the other.
    pub fn in_family(&self, family: Family) -> Selector {
        Selector {
            family,
            from: self.from,
            proto: self.proto,
            sport: self.sport,
            dport: self.dport,
        }
    }

    /// Whether nothing is selected.
    pub fn is_any(&self) -> bool {
        self.from.is_none() && self.proto.is_none() && self.sport.is_none() && self.dport.is_none()
    }

    /// The same selector with a source.
    pub fn with_source(self, source: IpAddr) -> Self {
        let from = IpNet::from(source);
        Self {
            family: Some(Family::of(&source)),
            from: Some(from),
            ..self
        }
    }

    /// Whether a rule has exactly this selector.
    pub fn is_of(&self, rule: &Rule) -> bool {
        rule.is_plain()
            && self.family.is_none_or(|family| family == rule.family())
            && rule.selector == self.in_family(rule.family())
    }
}

impl fmt::Display for NamedSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.in_family(self.family.unwrap_or(Family::V4)).fmt(f)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct SelectorFields {
    from: String,
    proto: String,
    dstport: String,
    srcport: String,
}

impl TryFrom<SelectorFields> for NamedSelector {
    type Error = String;

    fn try_from(fields: SelectorFields) -> Result<Self, String> {
        Self::read(
            &fields.from,
            &fields.proto,
            &fields.dstport,
            &fields.srcport,
        )
    }
}

fn optional<T>(
    text: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if text.is_empty() {
        Ok(None)
    } else {
        read(text).map(Some)
    }
}

/// A prefix with its host bits; an address is one of full length.
///
/// # Errors
/// When the text is neither.
pub fn prefix(text: &str) -> Result<IpNet, String> {
    text.parse()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| format!("{text:?} is neither an address nor a prefix"))
}

/// An IP protocol, by number or by one of the names that people use.
///
/// # Errors
/// When the text is neither.
pub fn protocol(text: &str) -> Result<u8, String> {
    match text.to_ascii_lowercase().as_str() {
        "icmp" => Ok(1),
        "igmp" => Ok(2),
        "tcp" => Ok(6),
        "udp" => Ok(17),
        "dccp" => Ok(33),
        "gre" => Ok(47),
        "esp" => Ok(50),
        "ah" => Ok(51),
        "ipv6-icmp" | "icmpv6" => Ok(58),
        "ospf" => Ok(89),
        "pim" => Ok(103),
        "vrrp" => Ok(112),
        "sctp" => Ok(132),
        "udplite" => Ok(136),
        number => match number.parse() {
            Ok(0) | Err(_) => Err(format!("{text:?} is no IP protocol")),
            Ok(number) => Ok(number),
        },
    }
}

/// A port or a range of ports: `443`, `6667-6670`.
///
/// # Errors
/// When the text is neither, or a range that no rule can have.
pub fn ports(text: &str) -> Result<PortRange, String> {
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    match (start.parse(), end.parse()) {
        (Ok(start), Ok(end)) => {
            PortRange::new(start, end).map_err(|error| format!("{text:?}: {error}"))
        }
        _ => Err(format!("{text:?} is neither a port nor a range of ports")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(family: Family, from: Option<&str>, dport: Option<u16>) -> Rule {
        let selector = Selector {
            from: from.map(|net| net.parse().unwrap()),
            dport: dport.map(|port| PortRange::new(port, port).unwrap()),
            ..Selector::any(family)
        };
        Rule::lookup(30000, selector, 20000, 78)
    }

    #[test]
    fn a_selector_matches_exactly_after_masking() {
        let named = NamedSelector::read("10.1.0.7/24", "", "443", "").unwrap();
        assert!(named.is_of(&rule(Family::V4, Some("10.1.0.0/24"), Some(443))));
        assert!(!named.is_of(&rule(Family::V4, Some("10.1.0.7/24"), Some(443))));
        assert!(!named.is_of(&rule(Family::V4, Some("10.1.0.0/24"), None)));
        assert!(!named.is_of(&rule(Family::V4, Some("10.1.0.0/16"), Some(443))));
        let inverted = Rule {
            invert: true,
            ..rule(Family::V4, Some("10.1.0.0/24"), Some(443))
        };
        assert!(!named.is_of(&inverted));
    }

    #[test]
    fn a_source_of_length_0_only_tells_the_family() {
        let named = NamedSelector::read("::/0", "", "443", "").unwrap();
        assert!(named.is_of(&rule(Family::V6, None, Some(443))));
        assert!(!named.is_of(&rule(Family::V4, None, Some(443))));
        let named = NamedSelector::read("", "", "443", "").unwrap();
        assert!(named.is_of(&rule(Family::V4, None, Some(443))));
        assert!(named.is_of(&rule(Family::V6, None, Some(443))));
    }

    #[test]
    fn fields_that_are_not_what_they_are_called_are_refused() {
        for fields in [
            ["10.1.0.300", "", "", ""],
            ["", "0", "", ""],
            ["", "256", "", ""],
            ["", "tpc", "", ""],
            ["", "", "9-3", ""],
            ["", "", "", "65535"],
        ] {
            let [from, proto, dstport, srcport] = fields;
            assert!(
                NamedSelector::read(from, proto, dstport, srcport).is_err(),
                "{fields:?}"
            );
        }
    }
}
