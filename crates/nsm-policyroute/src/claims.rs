//! Who wants what in one namespace: pure memory, under the namespace's lock.

use crate::actual::Place;
use crate::desired::{Conflict, Desired};
use crate::policy::Want;
use crate::{Band, priority::priority};
use nsm_api::ConnectionId;
use nsm_netlink::{Link, Selector, TableId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// What one connection wants.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The place among all claims of the namespace: the later one holds what two want.
    made: u64,
    /// The interface that the connection's traffic leaves by.
    pub interface: String,
    /// The policies, in list order.
    pub wants: Vec<Want>,
}

/// The claims of one namespace. They say what is wanted, never what is installed.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    next: u64,
    claims: BTreeMap<ConnectionId, Claim>,
    /// Where each claimed selector was seated last. A hint, held against the kernel at each use:
    /// it brings a rule that somebody deleted back to the table that still has its routes.
    tables: BTreeMap<Selector, TableId>,
}

impl Claims {
    /// Makes or changes a claim. A change keeps the claim's place, so that connections that live
    /// side by side never take turns.
    pub fn set(&mut self, connection: ConnectionId, interface: String, wants: Vec<Want>) {
        match self.claims.entry(connection) {
            Entry::Occupied(mut entry) => {
                let claim = entry.get_mut();
                claim.interface = interface;
                claim.wants = wants;
            }
            Entry::Vacant(entry) => {
                entry.insert(Claim {
                    made: self.next,
                    interface,
                    wants,
                });
                self.next += 1;
            }
        }
    }

    /// Ends a claim.
    pub fn end(&mut self, connection: &ConnectionId) -> Option<Claim> {
        self.claims.remove(connection)
    }

    /// The claim of a connection.
    pub fn get(&self, connection: &ConnectionId) -> Option<&Claim> {
        self.claims.get(connection)
    }

    /// Whether nobody wants anything.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// What each connection wants, in list order.
    pub fn wants(&self) -> impl Iterator<Item = (&ConnectionId, &[Want])> {
        let claims = self.claims.iter();
        claims.map(|(connection, claim)| (connection, claim.wants.as_slice()))
    }

    /// The selectors that somebody wants.
    pub fn selectors(&self) -> BTreeSet<&Selector> {
        let wants = self.claims.values().flat_map(|claim| &claim.wants);
        wants.map(|want| &want.selector).collect()
    }

    /// The tables of selectors that nobody wants any more.
    pub fn given_up(&self) -> impl Iterator<Item = Place> {
        let wanted = self.selectors();
        let given_up = self
            .tables
            .iter()
            .filter(move |(selector, _)| !wanted.contains(selector));
        given_up.map(place)
    }

    /// The tables where selectors were seated last.
    pub fn seats(&self) -> impl Iterator<Item = Place> {
        self.seated().map(|(_, place)| place)
    }

    /// The selectors with the tables where they were seated last.
    pub fn seated(&self) -> impl Iterator<Item = (&Selector, Place)> {
        let tables = self.tables.iter();
        tables.map(|(selector, table)| (selector, place((selector, table))))
    }

    /// The interfaces that traffic leaves by, by index, each with whether it is up.
    pub fn devs(&self, links: &[Link]) -> BTreeMap<u32, bool> {
        let names: BTreeSet<&str> = self.interfaces().collect();
        let ours = links
            .iter()
            .filter(|link| names.contains(link.name.as_str()));
        ours.map(|link| (link.index, link.up)).collect()
    }

