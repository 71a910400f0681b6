//! Random histories of an endpoint. `NSM_CASES=200000` plays more of them.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::*;

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
    for (connection, pairs) in claims.standing() {
        for address in pairs.iter().flat_map(|pair| [pair.src, pair.dst]) {
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

fn config() -> ProptestConfig {
    let cases = std::env::var("NSM_CASES").ok();
    let cases = cases.and_then(|cases| cases.parse().ok()).unwrap_or(512);
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config())]

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
        prop_assert!(claims.is_forgotten());
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
