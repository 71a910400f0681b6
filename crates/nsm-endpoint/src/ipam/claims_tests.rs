use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::ipam::ranges::Ranges;
use claims::{Asked, Pair};
use std::net::IpAddr;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn pair(dst: &str, src: &str) -> Pair {
    Pair {
        dst: ip(dst),
        src: ip(src),
    }
}

fn id(text: &str) -> ConnectionId {
    text.try_into().unwrap()
}

fn client_of(name: &str) -> Option<Client> {
    Some(Client {
        name: "nsc".to_owned(),
        id: name.to_owned(),
    })
}

fn claims(groups: &str) -> Claims {
    Claims::new(&groups.parse().unwrap())
}

fn excluding(prefixes: &[&str]) -> Asked {
    let mut excluded = Ranges::default();
    prefixes
        .iter()
        .for_each(|text| excluded.insert_net(&text.parse().unwrap()));
    Asked {
        excluded,
        ..Asked::default()
    }
}

fn bringing(pairs: &[Pair]) -> Asked {
    Asked {
        src: pairs.iter().map(|pair| pair.src).collect(),
        dst: pairs.iter().map(|pair| pair.dst).collect(),
        ..Asked::default()
    }
}

trait Kept {
    /// Claims and keeps.
    fn kept(&mut self, connection: &str, asked: &Asked) -> Vec<Pair>;
}

impl Kept for Claims {
    fn kept(&mut self, connection: &str, asked: &Asked) -> Vec<Pair> {
        let grant = self.claim(id(connection), None, asked).unwrap();
        let pairs = grant.pairs.clone();
        self.keep(grant);
        pairs
    }
}

#[test]
fn the_endpoint_gets_the_lowest_free_address_and_the_client_the_next() {
    let mut claims = claims("192.168.3.4/16,fe80::/64");

    let asked = Asked::default();
    let first = [
        pair("192.168.0.0", "192.168.0.1"),
        pair("fe80::", "fe80::1"),
    ];
    assert_eq!(claims.kept("a", &asked), first);
    let second = [
        pair("192.168.0.2", "192.168.0.3"),
        pair("fe80::2", "fe80::3"),
    ];
    assert_eq!(claims.kept("b", &asked), second);

    claims.release(&id("a"));
    assert_eq!(claims.kept("c", &asked), first);
    assert_eq!(
        claims.kept("d", &asked)[0],
        pair("192.168.0.4", "192.168.0.5")
    );
    assert_eq!(claims.kept("b", &asked), second);
}

#[test]
fn the_prefixes_of_a_group_are_alternatives() {
    let mut claims = claims("[10.0.0.0/31,10.1.0.0/31]");

    let asked = Asked::default();
    assert_eq!(claims.kept("a", &asked), [pair("10.0.0.0", "10.0.0.1")]);
    assert_eq!(claims.kept("b", &asked), [pair("10.1.0.0", "10.1.0.1")]);

    let full = claims.claim(id("c"), None, &asked).unwrap_err();
    assert_eq!(
        full.to_string(),
        "no two free addresses in 10.0.0.0/31 and 10.1.0.0/31"
    );
    claims.release(&id("a"));
    assert_eq!(claims.kept("c", &asked), [pair("10.0.0.0", "10.0.0.1")]);
}

#[test]
fn a_group_that_is_used_up_takes_nothing_from_the_others() {
    let mut claims = claims("10.0.0.0/24,10.1.0.0/31");
    claims.kept("a", &Asked::default());

    claims.claim(id("b"), None, &Asked::default()).unwrap_err();

    assert_eq!(claims.len(), 1);
    assert!(claims.unclaimed().contains(ip("10.0.0.2")));
}

