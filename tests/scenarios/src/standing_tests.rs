//! An element that does right never breaks a standing assertion, so that no file can show that the
//! runner would see it: here are pods as an element must not leave them.

use super::*;
use crate::print;
use crate::wanted::wanted;
use ipnet::IpNet;
use nsm_netlink::{Attributes, Link, Part};
use nsm_policyroute::Config;
use std::net::IpAddr;

const NSM_0: u32 = 2;
const ETH_0: u32 = 3;
const GATEWAY: &str = "172.16.1.254";
const STATIC: u8 = 4;

/// A pod with a connection c1 of one policy, `from 10.1.0.1` by the gateway, in order.
struct Case {
    before: Picture,
    after: Picture,
    claims: Vec<Claim>,
    left_over: BTreeSet<Rule>,
    concurrent: bool,
}

impl Case {
    fn new() -> Self {
        let foreign_rule = Rule::lookup(200, from("10.8.0.1"), 100, STATIC);
        let foreign_route = Route::unicast(100, default(), ETH_0, None, STATIC);
        let links = [(NSM_0, "nsm-0"), (ETH_0, "eth0")]
            .map(|(index, name)| Link {
                index,
                name: name.to_owned(),
                up: true,
            })
            .into();
        let before = Picture {
            rules: vec![foreign_rule],
            routes: vec![foreign_route],
            links,
        };
        let mut after = before.clone();
        after.rules.push(rule("10.1.0.1", 30000, 20000));
        after.routes.push(route(20000));
        let claims = vec![claim("c1", "10.1.0.1")];
        Self {
            before,
            after,
            claims,
            left_over: BTreeSet::new(),
            concurrent: false,
        }
    }

    /// The same pod when the call before has left it so.
    fn settled() -> Self {
        let case = Self::new();
        Self {
            before: case.after.clone(),
            ..case
        }
    }

    fn problems(&self) -> Vec<String> {
        let config = Config::new(nsm_netlink::Owner {
            protocol: 78.try_into().unwrap(),
            tables: "20000-24999".parse().unwrap(),
        });
        let mut ever_asked: BTreeMap<Selector, Routes> = BTreeMap::new();
        let mut asked = crate::picture::Asked::new();
        for claim in &self.claims {
            for (selector, routes) in &claim.wants {
                ever_asked
                    .entry(selector.clone())
                    .or_default()
                    .extend(routes);
                asked.extend(
                    routes
                        .iter()
                        .map(|(to, via)| (*to, *via, claim.interface.clone())),
                );
            }
        }
        let ours = Ours {
            owners: vec![config.owner],
            asked,
        };
        let standing = Standing {
            before: &self.before,
            after: &self.after,
            config: &config,
            ours: &ours,
            own_of_all: &ours,
            claims: &self.claims,
            ever_asked: &ever_asked,
            left_over: &self.left_over,
            concurrent: self.concurrent,
        };
        standing
            .check()
            .into_iter()
            .map(|problem| problem.what)
            .collect()
    }
}

fn default() -> IpNet {
    "0.0.0.0/0".parse().unwrap()
}

fn from(host: &str) -> Selector {
    let host: IpAddr = host.parse().unwrap();
    Selector {
        from: Some(IpNet::from(host)),
        ..Selector::any(nsm_netlink::Family::of(&host))
    }
}

fn rule(host: &str, priority: u32, table: u32) -> Rule {
    Rule::lookup(priority, from(host), table, 78)
}

fn route(table: u32) -> Route {
    Route::unicast(table, default(), NSM_0, GATEWAY.parse().ok(), 78)
}

fn claim(connection: &str, host: &str) -> Claim {
    let policy =
        format!("{{ from: {host}, routes: [ {{ prefix: 0.0.0.0/0, nexthop: {GATEWAY} }} ] }}");
    let policies = [serde_saphyr::from_str(&policy).unwrap()];
    Claim {
        connection: connection.to_owned(),
        interface: "nsm-0".to_owned(),
        wants: wanted(&policies, &[]).unwrap(),
        counts: true,
    }
}

#[test]
fn a_pod_in_order_has_no_problems() {
    assert!(Case::new().problems().is_empty());
    assert!(Case::settled().problems().is_empty());
}

#[test]
fn s1_sees_a_foreign_rule_that_is_gone() {
    let mut case = Case::new();
    case.after.rules.remove(0);
    assert_eq!(case.problems(), ["S1: IPv4 rules that are not ours"]);
}

