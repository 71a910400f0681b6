//! What is wanted of one selector, all its claimants together.

use ipnet::IpNet;
use nsm_api::ConnectionId;
use nsm_netlink::{Family, Route, Selector, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// One rule and the content of its table.
#[derive(Debug, Clone)]
pub struct Desired {
    /// What the rule selects.
    pub selector: Selector,
    /// Where the rule stands.
    pub priority: u32,
    /// Where each prefix leads: interface and next hop of the claimant that holds it. A prefix
    /// whose claimants have no interface at the moment is missing here.
    pub content: BTreeMap<IpNet, (u32, Option<IpAddr>)>,
    /// All prefixes that are claimed.
    pub prefixes: BTreeSet<IpNet>,
    /// The interfaces of the claimants.
    pub devs: BTreeSet<u32>,
    /// The interfaces that claimants wait for: missing, or down.
    pub waits_for: BTreeSet<String>,
    /// The index of the policy, if the connection at hand is among the claimants.
    pub own: Option<usize>,
    /// The table that the selector had last.
    pub seat: Option<TableId>,
}

impl Desired {
    /// A selector that nobody wants anything for yet.
    pub fn new(selector: Selector, priority: u32, seat: Option<TableId>) -> Self {
        Self {
            selector,
            priority,
            content: BTreeMap::new(),
            prefixes: BTreeSet::new(),
            devs: BTreeSet::new(),
            waits_for: BTreeSet::new(),
            own: None,
            seat,
        }
    }

    /// The family of the rule.
    pub fn family(&self) -> Family {
        self.selector.family
    }

    /// What the two families of one policy have in common: they share a table id.
    pub fn group(&self) -> Selector {
        let family = if self.selector.from.is_none() {
            Family::V4
        } else {
            self.family()
        };
        Selector {
            family,
            ..self.selector.clone()
        }
    }

    /// The routes that the table shall hold.
    pub fn routes(&self, table: u32, protocol: u8) -> impl Iterator<Item = Route> {
        self.content
            .iter()
            .map(move |(prefix, (dev, via))| Route::unicast(table, *prefix, *dev, *via, protocol))
    }
}

/// Two live connections want one prefix of one selector differently.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The selector.
    pub selector: Selector,
    /// The prefix.
    pub prefix: IpNet,
    /// The connection that holds the prefix.
    pub holder: ConnectionId,
    /// The connection that wants it otherwise.
    pub other: ConnectionId,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(family: Family, from: Option<&str>) -> Selector {
        let selector = Selector {
            from: from.map(|from| from.parse().unwrap()),
            proto: Some(17),
            ..Selector::any(family)
        };
        Desired::new(selector, 30000, None).group()
    }

    #[test]
    fn policies_that_differ_only_in_family_are_one_group() {
        assert_eq!(group(Family::V4, None), group(Family::V6, None));
    }

    #[test]
    fn policies_with_a_from_are_groups_of_their_own() {
        let v4 = group(Family::V4, Some("10.1.0.1/32"));
        let v6 = group(Family::V6, Some("2001:db8::1/128"));

        assert_ne!(v4, v6);
        assert_eq!([v4.family, v6.family], Family::ALL);
        assert_ne!(v4, group(Family::V4, Some("10.1.0.2/32")));
        assert_ne!(v4, group(Family::V4, None));
    }
}