#[test]
fn groups_that_overlap_give_an_address_once() {
    let mut claims = claims("10.0.0.0/30,10.0.0.0/24");

    let pairs = claims.kept("a", &Asked::default());
    assert_eq!(
        pairs,
        [pair("10.0.0.0", "10.0.0.1"), pair("10.0.0.2", "10.0.0.3")]
    );

    let full = claims.claim(id("b"), None, &Asked::default()).unwrap_err();
    assert_eq!(full.to_string(), "no two free addresses in 10.0.0.0/30");
}

#[test]
fn excluded_addresses_are_not_assigned() {
    let mut claims = claims("192.168.1.0/24");
    let asked = excluding(&["192.168.1.1/32", "192.168.1.3/32", "192.168.1.6/32"]);

    assert_eq!(
        claims.kept("a", &asked),
        [pair("192.168.1.0", "192.168.1.2")]
    );
    assert_eq!(
        claims.kept("b", &asked),
        [pair("192.168.1.4", "192.168.1.5")]
    );
    assert_eq!(
        claims.kept("c", &asked),
        [pair("192.168.1.7", "192.168.1.8")]
    );

    let full = claims
        .claim(id("d"), None, &excluding(&["192.168.0.0/16"]))
        .unwrap_err();
    assert_eq!(
        full.to_string(),
        "no two free addresses in 192.168.1.0/24 outside of the prefixes that the request excludes"
    );
}

#[test]
fn a_pair_that_is_excluded_later_is_replaced_and_free_again() {
    let mut claims = claims("192.168.0.0/16");
    let had = claims.kept("a", &excluding(&["192.168.0.1/32"]));
    assert_eq!(had, [pair("192.168.0.0", "192.168.0.2")]);

    let now = claims.kept("a", &excluding(&["192.168.0.0/30"]));

    assert_eq!(now, [pair("192.168.0.4", "192.168.0.5")]);
    assert_eq!(
        claims.kept("b", &Asked::default()),
        [pair("192.168.0.0", "192.168.0.1")]
    );
}

#[test]
fn a_request_that_fails_keeps_the_pair_that_it_would_have_replaced() {
    let mut claims = claims("10.0.0.0/24");
    let had = claims.kept("a", &Asked::default());

    let grant = claims
        .claim(id("a"), None, &excluding(&["10.0.0.0/31"]))
        .unwrap();
    let other = claims.kept("b", &Asked::default());
    assert_eq!(
        other,
        [pair("10.0.0.4", "10.0.0.5")],
        "both pairs are held meanwhile"
    );
    claims.give_back(grant);

    assert_eq!(claims.kept("a", &Asked::default()), had);
    assert!(claims.unclaimed().contains(ip("10.0.0.2")));
}

#[test]
fn a_first_request_that_fails_leaves_nothing() {
    let mut claims = claims("10.0.0.0/31");

    for _ in 0..3 {
        let grant = claims
            .claim(id("a"), client_of("a"), &Asked::default())
            .unwrap();
        claims.give_back(grant);
        assert_eq!(claims.len(), 0);
    }

    assert_eq!(
        claims.kept("b", &Asked::default()),
        [pair("10.0.0.0", "10.0.0.1")]
    );
}

#[test]
fn what_a_client_brings_is_honoured_where_it_is_free_and_ours() {
    let mut claims = claims("10.0.0.0/24,fd00::/64");
    let brought = [pair("10.0.0.8", "10.0.0.9"), pair("fd00::8", "fd00::9")];
    assert_eq!(claims.kept("a", &bringing(&brought)), brought);

    // Taken by another: the lowest. The other family is honoured all the same.
    let half = [pair("10.0.0.8", "10.0.0.9"), pair("fd00::a", "fd00::b")];
    assert_eq!(
        claims.kept("b", &bringing(&half)),
        [pair("10.0.0.0", "10.0.0.1"), half[1]]
    );

    // Of another endpoint.
    let foreign = [pair("10.9.0.8", "10.9.0.9"), pair("fd09::8", "fd09::9")];
    let lowest = [pair("10.0.0.2", "10.0.0.3"), pair("fd00::", "fd00::1")];
    assert_eq!(claims.kept("c", &bringing(&foreign)), lowest);

    // The client's own address is honoured without the endpoint's, too.
    let mut own = bringing(&[pair("10.0.0.8", "10.0.0.20")]);
    own.dst.clear();
    assert_eq!(claims.kept("d", &own)[0], pair("10.0.0.4", "10.0.0.20"));

    // What is excluded is not.
    let asked = Asked {
        excluded: excluding(&["10.0.0.30/32"]).excluded,
        ..bringing(&[pair("10.0.0.31", "10.0.0.30")])
    };
    assert_eq!(claims.kept("e", &asked)[0], pair("10.0.0.5", "10.0.0.6"));
}