#[test]
fn s1_sees_a_foreign_rule_that_changed_its_priority() {
    let mut case = Case::new();
    case.after.rules[0].priority = 201;
    assert_eq!(case.problems(), ["S1: IPv4 rules that are not ours"]);
}

#[test]
fn s1_sees_foreign_rules_of_one_priority_change_places() {
    let mut case = Case::new();
    let second = Rule {
        table: 101,
        ..case.before.rules[0].clone()
    };
    case.before.rules.insert(1, second.clone());
    case.after.rules.insert(0, second);
    assert_eq!(case.problems(), ["S1: IPv4 rules that are not ours"]);
}

#[test]
fn s1_sees_a_foreign_rule_that_lost_an_attribute_nobody_interprets() {
    let mut case = Case::new();
    case.before.rules[0].rest.insert(200, &[1]);
    assert_eq!(case.problems(), ["S1: IPv4 rules that are not ours"]);
    case.after.rules[0].rest.insert(200, &[2]);
    assert_eq!(case.problems(), ["S1: IPv4 rules that are not ours"]);
}

#[test]
fn s1_sees_a_foreign_route_that_is_gone_or_changed() {
    let mut case = Case::new();
    case.after.routes[0].metric = 7;
    assert_eq!(case.problems(), ["S1: IPv4 routes that are not ours"]);
    case.after.routes.remove(0);
    assert_eq!(case.problems(), ["S1: IPv4 routes that are not ours"]);
}

#[test]
fn s1_sees_what_comes_without_our_mark() {
    let mut case = Case::new();
    case.after.routes.push(Route {
        protocol: STATIC,
        ..route(20000)
    });
    assert_eq!(case.problems(), ["S1: IPv4 routes that are not ours"]);
}

#[test]
fn s1_does_not_mind_that_a_foreign_ipv6_leg_is_shown_under_our_protocol() {
    let mut case = Case::settled();
    let leg = |via: &str, part, protocol| Route {
        part,
        ..Route::unicast(
            20005,
            "::/0".parse().unwrap(),
            NSM_0,
            via.parse().ok(),
            protocol,
        )
    };
    case.before.routes.push(leg("fe80::9", Part::Whole, STATIC));
    let policy = "{ from: '2001:db8::1', routes: [ { prefix: '::/0', nexthop: 'fe80::1' } ] }";
    let wants = wanted(&[serde_saphyr::from_str(policy).unwrap()], &[]).unwrap();
    case.claims.push(Claim {
        wants,
        ..claim("c2", "10.2.0.1")
    });
    case.after.rules.push(rule("2001:db8::1", 30000, 20005));
    case.before.rules.push(rule("2001:db8::1", 30000, 20005));
    case.after.routes.push(leg("fe80::1", Part::First, 78));
    case.after.routes.push(leg("fe80::9", Part::Further, 78));
    assert!(case.problems().is_empty(), "{:?}", case.problems());

    case.after.routes.pop();
    assert_eq!(case.problems(), ["S1: IPv6 routes that are not ours"]);
}

#[test]
fn s2_sees_a_rule_that_is_missing() {
    let mut case = Case::new();
    case.after.rules.pop();
    assert_eq!(
        case.problems(),
        ["S2: connection c1 has no rule [from 10.1.0.1] (IPv4)"]
    );
}

#[test]
fn s2_sees_a_rule_that_stands_twice() {
    let mut case = Case::settled();
    case.after.rules.push(rule("10.1.0.1", 30000, 20001));
    case.after.routes.push(route(20001));
    assert_eq!(
        case.problems(),
        ["S2: connection c1 has 2 rules [from 10.1.0.1] (IPv4)"]
    );
}

#[test]
fn s2_sees_a_rule_that_nobody_wants() {
    let mut case = Case::new();
    case.claims.clear();
    assert_eq!(
        case.problems(),
        ["S2: rules of ours that no open connection wants"]
    );
    case.left_over.insert(case.after.rules[1].clone());
    assert!(case.problems().is_empty());
}

#[test]
fn s2_takes_a_rule_with_a_further_condition_for_another() {
    let mut case = Case::settled();
    case.after.rules[1].tos = 16;
    case.before.rules[1].tos = 16;
    assert_eq!(
        case.problems(),
        [
            "S2: connection c1 has no rule [from 10.1.0.1] (IPv4)",
            "S2: rules of ours that no open connection wants",
        ]
    );
}

