//! Counts of datagrams, and what they mean. Nothing here looks at a socket.

use super::world::Place;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was sent, and what came out where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams that the kernel took, by policy and by whether it was served.
    pub sent: BTreeMap<(usize, bool), u64>,
    /// Datagrams that the kernel did not want to send, likewise.
    pub refused: BTreeMap<(usize, bool), u64>,
    /// Datagrams that came out, by policy, by the node's interface, and by whether the policy was
    /// served when they were sent.
    pub seen: BTreeMap<(usize, u32, bool), u64>,
}

/// What became of the datagrams.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Datagrams {
    /// Sent by a policy whose interface was there and whose request had been answered.
    #[serde(rename = "served_packets")]
    pub served: u64,
    /// Of these, seen at the link of the policy's connection.
    #[serde(rename = "own_link_packets")]
    pub own_link: u64,
    /// Of these, seen at any other link.
    #[serde(rename = "leaked_packets")]
    pub leaked: u64,
    /// Of these, seen nowhere, or refused by the kernel.
    #[serde(rename = "lost_packets")]
    pub lost: u64,
    /// Sent in the gap: while the interface was not there or the request not answered yet.
    #[serde(rename = "unserved_packets")]
    pub unserved: u64,
    /// Of these, refused by the kernel.
    #[serde(rename = "refused_packets")]
    pub refused: u64,
    /// Whatever was seen at eth0, served or not.
    #[serde(rename = "eth0_packets")]
    pub eth0: u64,
    /// Policies of which no served datagram was seen at the link of their connection.
    pub silent_policies: u64,
}

impl Datagrams {
    /// Judges each datagram by where it came out. `homes` holds each policy's connection, `places`
    /// what each interface of the node is the far end of.
    pub fn judge(tally: &Tally, homes: &[usize], places: &BTreeMap<u32, Place>) -> Self {
        let mut judged = Self::default();
        for (&(_, served), count) in &tally.sent {
            *if served {
                &mut judged.served
            } else {
                &mut judged.unserved
            } += count;
        }
        for (&(_, served), count) in &tally.refused {
            *if served {
                &mut judged.served
            } else {
                &mut judged.unserved
            } += count;
            judged.refused += if served { 0 } else { *count };
        }
        let mut heard = vec![false; homes.len()];
        for (&(policy, interface, served), count) in &tally.seen {
            let place = places.get(&interface).copied();
            if place == Some(Place::Eth0) {
                judged.eth0 += count;
            }
            match (served, place) {
                (true, Some(Place::Connection(at))) if at == homes[policy] => {
                    judged.own_link += count;
                    heard[policy] = true;
                }
                (true, _) => judged.leaked += count,
                (false, _) => {}
            }
        }
        judged.lost = judged
            .served
            .saturating_sub(judged.own_link + judged.leaked);
        judged.silent_policies = heard.iter().filter(|heard| !**heard).count() as u64;
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two policies of two connections; interfaces 1 and 2 were before the restart, 3 and 4 are
    /// after it, 9 is eth0's.
    fn judge(seen: &[(usize, u32, bool, u64)], sent: &[(usize, bool, u64)]) -> Datagrams {
        let tally = Tally {
            sent: sent
                .iter()
                .map(|(policy, served, n)| ((*policy, *served), *n))
                .collect(),
            seen: seen
                .iter()
                .map(|(policy, at, served, n)| ((*policy, *at, *served), *n))
                .collect(),
            refused: BTreeMap::new(),
        };
        let places = BTreeMap::from([
            (1, Place::Connection(0)),
            (2, Place::Connection(1)),
            (3, Place::Connection(1)),
            (4, Place::Connection(0)),
            (9, Place::Eth0),
        ]);
        Datagrams::judge(&tally, &[0, 1], &places)
    }

    #[test]
    fn what_comes_out_at_its_own_link_is_well_whichever_number_the_link_has() {
        let seen = [
            (0, 1, true, 5),
            (0, 4, true, 5),
            (1, 2, true, 7),
            (1, 3, true, 3),
        ];

        let judged = judge(&seen, &[(0, true, 10), (1, true, 10)]);

        assert_eq!((judged.own_link, judged.leaked, judged.lost), (20, 0, 0));
        assert_eq!(judged.silent_policies, 0);
    }

    #[test]
    fn a_served_datagram_leaks_at_another_link_at_eth0_and_at_an_unknown_one() {
        let seen = [(0, 2, true, 1), (0, 9, true, 2), (0, 77, true, 4)];

        let judged = judge(&seen, &[(0, true, 7), (1, true, 0)]);

        assert_eq!((judged.leaked, judged.eth0, judged.lost), (7, 2, 0));
        assert_eq!(judged.silent_policies, 2);
    }

    #[test]
    fn in_the_gap_a_datagram_is_unserved_wherever_it_comes_out() {
        let seen = [(0, 9, false, 3), (0, 2, false, 1), (0, 1, false, 1)];

        let judged = judge(&seen, &[(0, false, 6)]);

        assert_eq!(
            (judged.unserved, judged.leaked, judged.lost, judged.eth0),
            (6, 0, 0, 3)
        );
    }

    #[test]
    fn what_comes_out_nowhere_and_what_is_refused_is_lost_if_it_was_served() {
        let mut tally = Tally::default();
        tally.sent.insert((0, true), 5);
        tally.seen.insert((0, 1, true), 3);
        tally.refused.insert((0, true), 1);
        tally.refused.insert((0, false), 8);

        let judged = Datagrams::judge(&tally, &[0], &BTreeMap::from([(1, Place::Connection(0))]));

        assert_eq!((judged.served, judged.lost), (6, 3));
        assert_eq!((judged.unserved, judged.refused), (8, 8));
    }
}