    /// The interfaces that traffic leaves by.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        self.claims.values().map(|claim| claim.interface.as_str())
    }

    /// Remembers where the selectors are seated, and forgets those that nobody claims. One that
    /// could not be seated still has the table that it had, unless another has it now.
    pub fn remember(&mut self, mut seated: BTreeMap<Selector, TableId>) {
        let wanted = self.selectors();
        let taken: BTreeSet<Place> = seated.iter().map(place).collect();
        let former = self.tables.iter().filter(|(selector, table)| {
            wanted.contains(selector)
                && !seated.contains_key(selector)
                && !taken.contains(&place((selector, table)))
        });
        let former: Vec<_> = former.map(|(s, table)| (s.clone(), *table)).collect();
        seated.extend(former);
        self.tables = seated;
    }

    /// What all claims want together: for each selector one rule, its table with the union of what
    /// its claimants want. In the order in which the claims were made and, within a claim, of its
    /// list. `own` is the connection whose request is at hand.
    pub fn desired(
        &self,
        own: Option<&ConnectionId>,
        links: &[Link],
        band: Band,
    ) -> (Vec<Desired>, Vec<Conflict>) {
        let mut desired: Vec<Desired> = Vec::new();
        let mut conflicts = Vec::new();
        let mut at: BTreeMap<&Selector, usize> = BTreeMap::new();
        let mut holders: BTreeMap<(usize, ipnet::IpNet), &ConnectionId> = BTreeMap::new();
        let mut by_age: Vec<_> = self.claims.iter().collect();
        by_age.sort_by_key(|(_, claim)| claim.made);

        for (connection, claim) in by_age {
            // A link that is down takes no route either: the next older claimant serves.
            let link = links
                .iter()
                .find(|link| link.name == claim.interface && link.up);
            for want in &claim.wants {
                let i = *at.entry(&want.selector).or_insert_with(|| {
                    let seat = self.tables.get(&want.selector).copied();
                    let priority = priority(band, &want.selector);
                    desired.push(Desired::new(want.selector.clone(), priority, seat));
                    desired.len() - 1
                });
                let wanted = &mut desired[i];
                if own == Some(connection) {
                    wanted.own = Some(want.index);
                }
                wanted.prefixes.extend(want.routes.keys());
                let Some(link) = link else {
                    wanted.waits_for.insert(claim.interface.clone());
                    continue;
                };
                wanted.devs.insert(link.index);
                for (prefix, via) in &want.routes {
                    let former = wanted.content.insert(*prefix, (link.index, *via));
                    let holder = holders.insert((i, *prefix), connection);
                    if let (Some(former), Some(other)) = (former, holder)
                        && former != (link.index, *via)
                    {
                        conflicts.push(Conflict {
                            selector: want.selector.clone(),
                            prefix: *prefix,
                            holder: connection.clone(),
                            other: other.clone(),
                        });
                    }
                }
            }
        }
        (desired, conflicts)
    }
}

