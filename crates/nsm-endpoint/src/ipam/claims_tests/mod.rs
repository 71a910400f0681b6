mod histories;

use super::*;
use crate::ipam::ranges::Ranges;
use pool::{Asked, Pair};
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

    // Taken by another: the highest. The other family is honoured all the same.
    let half = [pair("10.0.0.8", "10.0.0.9"), pair("fd00::a", "fd00::b")];
    assert_eq!(
        claims.kept("b", &bringing(&half)),
        [pair("10.0.0.254", "10.0.0.255"), half[1]]
    );

    // Of another endpoint.
    let foreign = [pair("10.9.0.8", "10.9.0.9"), pair("fd09::8", "fd09::9")];
    let lowest = [pair("10.0.0.0", "10.0.0.1"), pair("fd00::", "fd00::1")];
    assert_eq!(claims.kept("c", &bringing(&foreign)), lowest);

    // The client's own address is honoured without the endpoint's, too.
    let mut own = bringing(&[pair("10.0.0.8", "10.0.0.20")]);
    own.dst.clear();
    assert_eq!(claims.kept("d", &own)[0], pair("10.0.0.2", "10.0.0.20"));

    // What is excluded is not.
    let asked = Asked {
        excluded: excluding(&["10.0.0.30/32"]).excluded,
        ..bringing(&[pair("10.0.0.31", "10.0.0.30")])
    };
    assert_eq!(claims.kept("e", &asked)[0], pair("10.0.0.3", "10.0.0.4"));
}

#[test]
fn one_client_that_is_too_late_for_its_own_costs_no_other_its_pair() {
    let mut claims = claims("10.0.0.0/29");
    let pairs = [
        pair("10.0.0.0", "10.0.0.1"),
        pair("10.0.0.2", "10.0.0.3"),
        pair("10.0.0.4", "10.0.0.5"),
    ];
    // The endpoint has forgotten all three when a new one comes.
    assert_eq!(claims.kept("new", &Asked::default()), pairs[..1]);

    let moved = [pair("10.0.0.6", "10.0.0.7")];
    assert_eq!(claims.kept("a", &bringing(&pairs[..1])), moved);
    assert_eq!(claims.kept("b", &bringing(&pairs[1..2])), pairs[1..2]);
    assert_eq!(claims.kept("c", &bringing(&pairs[2..])), pairs[2..]);
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
fn a_refresh_that_fails_while_its_claim_is_taken_over_has_its_pair_again() {
    let had = pair("10.0.0.0", "10.0.0.1");
    for taker_fails_first in [true, false] {
        let mut claims = claims("10.0.0.0/24");
        let grant = claims
            .claim(id("by-1"), client_of("a"), &Asked::default())
            .unwrap();
        claims.keep(grant);
        let asked = excluding(&["10.0.0.0/31"]);
        let refresh = claims.claim(id("by-1"), client_of("a"), &asked).unwrap();
        assert_eq!(refresh.pairs, [pair("10.0.0.2", "10.0.0.3")]);

        let taker = claims
            .claim(id("by-2"), client_of("a"), &Asked::default())
            .unwrap();
        let grants = if taker_fails_first {
            [taker, refresh]
        } else {
            [refresh, taker]
        };
        grants.into_iter().for_each(|grant| claims.give_back(grant));

        let again = claims
            .claim(id("by-1"), client_of("a"), &Asked::default())
            .unwrap();
        assert_eq!(again.pairs, [had]);
        assert!(claims.unclaimed().contains(ip("10.0.0.2")));
    }
}

#[test]
fn two_clients_of_one_name_end_with_addresses_of_their_own() {
    let mut claims = claims("10.0.0.0/24");
    let mut ask = |by: &str, asked: &Asked| {
        let grant = claims.claim(id(by), client_of("same"), asked).unwrap();
        let pairs = grant.pairs.clone();
        claims.keep(grant);
        pairs
    };
    let first = ask("by-1", &Asked::default());
    // It looks as if the first had lost its way, until that one asks again.
    let second = ask("by-2", &Asked::default());
    assert_eq!(second, first);

    for _ in 0..3 {
        assert_eq!(ask("by-1", &bringing(&first)), first);
        assert_eq!(
            ask("by-2", &bringing(&first)),
            [pair("10.0.0.254", "10.0.0.255")]
        );
    }
}

#[test]
fn a_client_that_is_lost_again_and_again_keeps_its_addresses() {
    let mut claims = claims("10.0.0.0/24");
    for way in 0..5 {
        let by = id(&format!("by-{way}"));
        let grant = claims.claim(by, client_of("a"), &Asked::default()).unwrap();
        assert_eq!(grant.pairs, [pair("10.0.0.0", "10.0.0.1")]);
        claims.keep(grant);
        assert_eq!(claims.len(), 1);
    }

    claims.release(&id("by-4"));
    assert!(claims.is_forgotten());
}

#[test]
fn without_prefixes_nothing_is_assigned() {
    assert_eq!(claims("").kept("a", &Asked::default()), []);
}
