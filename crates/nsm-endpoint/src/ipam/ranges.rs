//! Sets of addresses that stay small however long a prefix is.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

/// A set of addresses of both families, kept as ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(BTreeMap<IpAddr, IpAddr>);

impl Ranges {
    /// Adds every address of a prefix.
    pub(super) fn insert_net(&mut self, net: &IpNet) {
        self.insert_range(net.network(), net.broadcast());
    }

    /// Adds an address.
    pub(super) fn insert(&mut self, address: IpAddr) {
        self.insert_range(address, address);
    }

    fn insert_range(&mut self, first: IpAddr, last: IpAddr) {
        let (mut first, mut last) = (first, last);
        // Whatever overlaps or touches becomes part of the new range.
        if let Some((start, end)) = self.at_or_before(first)
            && touches(end, first)
        {
            self.0.remove(&start);
            first = start;
            last = last.max(end);
        }
        while let Some((start, end)) = self.behind(first) {
            if !touches(last, start) {
                break;
            }
            self.0.remove(&start);
            last = last.max(end);
        }
        self.0.insert(first, last);
    }

    /// Takes an address out, and tells whether it was in.
    pub(super) fn remove(&mut self, address: IpAddr) -> bool {
        let Some((start, end)) = self
            .at_or_before(address)
            .filter(|(_, end)| *end >= address)
        else {
            return false;
        };
        self.0.remove(&start);
        if let Some(before) = before(address).filter(|before| *before >= start) {
            self.0.insert(start, before);
        }
        if let Some(after) = after(address).filter(|after| *after <= end) {
            self.0.insert(after, end);
        }
        true
    }

    /// Whether an address is in the set.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.at_or_before(address)
            .is_some_and(|(_, end)| end >= address)
    }

    /// Whether the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest address of a prefix that is in this set and not in `except`.
    pub(super) fn lowest(&self, within: &IpNet, except: &Self) -> Option<IpAddr> {
        let mut at = within.network();
        loop {
            at = if self.contains(at) {
                at
            } else {
                self.behind(at)?.0
            };
            if at > within.broadcast() {
                return None;
            }
            match except.at_or_before(at) {
                Some((_, end)) if end >= at => at = after(end)?,
                _ => return Some(at),
            }
        }
    }

    /// The highest address of a prefix that is in this set and not in `except`.
    pub(super) fn highest(&self, within: &IpNet, except: &Self) -> Option<IpAddr> {
        let mut at = within.broadcast();
        loop {
            let (_, end) = self.at_or_before(at)?;
            at = at.min(end);
            if at < within.network() {
                return None;
            }
            match except.at_or_before(at) {
                Some((start, end)) if end >= at => at = before(start)?,
                _ => return Some(at),
            }
        }
    }

    /// The last range that begins at an address or before it.
    fn at_or_before(&self, address: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let range = self.0.range(..=address).next_back();
        range.map(|(start, end)| (*start, *end))
    }

    /// The first range that begins at an address or behind it.
    fn behind(&self, address: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let range = self.0.range(address..).next();
        range.map(|(start, end)| (*start, *end))
    }
}

/// Whether a range that begins at `start` overlaps or continues one that ends at `end` and does
/// not begin behind it.
fn touches(end: IpAddr, start: IpAddr) -> bool {
    end.is_ipv4() == start.is_ipv4() && (end >= start || after(end) == Some(start))
}

/// The next address of the family.
fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(v6) => v6
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V6(bits.into())),
    }
}