fn place((selector, table): (&Selector, &TableId)) -> Place {
    (selector.family, table.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_netlink::Family;
    use std::net::IpAddr;

    fn id(name: &str) -> ConnectionId {
        name.try_into().unwrap()
    }

    fn want(from: &str, via: &str) -> Want {
        let via: IpAddr = via.parse().unwrap();
        Want {
            selector: Selector {
                from: Some(from.parse().unwrap()),
                ..Selector::any(Family::V4)
            },
            routes: [("0.0.0.0/0".parse().unwrap(), Some(via))].into(),
            index: 0,
        }
    }

    fn link(name: &str, index: u32, up: bool) -> Link {
        Link {
            index,
            name: name.to_owned(),
            up,
        }
    }

    fn holder(claims: &Claims, links: &[Link]) -> Option<u32> {
        let (desired, _) = claims.desired(None, links, Band::DEFAULT);
        assert_eq!(desired.len(), 1);
        desired[0].content.values().next().map(|(dev, _)| *dev)
    }

    fn two_on_one_selector() -> (Claims, [Link; 2]) {
        let mut claims = Claims::default();
        claims.set(
            id("a"),
            "nsm-0".to_owned(),
            vec![want("10.1.0.1/32", "172.16.1.1")],
        );
        claims.set(
            id("b"),
            "nsm-1".to_owned(),
            vec![want("10.1.0.1/32", "172.16.2.1")],
        );
        (claims, [link("nsm-0", 2, true), link("nsm-1", 3, true)])
    }

    #[test]
    fn the_claim_made_last_holds_a_prefix_that_two_want_and_the_conflict_is_told() {
        let (claims, links) = two_on_one_selector();

        assert_eq!(holder(&claims, &links), Some(3));
        let (_, conflicts) = claims.desired(None, &links, Band::DEFAULT);
        assert_eq!(conflicts.len(), 1);
        assert_eq!(
            (&conflicts[0].holder, &conflicts[0].other),
            (&id("b"), &id("a"))
        );
    }

    #[test]
    fn a_refresh_keeps_its_place_and_a_claim_after_a_close_is_made_anew() {
        let (mut claims, links) = two_on_one_selector();

        claims.set(
            id("a"),
            "nsm-0".to_owned(),
            vec![want("10.1.0.1/32", "172.16.1.9")],
        );
        assert_eq!(holder(&claims, &links), Some(3));

        claims.end(&id("a"));
        claims.set(
            id("a"),
            "nsm-0".to_owned(),
            vec![want("10.1.0.1/32", "172.16.1.9")],
        );
        assert_eq!(holder(&claims, &links), Some(2));
    }

    #[test]
    fn when_the_holder_goes_the_next_older_claimant_with_an_interface_gets_the_prefix() {
        let (mut claims, links) = two_on_one_selector();

        assert_eq!(holder(&claims, &links[..1]), Some(2));
        let down = [links[0].clone(), link("nsm-1", 3, false)];
        assert_eq!(holder(&claims, &down), Some(2));
        assert_eq!(holder(&claims, &[]), None);

        claims.end(&id("b"));
        assert_eq!(holder(&claims, &links), Some(2));
        claims.end(&id("a"));
        assert!(claims.is_empty());
    }

    #[test]
    fn claimants_that_want_the_same_share_a_rule_without_a_conflict() {
        let mut claims = Claims::default();
        for name in ["ghost", "live"] {
            claims.set(
                id(name),
                "nsm-0".to_owned(),
                vec![want("10.1.0.1/32", "172.16.1.1")],
            );
        }

        let (desired, conflicts) = claims.desired(None, &[link("nsm-0", 2, true)], Band::DEFAULT);

        assert_eq!((desired.len(), conflicts.len()), (1, 0));
    }

    #[test]
    fn claims_are_empty_until_somebody_wants_something_and_after_the_last_has_gone() {
        let mut claims = Claims::default();
        assert!(claims.is_empty());

        claims.set(id("a"), "nsm-0".to_owned(), Vec::new());
        assert!(!claims.is_empty());

        claims.end(&id("a"));
        assert!(claims.is_empty());
    }

    #[test]
    fn the_tables_of_selectors_that_nobody_wants_any_more_are_given_up_and_no_others() {
        let (mut claims, _) = two_on_one_selector();
        let [kept, left] = ["10.1.0.1/32", "10.1.0.2/32"].map(|from| want(from, "172.16.1.1"));
        claims.set(id("c"), "nsm-0".to_owned(), vec![left.clone()]);
        let [first, second] = [20000, 20001].map(|table| TableId::new(table).unwrap());
        claims.remember([(kept.selector, first), (left.selector, second)].into());
        assert_eq!(claims.given_up().count(), 0);

        claims.end(&id("c"));
        assert!(claims.given_up().eq([(Family::V4, 20001)]));

        claims.end(&id("a"));
        assert_eq!(claims.given_up().count(), 1, "another claims it still");
    }

    #[test]
    fn what_the_connection_at_hand_wants_is_known_as_its_own_and_nothing_else() {
        let (mut claims, links) = two_on_one_selector();
        claims.set(
            id("b"),
            "nsm-1".to_owned(),
            vec![Want {
                index: 7,
                ..want("10.1.0.2/32", "172.16.2.1")
            }],
        );

        let (desired, _) = claims.desired(Some(&id("b")), &links, Band::DEFAULT);

        let own: Vec<_> = desired.iter().map(|desired| desired.own).collect();
        assert_eq!(own, [None, Some(7)]);
    }
}