#[test]
fn until_a_connection_returns_its_rules_may_stand_and_need_not() {
    let mut case = Case::settled();
    case.claims[0].counts = false;
    assert!(case.problems().is_empty());
    case.after.rules.pop();
    assert!(case.problems().is_empty());
}

#[test]
fn without_its_link_a_rule_need_not_be_made_and_must_not_go() {
    let mut case = Case::new();
    case.after.links[0].up = false;
    case.after.rules.pop();
    assert!(case.problems().is_empty());
    case.before = Case::settled().before;
    assert_eq!(
        case.problems(),
        ["S2: connection c1 has no rule [from 10.1.0.1] (IPv4)"]
    );
}

#[test]
fn s3_sees_an_empty_table() {
    let mut case = Case::settled();
    case.after.routes.pop();
    assert_eq!(
        case.problems(),
        ["S3: connection c1: table 20000 holds no IPv4 route of ours"]
    );
    case.after
        .routes
        .push(Route::unreachable(20000, default(), 78));
    assert_eq!(
        case.problems(),
        ["S3: connection c1: table 20000 holds no IPv4 route of ours"]
    );
    case.after.links[0].up = false;
    assert!(case.problems().is_empty());
}

#[test]
fn s3_sees_a_table_that_another_connection_looks_up() {
    let mut case = Case::new();
    case.claims.push(claim("c2", "10.2.0.1"));
    case.after.rules.push(rule("10.2.0.1", 30000, 20000));
    let given = "S3: a table that was in use was given to";
    assert_eq!(
        case.problems(),
        [
            format!("{given} [from 10.1.0.1]"),
            format!("{given} [from 10.2.0.1]")
        ]
    );
}

#[test]
fn s3_sees_a_table_that_held_routes_of_others() {
    let given = "S3: a table that was in use was given to [from 10.1.0.1]";
    for protocol in [STATIC, 78] {
        let mut case = Case::new();
        let other = Route {
            protocol,
            ..Route::unicast(20000, default(), ETH_0, None, 78)
        };
        case.before.routes.push(other.clone());
        case.after.routes.push(other);
        assert_eq!(case.problems(), [given], "{protocol}");
    }
}

#[test]
fn s3_sees_a_table_that_a_foreign_rule_looks_up() {
    let mut case = Case::new();
    let foreign = Rule {
        protocol: STATIC,
        ..rule("10.9.0.1", 300, 20000)
    };
    case.before.rules.push(foreign.clone());
    case.after.rules.insert(1, foreign);
    assert_eq!(
        case.problems(),
        ["S3: a table that was in use was given to [from 10.1.0.1]"]
    );
}

#[test]
fn s3_lets_a_rule_return_to_the_table_that_still_holds_its_routes() {
    let mut case = Case::new();
    case.before.routes.push(route(20000));
    assert!(case.problems().is_empty());
}

#[test]
fn s3_lets_a_table_be_given_that_another_call_has_freed_meanwhile() {
    let mut case = Case::new();
    case.before.rules.push(rule("10.2.0.1", 30000, 20000));
    case.before.routes.push(Route {
        hop: None,
        ..route(20000)
    });
    assert_eq!(case.problems().len(), 1);
    case.concurrent = true;
    assert!(case.problems().is_empty(), "{:?}", case.problems());
}

#[test]
fn a_rule_outside_of_the_band_is_seen() {
    let mut case = Case::new();
    case.after.rules[1].priority = 29999;
    assert_eq!(
        case.problems(),
        ["rules of ours outside of 30000-32321 and tables 20000-24999"]
    );
}

#[test]
fn a_rule_with_our_number_on_a_table_of_others_is_seen() {
    let mut case = Case::new();
    case.after.rules.push(rule("10.2.0.1", 30000, 100));
    assert_eq!(
        case.problems(),
        [
            "S1: IPv4 rules that are not ours",
            "rules of ours outside of 30000-32321 and tables 20000-24999",
        ]
    );
}

#[test]
fn what_is_printed_of_two_rules_differs_where_they_do() {
    let mut rest = Attributes::NONE;
    rest.insert(200, &[1]);
    let plain = rule("10.1.0.1", 30000, 20000);
    assert_ne!(
        print::rule(&Rule {
            rest,
            ..plain.clone()
        }),
        print::rule(&plain)
    );
}
