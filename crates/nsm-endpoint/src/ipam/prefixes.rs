//! The prefixes that an endpoint assigns addresses from.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use nsm_api::parse_net;
use thiserror::Error;

/// The prefixes of an endpoint, in groups.
///
/// A client gets one pair of addresses, its own and the endpoint's, *from each group*. The
/// prefixes within a group are alternatives, tried in the order in which they stand. In text
/// (`NSM_CIDR_PREFIX`) a group is a prefix, or a list of them in brackets:
///
/// ```
/// use nsm_endpoint::CidrGroups;
///
/// // A pair of each family.
/// let groups: CidrGroups = "172.16.1.0/24, fd00:1::/64".parse()?;
/// assert_eq!(groups.groups().len(), 2);
///
/// // One pair, from the second prefix when the first is used up, and one of IPv6.
/// let groups: CidrGroups = "[172.16.1.0/24, 172.16.2.0/24], [fd00:1::/64]".parse()?;
/// assert_eq!(groups.to_string(), "[172.16.1.0/24,172.16.2.0/24],fd00:1::/64");
/// # Ok::<(), nsm_endpoint::CidrGroupsError>(())
/// ```
///
/// Blanks do not count, host bits are dropped, and an empty text has no group: nothing is
/// assigned. All this is as in the mesh's Go endpoints, but a prefix that can never give a pair
/// is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CidrGroups(Vec<Vec<IpNet>>);

/// Why a text is no list of groups of prefixes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CidrGroupsError {
    /// Not an address and a length.
    #[error("{0:?} is not a prefix such as 172.16.1.0/24")]
    NotAPrefix(String),
    /// Fewer than two addresses.
    #[error("{0} has one address, and a client and its endpoint need two")]
    NoPair(IpNet),
    /// Holds addresses that no interface can have.
    #[error("{0} is not a prefix that addresses are assigned from")]
    NotAssignable(IpNet),
    /// A bracket or a comma too many or too few.
    #[error("the brackets or commas of {0:?} do not fit: write A,B or [A,B],[C]")]
    Brackets(String),
}

impl CidrGroups {
    /// The groups, each with its prefixes.
    pub fn groups(&self) -> &[Vec<IpNet>] {
        &self.0
    }

    /// All prefixes.
    pub fn prefixes(&self) -> impl Iterator<Item = &IpNet> {
        self.0.iter().flatten()
    }

    /// Whether an address lies in one of the prefixes.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.prefixes().any(|prefix| prefix.contains(&address))
    }

    /// Whether a prefix lies in one of the prefixes.
    pub fn contains_net(&self, net: &IpNet) -> bool {
        self.prefixes().any(|prefix| prefix.contains(net))
    }
}

impl FromStr for CidrGroups {
    type Err = CidrGroupsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let brackets = || CidrGroupsError::Brackets(text.to_owned());
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let mut groups = Vec::new();
        let mut rest = plain.as_str();
        while !rest.is_empty() {
            let behind = if let Some(inside) = rest.strip_prefix('[') {
                let (list, behind) = inside.split_once(']').ok_or_else(brackets)?;
                groups.push(list.split(',').map(prefix).collect::<Result<_, _>>()?);
                behind
            } else {
                let end = rest.find(',').unwrap_or(rest.len());
                groups.push(vec![prefix(&rest[..end])?]);
                &rest[end..]
            };
            rest = match behind.strip_prefix(',') {
                Some("") => return Err(brackets()),
                Some(next) => next,
                None if behind.is_empty() => behind,
                None => return Err(brackets()),
            };
        }
        Ok(Self(groups))
    }
}