#[test]
fn one_address_brought_for_both_ends_is_one_end() {
    let mut claims = claims("10.0.0.0/24");

    let pairs = claims.kept("a", &bringing(&[pair("10.0.0.7", "10.0.0.7")]));

    assert_eq!(pairs, [pair("10.0.0.0", "10.0.0.7")]);
}

#[test]
fn a_claim_stays_whatever_the_refresh_brings() {
    let mut claims = claims("10.0.0.0/24");
    let had = claims.kept("a", &Asked::default());

    let now = claims.kept("a", &bringing(&[pair("10.0.0.8", "10.0.0.9")]));

    assert_eq!(now, had);
}

#[test]
fn a_client_that_comes_by_another_id_takes_its_claim_along() {
    let mut claims = claims("10.0.0.0/24");
    let grant = claims
        .claim(id("by-1"), client_of("a"), &Asked::default())
        .unwrap();
    claims.keep(grant);

    let grant = claims
        .claim(id("by-2"), client_of("a"), &Asked::default())
        .unwrap();
    assert_eq!(grant.pairs, [pair("10.0.0.0", "10.0.0.1")]);
    claims.keep(grant);
    assert_eq!(claims.len(), 1);

    // The time of the connection that nobody refreshes is over.
    claims.release(&id("by-1"));
    assert_eq!(claims.len(), 1);
    let other = claims
        .claim(id("other"), client_of("b"), &Asked::default())
        .unwrap();
    assert_eq!(other.pairs, [pair("10.0.0.2", "10.0.0.3")]);
}

#[test]
fn a_claim_that_was_taken_along_goes_back_when_the_request_fails() {
    let mut claims = claims("10.0.0.0/31");
    let grant = claims
        .claim(id("by-1"), client_of("a"), &Asked::default())
        .unwrap();
    claims.keep(grant);

    let grant = claims
        .claim(id("by-2"), client_of("a"), &Asked::default())
        .unwrap();
    claims.give_back(grant);
    claims.release(&id("by-2"));

    let grant = claims
        .claim(id("by-1"), client_of("a"), &Asked::default())
        .unwrap();
    assert_eq!(grant.pairs, [pair("10.0.0.0", "10.0.0.1")]);
}

#[test]
fn a_claim_does_not_go_back_to_a_connection_that_was_closed_meanwhile() {
    let mut claims = claims("10.0.0.0/31");
    let grant = claims
        .claim(id("by-1"), client_of("a"), &Asked::default())
        .unwrap();
    claims.keep(grant);

    let grant = claims
        .claim(id("by-2"), client_of("a"), &Asked::default())
        .unwrap();
    claims.release(&id("by-1"));
    claims.give_back(grant);

    assert_eq!(claims.len(), 0);
    assert_eq!(
        claims.kept("b", &Asked::default()),
        [pair("10.0.0.0", "10.0.0.1")]
    );
}

