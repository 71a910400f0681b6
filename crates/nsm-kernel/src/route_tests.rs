use super::*;
use nsm_netlink::{Hop, SCOPE_LINK};

const DEV: u32 = 3;
const ETH0: u32 = 2;

fn ours() -> Ours {
    Ours::new(78.try_into().unwrap(), "6.1")
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn nets(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|text| net(text)).collect()
}

fn routes(list: &[(&str, Option<&str>)]) -> Routes {
    let parsed = list
        .iter()
        .map(|(prefix, via)| (net(prefix), via.map(|via| via.parse().unwrap())));
    parsed.collect()
}

fn api(list: &[(&str, &str)]) -> Vec<ApiRoute> {
    let route = |(prefix, next_hop): &(&str, &str)| ApiRoute {
        prefix: (*prefix).to_owned(),
        next_hop: (*next_hop).to_owned(),
    };
    list.iter().map(route).collect()
}

fn derived(given: &[(&str, &str)], own: &[&str], other: &[&str]) -> Result<Routes, Invalid> {
    derive("src_routes", &api(given), &nets(own), &nets(other))
}

#[test]
fn each_address_of_the_other_end_is_reached_on_link() {
    let made = derived(
        &[],
        &["172.16.1.2/32", "2001:db8::2/128"],
        &["172.16.1.1/32", "2001:db8::1/128"],
    );

    let expected = routes(&[("172.16.1.1/32", None), ("2001:db8::1/128", None)]);
    assert_eq!(made, Ok(expected));
}

#[test]
fn an_address_in_a_network_of_ours_needs_no_route() {
    let made = derived(&[], &["172.16.1.2/24"], &["172.16.1.1/32"]);

    assert_eq!(made, Ok(Routes::new()));
}

#[test]
fn a_route_without_a_next_hop_has_the_other_ends_first_address_of_its_family() {
    let made = derived(
        &[("0.0.0.0/0", ""), ("::/0", "")],
        &["172.16.1.2/24", "2001:db8::2/64"],
        &["172.16.1.1/24", "2001:db8::1/64", "2001:db8::9/64"],
    );

    let expected = routes(&[
        ("0.0.0.0/0", Some("172.16.1.1")),
        ("::/0", Some("2001:db8::1")),
    ]);
    assert_eq!(made, Ok(expected));
}

#[test]
fn a_route_into_the_other_ends_network_is_on_link() {
    let made = derived(
        &[("172.16.1.128/25", "")],
        &["172.16.1.2/32"],
        &["172.16.1.1/24"],
    );

    let expected = routes(&[("172.16.1.1/32", None), ("172.16.1.128/25", None)]);
    assert_eq!(made, Ok(expected));
}

#[test]
fn a_route_of_a_family_that_the_other_end_has_not_is_on_link() {
    let made = derived(&[("2001:db8::/32", "")], &[], &["172.16.1.1/32"]);

    let expected = routes(&[("172.16.1.1/32", None), ("2001:db8::/32", None)]);
    assert_eq!(made, Ok(expected));
}

#[test]
fn an_unspecified_next_hop_says_on_link_and_host_bits_are_masked() {
    let made = derived(
        &[("10.1.2.3/8", "0.0.0.0"), ("10.9.9.9", "10.0.0.1")],
        &[],
        &["172.16.1.1/32"],
    );

    let expected = routes(&[
        ("172.16.1.1/32", None),
        ("10.0.0.0/8", None),
        ("10.9.9.9/32", Some("10.0.0.1")),
    ]);
    assert_eq!(made, Ok(expected));
}

#[test]
fn of_two_routes_of_one_prefix_the_later_counts() {
    let made = derived(
        &[("10.0.0.0/8", "172.16.1.1"), ("10.1.0.0/8", "172.16.1.9")],
        &["172.16.1.2/24"],
        &[],
    );

    assert_eq!(made, Ok(routes(&[("10.0.0.0/8", Some("172.16.1.9"))])));
}

#[test]
fn routes_that_make_no_sense_are_named() {
    for (prefix, next_hop) in [
        ("", ""),
        ("10.0.0.0/33", ""),
        ("default", ""),
        ("::ffff:10.0.0.0/104", ""),
        ("10.0.0.0/8", "x"),
        ("10.0.0.0/8", "2001:db8::1"),
        ("10.0.0.0/8", "127.0.0.1"),
        ("::/0", "ff02::1"),
    ] {
        let error = derived(&[("10.0.0.0/8", ""), (prefix, next_hop)], &[], &[]).unwrap_err();
        assert!(error.to_string().starts_with("src_routes 1 "), "{error}");
    }
    let many = vec![("10.0.0.0/8", ""); 5000];
    assert!(derived(&many, &[], &[]).unwrap_err().is_too_much());
}

fn made(prefix: &str, dev: u32, via: Option<&str>, protocol: u8) -> Route {
    let via = via.map(|via| via.parse().unwrap());
    Route::unicast(MAIN, net(prefix), dev, via, protocol)
}

fn planned(wanted: &[(&str, Option<&str>)], standing: &[Route]) -> Result<Vec<Step>, Hidden> {
    plan(&routes(wanted), DEV, ours(), standing)
}

const GATEWAY: Option<&str> = Some("172.16.1.1");
const GATEWAY6: Option<&str> = Some("2001:db8::1");

#[test]
fn what_stands_is_not_written_again() {
    let wanted = [
        ("0.0.0.0/0", GATEWAY),
        ("172.16.1.1/32", None),
        ("::/0", GATEWAY6),
    ];
    let standing = [
        made("0.0.0.0/0", DEV, GATEWAY, 78),
        made("172.16.1.1/32", DEV, None, 78),
        made("::/0", DEV, GATEWAY6, 78),
    ];
    assert_eq!(standing[1].scope, SCOPE_LINK);

    assert_eq!(planned(&wanted, &standing), Ok(vec![]));
}