/// The address of the family before this one.
fn before(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4
            .to_bits()
            .checked_sub(1)
            .map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(v6) => v6
            .to_bits()
            .checked_sub(1)
            .map(|bits| IpAddr::V6(bits.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn of(nets: &[&str]) -> Ranges {
        let mut ranges = Ranges::default();
        nets.iter().for_each(|text| ranges.insert_net(&net(text)));
        ranges
    }

    #[test]
    fn neighbouring_prefixes_are_one_range_and_families_stay_apart() {
        let joined = of(&["10.0.0.128/25", "10.0.0.0/25", "fd00::/64"]);
        assert_eq!(joined, of(&["10.0.0.0/24", "fd00::/64"]));

        let edge = of(&["255.255.255.255/32", "::/128"]);
        assert_eq!(edge.0.len(), 2);
    }

    #[test]
    fn the_highest_address_lies_in_the_prefix_and_outside_of_what_is_excepted() {
        let free = of(&["10.0.0.0/24", "10.0.2.0/24", "fd00::/126"]);
        let except = of(&["10.0.2.254/31", "10.0.2.253/32", "fd00::3/128"]);

        let highest = |within| free.highest(&net(within), &except);
        assert_eq!(highest("10.0.2.0/24"), Some(ip("10.0.2.252")));
        assert_eq!(highest("10.0.2.254/31"), None);
        assert_eq!(highest("10.0.1.0/24"), None);
        assert_eq!(highest("10.0.0.0/16"), Some(ip("10.0.2.252")));
        assert_eq!(highest("fd00::/64"), Some(ip("fd00::2")));
        assert_eq!(highest("fc00::/64"), None);
        assert_eq!(free.highest(&net("0.0.0.0/0"), &of(&["0.0.0.0/0"])), None);
    }

    #[test]
    fn the_lowest_address_lies_in_the_prefix_and_outside_of_what_is_excepted() {
        let mut free = of(&["10.0.0.0/24", "10.0.2.0/24"]);
        free.remove(ip("10.0.0.0"));
        let except = of(&["10.0.0.1/32", "10.0.0.2/31"]);

        let lowest = |within| free.lowest(&net(within), &except);
        assert_eq!(lowest("10.0.0.0/24"), Some(ip("10.0.0.4")));
        assert_eq!(lowest("10.0.0.0/30"), None);
        assert_eq!(lowest("10.0.1.0/24"), None);
        assert_eq!(lowest("10.0.0.0/16"), Some(ip("10.0.0.4")));
        assert_eq!(lowest("fd00::/64"), None);
    }

    #[test]
    fn the_ends_of_a_family_are_addresses_as_any_other() {
        let mut all = of(&["0.0.0.0/0", "::/0"]);
        for end in [
            "0.0.0.0",
            "255.255.255.255",
            "::",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            assert!(all.remove(ip(end)), "{end}");
            assert!(!all.contains(ip(end)), "{end}");
            all.insert(ip(end));
        }
        assert_eq!(all, of(&["0.0.0.0/0", "::/0"]));
        assert_eq!(all.lowest(&net("0.0.0.0/0"), &all), None);
    }

    #[test]
    fn a_prefix_of_any_length_is_one_range() {
        let mut ranges = of(&["fd00::/8"]);
        assert_eq!(
            ranges.lowest(&net("fd00::/8"), &Ranges::default()),
            Some(ip("fd00::"))
        );
        assert!(ranges.remove(ip("fd12::34")));
        assert_eq!(ranges.0.len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_set_of_ranges_is_the_set_of_its_addresses(
            steps in prop::collection::vec((any::<bool>(), 0u8..64, 26u8..=32), 0..60),
            within in (0u8..64, 26u8..=32),
        ) {
            let address = |bits: u8| IpAddr::from([10, 0, 0, bits]);
            let mut ranges = Ranges::default();
            let mut model = BTreeSet::new();
            for (insert, bits, length) in steps {
                if insert {
                    let net = IpNet::new(address(bits), length).unwrap();
                    ranges.insert_net(&net);
                    model.extend(net.hosts().chain([net.network(), net.broadcast()]));
                } else {
                    prop_assert_eq!(ranges.remove(address(bits)), model.remove(&address(bits)));
                }
            }
            for bits in 0..=255 {
                let known = model.contains(&address(bits));
                prop_assert_eq!(ranges.contains(address(bits)), known);
            }
            let within = IpNet::new(address(within.0), within.1).unwrap();
            let lowest = model.iter().find(|address| within.contains(*address)).copied();
            prop_assert_eq!(ranges.lowest(&within, &Ranges::default()), lowest);
            let highest = model.iter().rfind(|address| within.contains(*address)).copied();
            prop_assert_eq!(ranges.highest(&within, &Ranges::default()), highest);
            let mut rebuilt = Ranges::default();
            model.iter().for_each(|address| rebuilt.insert(*address));
            prop_assert_eq!(ranges, rebuilt);
        }
    }
}