#[test]
fn two_attempts_of_one_client_at_once_that_both_fail_leave_nothing() {
    for first_fails_first in [true, false] {
        let mut claims = claims("10.0.0.0/31");
        let first = claims
            .claim(id("by-1"), client_of("a"), &Asked::default())
            .unwrap();
        let second = claims
            .claim(id("by-2"), client_of("a"), &Asked::default())
            .unwrap();
        assert_eq!(first.pairs, second.pairs);

        let grants = if first_fails_first {
            [first, second]
        } else {
            [second, first]
        };
        grants.into_iter().for_each(|grant| claims.give_back(grant));

        assert_eq!(claims.len(), 0);
        assert_eq!(
            claims.kept("b", &Asked::default()),
            [pair("10.0.0.0", "10.0.0.1")]
        );
    }
}

#[test]
fn without_prefixes_nothing_is_assigned() {
    assert_eq!(claims("").kept("a", &Asked::default()), []);
}

/// What happens to an endpoint.
#[derive(Clone, Debug)]
enum Event {
    /// A client asks, by one of its ids; the request ends as told.
    Ask {
        client: usize,
        way: usize,
        end: End,
        excluded: Option<u8>,
    },
    /// A request that hangs comes to its end.
    Finish {
        succeeds: bool,
    },
    Close {
        client: usize,
        way: usize,
    },
    /// The endpoint forgets everything; the clients stay.
    Restart,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Succeeds,
    /// It succeeds, and the client never hears of it.
    AnswerLost,
    Fails,
    Hangs,
}

fn event() -> impl Strategy<Value = Event> {
    let end = prop_oneof![
        5 => Just(End::Succeeds),
        1 => Just(End::AnswerLost),
        1 => Just(End::Fails),
        1 => Just(End::Hangs),
    ];
    let way = prop_oneof![4 => Just(0usize), 1 => Just(1usize)];
    let excluded = prop_oneof![5 => Just(None), 1 => (0u8..16).prop_map(Some)];
    prop_oneof![
        8 => (0usize..6, way.clone(), end, excluded)
            .prop_map(|(client, way, end, excluded)| Event::Ask { client, way, end, excluded }),
        2 => any::<bool>().prop_map(|succeeds| Event::Finish { succeeds }),
        2 => (0usize..6, way).prop_map(|(client, way)| Event::Close { client, way }),
        1 => Just(Event::Restart),
    ]
}

fn by(client: usize, way: usize) -> ConnectionId {
    id(&format!("client-{client}-by-{way}"))
}

const GROUPS: &str = "[10.0.0.0/29,10.0.0.8/30],10.0.0.0/27";