#[test]
fn a_default_route_of_the_pod_stays_and_ours_comes_before_it() {
    let pods = [
        made("0.0.0.0/0", ETH0, Some("10.0.0.1"), 3),
        made("::/0", ETH0, Some("fe80::1"), 9),
    ];

    let steps = planned(&[("0.0.0.0/0", GATEWAY), ("::/0", GATEWAY6)], &pods).unwrap();

    let lower = Route {
        metric: 1023,
        ..made("::/0", DEV, GATEWAY6, 78)
    };
    let expected = [
        Step::AddInFront(made("0.0.0.0/0", DEV, GATEWAY, 78)),
        Step::Add(lower.clone()),
    ];
    assert_eq!(steps, expected);

    let [v4, v6] = pods;
    let standing = [made("0.0.0.0/0", DEV, GATEWAY, 78), v4, lower, v6];
    let again = planned(&[("0.0.0.0/0", GATEWAY), ("::/0", GATEWAY6)], &standing);
    assert_eq!(again, Ok(vec![]));
}

#[test]
fn a_route_that_somebody_put_in_front_later_gives_way_again() {
    let mine = made("0.0.0.0/0", DEV, GATEWAY, 78);
    let standing = [made("0.0.0.0/0", ETH0, Some("10.0.0.1"), 3), mine.clone()];

    let steps = planned(&[("0.0.0.0/0", GATEWAY)], &standing);

    assert_eq!(
        steps,
        Ok(vec![Step::Remove(mine.clone()), Step::AddInFront(mine)])
    );
}

#[test]
fn an_ipv6_route_of_others_that_came_below_ours_is_gone_below() {
    let mine = made("::/0", DEV, GATEWAY6, 78);
    let other = Route {
        metric: 100,
        ..made("::/0", ETH0, Some("fe80::1"), 4)
    };

    let steps = planned(&[("::/0", GATEWAY6)], &[other, mine.clone()]);

    let lower = Route {
        metric: 99,
        ..mine.clone()
    };
    assert_eq!(steps, Ok(vec![Step::Add(lower), Step::Remove(mine)]));
}

#[test]
fn connections_take_no_turns_in_front_of_each_other() {
    let earlier = made("0.0.0.0/0", DEV, GATEWAY, 78);
    let later = made("0.0.0.0/0", 7, Some("172.16.9.1"), 78);
    assert_eq!(
        planned(&[("0.0.0.0/0", GATEWAY)], &[later, earlier]),
        Ok(vec![])
    );

    let earlier = made("::/0", DEV, GATEWAY6, 78);
    let later = Route {
        metric: 1023,
        ..made("::/0", 7, Some("2001:db8:9::1"), 78)
    };
    assert_eq!(
        planned(&[("::/0", GATEWAY6)], &[later, earlier.clone()]),
        Ok(vec![])
    );

    // And never share a metric, which would make one route of both.
    let other = made("::/0", 7, Some("2001:db8:9::1"), 78);
    let steps = planned(&[("::/0", GATEWAY6)], &[other]);
    let expected = Route {
        metric: 1023,
        ..earlier
    };
    assert_eq!(steps, Ok(vec![Step::Add(expected)]));
}

#[test]
fn a_metric_that_nothing_comes_before_is_refused() {
    let other = Route {
        metric: 1,
        ..made("::/0", ETH0, Some("fe80::1"), 4)
    };

    let refused = planned(&[("::/0", GATEWAY6)], &[other]);

    assert_eq!(refused, Err(Hidden(net("::/0"))));
}

#[test]
fn what_is_wanted_no_more_goes_last_and_what_is_not_ours_stays() {
    let old = made("10.0.0.0/8", DEV, GATEWAY, 78);
    let standing = [
        old.clone(),
        made("10.0.0.0/8", DEV, Some("172.16.1.7"), 4),
        made("10.0.0.0/8", 9, GATEWAY, 78),
    ];

    let steps = planned(&[("172.16.1.1/32", None)], &standing).unwrap();

    let expected = [
        Step::AddInFront(made("172.16.1.1/32", DEV, None, 78)),
        Step::Remove(old),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn another_next_hop_stands_before_the_old_one_goes() {
    let old = made("10.0.0.0/8", DEV, GATEWAY, 78);
    let old6 = made("2001:db8:9::/48", DEV, GATEWAY6, 78);
    let wanted = [
        ("10.0.0.0/8", Some("172.16.1.7")),
        ("2001:db8:9::/48", Some("2001:db8::7")),
    ];

    let steps = planned(&wanted, &[old.clone(), old6.clone()]).unwrap();

    let new6 = made("2001:db8:9::/48", DEV, Some("2001:db8::7"), 78);
    let expected = [
        Step::AddInFront(made("10.0.0.0/8", DEV, Some("172.16.1.7"), 78)),
        Step::Add(Route {
            metric: 1023,
            ..new6
        }),
        Step::Remove(old),
        Step::Remove(old6),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn what_others_made_and_leads_the_same_way_serves() {
    let theirs = made("10.0.0.0/8", DEV, GATEWAY, 4);

    assert_eq!(planned(&[("10.0.0.0/8", GATEWAY)], &[theirs]), Ok(vec![]));
}

#[test]
fn a_leg_of_a_multipath_route_is_nobodys_to_remove() {
    let leg = Route {
        part: Part::First,
        hop: Some(Hop {
            dev: DEV,
            via: None,
            weight: 1,
        }),
        ..made("10.0.0.0/8", DEV, GATEWAY, 78)
    };

    assert_eq!(planned(&[], &[leg]), Ok(vec![]));
}