/// A prefix that two addresses can be assigned from, without its host bits.
fn prefix(text: &str) -> Result<IpNet, CidrGroupsError> {
    if text.is_empty() || text.contains(['[', ']']) {
        return Err(CidrGroupsError::Brackets(text.to_owned()));
    }
    let net = Some(text)
        .filter(|text| text.contains('/'))
        .and_then(parse_net)
        .ok_or_else(|| CidrGroupsError::NotAPrefix(text.to_owned()))?
        .trunc();
    let network = net.network();
    let mapped = matches!(network, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    if mapped || network.is_unspecified() || network.is_multicast() || network.is_loopback() {
        return Err(CidrGroupsError::NotAssignable(net));
    }
    if net.prefix_len() == net.max_prefix_len() {
        return Err(CidrGroupsError::NoPair(net));
    }
    Ok(net)
}

impl fmt::Display for CidrGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, group) in self.0.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            match group.as_slice() {
                [prefix] => write!(f, "{prefix}")?,
                prefixes => {
                    let list: Vec<String> = prefixes.iter().map(IpNet::to_string).collect();
                    write!(f, "[{}]", list.join(","))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let groups: CidrGroups = text.parse().unwrap();
        let shown = groups.to_string();
        assert_eq!(shown.parse(), Ok(groups), "{text:?} is read as it is shown");
        shown
    }

    #[test]
    fn a_group_is_a_prefix_or_a_list_in_brackets() {
        assert_eq!(
            shown(
                "[172.168.1.0/24], [172.168.2.0/24, fd00::/64], 172.168.3.0/24,[10.0.0.0/8 , 10.0.0.0/9]"
            ),
            "172.168.1.0/24,[172.168.2.0/24,fd00::/64],172.168.3.0/24,[10.0.0.0/8,10.0.0.0/9]"
        );
        assert_eq!(shown("192.168.3.4/16"), "192.168.0.0/16");
        assert_eq!(shown("fd00::/127,10.0.0.0/31"), "fd00::/127,10.0.0.0/31");
    }

    #[test]
    fn an_empty_text_has_no_group() {
        assert_eq!(shown(""), "");
        assert_eq!(shown("  "), "");
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let refusal = |text: &str| text.parse::<CidrGroups>().unwrap_err().to_string();

        for text in [
            ",",
            "10.0.0.0/8,",
            ",10.0.0.0/8",
            "10.0.0.0/8,,10.1.0.0/16",
            "[10.0.0.0/8",
            "10.0.0.0/8]",
            "[10.0.0.0/8],",
            "[10.0.0.0/8][10.1.0.0/16]",
            "[10.0.0.0/8],[]",
            "[]",
            "[[10.0.0.0/8]]",
            "[10.0.0.0/8,,10.1.0.0/16]",
            "10.0.0.0/8[10.1.0.0/16]",
        ] {
            assert!(refusal(text).contains("write A,B or [A,B],[C]"), "{text:?}");
        }
        for text in [
            "172.168.1./24",
            "10.0.0.0",
            "10.0.0.0/33",
            "::1/129",
            "a/8",
            "10.0.0.0/-1",
            "010.0.0.0/8",
            "10.0.0.0/08",
        ] {
            assert!(
                refusal(text).contains("is not a prefix such as"),
                "{text:?}"
            );
        }
        assert!(refusal("10.0.0.1/32").contains("10.0.0.1/32 has one address"));
        assert!(refusal("[10.0.0.0/8,fd00::1/128]").contains("fd00::1/128 has one address"));
        for text in [
            "0.0.0.0/0",
            "::/0",
            "::ffff:10.0.0.0/120",
            "224.0.0.0/8",
            "127.0.0.0/8",
        ] {
            assert!(
                refusal(text).contains("addresses are assigned from"),
                "{text:?}"
            );
        }
    }

    #[test]
    fn an_address_is_ours_when_a_prefix_of_any_group_has_it() {
        let groups: CidrGroups = "[10.0.0.0/24,10.0.2.0/24],fd00::/64".parse().unwrap();
        let ours = |text: &str| groups.contains(text.parse().unwrap());

        assert!(ours("10.0.0.0") && ours("10.0.2.255") && ours("fd00::1"));
        assert!(!ours("10.0.1.0") && !ours("fd00:0:0:1::"));
        assert!(groups.contains_net(&"10.0.2.128/25".parse().unwrap()));
        assert!(!groups.contains_net(&"10.0.0.0/16".parse().unwrap()));
    }
}