/// No address twice, none lost, none invented.
fn check(claims: &Claims) -> Result<(), TestCaseError> {
    let mut owners: HashMap<IpAddr, &ConnectionId> = HashMap::new();
    let mut whole = claims.unclaimed().clone();
    for (connection, pairs, former) in claims.standing() {
        for address in pairs
            .iter()
            .chain(former)
            .flat_map(|pair| [pair.src, pair.dst])
        {
            let other = owners.insert(address, connection);
            prop_assert_eq!(other, None, "{} is in two pairs", address);
            prop_assert!(
                !claims.unclaimed().contains(address),
                "{} is free, too",
                address
            );
            whole.insert(address);
        }
    }
    let mut all = Ranges::default();
    all.insert_net(&"10.0.0.0/27".parse().unwrap());
    prop_assert_eq!(whole, all, "an address is lost");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_two_connections_share_an_address_and_none_is_lost(
        events in prop::collection::vec(event(), 0..80),
    ) {
        let mut claims = claims(GROUPS);
        // What each client was told last, and so brings.
        let mut told: BTreeMap<usize, Vec<Pair>> = BTreeMap::new();
        let mut hanging: Vec<(usize, Grant)> = Vec::new();
        let mut open: HashSet<ConnectionId> = HashSet::new();
        for event in events {
            match event {
                Event::Ask { client, way, end, excluded } => {
                    let connection = by(client, way);
                    // `begin` lets one request at a time at a connection.
                    if hanging.iter().any(|(_, grant)| grant.connection() == &connection) {
                        continue;
                    }
                    let mut asked = bringing(told.get(&client).map_or(&[], Vec::as_slice));
                    if let Some(low) = excluded {
                        asked.excluded.insert(IpAddr::from([10, 0, 0, low]));
                    }
                    let stands = open.contains(&connection);
                    let name = format!("client-{client}");
                    let Ok(grant) = claims.claim(connection.clone(), client_of(&name), &asked)
                    else {
                        check(&claims)?;
                        continue;
                    };
                    for address in grant.pairs.iter().flat_map(|pair| [pair.src, pair.dst]) {
                        prop_assert!(!asked.excluded.contains(address));
                    }
                    match end {
                        End::Succeeds => {
                            told.insert(client, grant.pairs.clone());
                            claims.keep(grant);
                            open.insert(connection);
                        }
                        End::AnswerLost => {
                            claims.keep(grant);
                            open.insert(connection);
                        }
                        End::Fails => {
                            claims.give_back(grant);
                            // `begin` closes what a first request leaves.
                            if !stands {
                                claims.release(&connection);
                            }
                        }
                        End::Hangs => hanging.push((client, grant)),
                    }
                }
                Event::Finish { succeeds } => {
                    let Some((client, grant)) = hanging.pop() else { continue };
                    let connection = grant.connection().clone();
                    if succeeds {
                        told.insert(client, grant.pairs.clone());
                        claims.keep(grant);
                        open.insert(connection);
                    } else {
                        claims.give_back(grant);
                        if !open.contains(&connection) {
                            claims.release(&connection);
                        }
                    }
                }
                Event::Close { client, way } => {
                    let connection = by(client, way);
                    if !hanging.iter().any(|(_, grant)| grant.connection() == &connection) {
                        claims.release(&connection);
                        open.remove(&connection);
                    }
                }
                Event::Restart => {
                    claims = self::claims(GROUPS);
                    hanging.clear();
                    open.clear();
                }
            }
            check(&claims)?;
        }
        for (_, grant) in hanging.drain(..).rev() {
            claims.give_back(grant);
        }
        for client in 0..6 {
            for way in 0..2 {
                claims.release(&by(client, way));
            }
        }
        prop_assert_eq!(claims.len(), 0);
        check(&claims)?;
    }

    #[test]
    fn after_a_restart_each_client_keeps_its_addresses_in_any_order_of_return(
        closed in prop::collection::vec(0usize..12, 0..6),
        order in Just((0usize..12).collect::<Vec<_>>()).prop_shuffle(),
        lost in prop::collection::vec(any::<bool>(), 12),
    ) {
        let mut before = claims("10.0.0.0/27,[fd00::/127,fd00:1::/64]");
        let told: Vec<Vec<Pair>> =
            (0..12).map(|client| before.kept(by(client, 0).as_str(), &Asked::default())).collect();
        for client in &closed {
            before.release(&by(*client, 0));
        }
        let mut after = claims("10.0.0.0/27,[fd00::/127,fd00:1::/64]");

        let returning: Vec<usize> =
            order.into_iter().filter(|client| !closed.contains(client)).collect();
        for client in &returning {
            // A return that fails is tried again.
            if lost[*client] {
                let asked = bringing(&told[*client]);
                let grant = after.claim(by(*client, 0), None, &asked).unwrap();
                after.give_back(grant);
            }
            let pairs = after.kept(by(*client, 0).as_str(), &bringing(&told[*client]));
            prop_assert_eq!(&pairs, &told[*client]);
        }
        // Refreshes keep them, new clients get none of them.
        let new = after.kept("new", &Asked::default());
        for client in &returning {
            prop_assert!(told[*client].iter().all(|pair| !new.contains(pair)));
            let again = after.kept(by(*client, 0).as_str(), &Asked::default());
            prop_assert_eq!(&again, &told[*client]);
        }
    }
}
