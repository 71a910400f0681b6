//! Rules and routes on a line each, in the shape in which `ip rule` and `ip route show table all`
//! print them. Two that differ in anything have different lines.

use crate::model::RouteText;
use crate::picture::Picture;
use nsm_netlink::{Attributes, Part, Route, Rule};

/// `RTPROT_BOOT`, which `ip` does not print.
const BOOT: u8 = 3;

/// A rule.
pub fn rule(rule: &Rule) -> String {
    // `ip` puts a tab behind the priority.
    with_payloads(rule.to_string().replace('\t', " "), &rule.rest)
}

/// A route, or a leg of one as if it were a route of its own.
pub fn route(picture: &Picture, route: &Route) -> String {
    let weight = route.hop.map_or(1, |hop| hop.weight);
    let part = if weight == 1 {
        Part::Whole
    } else {
        Part::First
    };
    let route = Route {
        part,
        ..route.clone()
    };
    let name = |index| picture.link_name(index).map(str::to_owned);
    with_payloads(route.display(name).to_string(), &route.rest)
}

/// A leg of an IPv6 multipath route, whose own protocol nobody can tell.
pub fn leg(picture: &Picture, leg: &Route) -> String {
    route(
        picture,
        &Route {
            protocol: BOOT,
            ..leg.clone()
        },
    )
}

/// A route as a scenario names it: destination, next hop and link.
pub fn short_route(picture: &Picture, route: &Route) -> String {
    let unknown = |index| format!("if{index}");
    let name = |index| {
        picture
            .link_name(index)
            .map_or_else(|| unknown(index), str::to_owned)
    };
    let text = RouteText {
        to: Some(route.prefix),
        via: route.hop.and_then(|hop| hop.via),
        dev: route.hop.map(|hop| name(hop.dev)),
    };
    text.to_string()
}

/// Of an attribute that has no words of its own the number is printed; its bytes follow here.
fn with_payloads(line: String, rest: &Attributes) -> String {
    let words = rest
        .iter()
        .map(|(kind, payload)| (format!("attr {kind}"), payload));
    let mut line = line;
    let mut tail = String::new();
    for (word, payload) in words.collect::<Vec<_>>().into_iter().rev() {
        if let Some(head) = line.strip_suffix(&word) {
            let bytes: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
            tail = format!("{word} {bytes} {tail}");
            line = head.trim_end().to_owned();
        }
    }
    format!("{line} {tail}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_netlink::{Family, Hop, Link, Selector};

    #[test]
    fn attributes_that_nobody_knows_make_a_difference() {
        let rule_with = |payload: &[u8]| {
            let mut rest = Attributes::NONE;
            rest.insert(200, &[1]);
            rest.insert(201, payload);
            rule(&Rule {
                rest,
                ..Rule::lookup(5, Selector::any(Family::V4), 7, 0)
            })
        };
        assert_eq!(
            rule_with(&[9, 8]),
            "5: from all lookup 7 attr 200 01 attr 201 0908"
        );
    }

    #[test]
    fn a_leg_looks_like_a_route() {
        let links = vec![Link {
            index: 3,
            name: "nsm-0".to_owned(),
            up: true,
        }];
        let picture = Picture {
            links,
            ..Picture::default()
        };
        let via = "fe80::1".parse().ok();
        let route = Route::unicast(20000, Family::V6.default_prefix(), 3, via, 78);
        let further = Route {
            part: Part::Further,
            ..route.clone()
        };
        assert_eq!(
            super::route(&picture, &route),
            super::route(&picture, &further)
        );
        assert_eq!(
            leg(&picture, &further),
            "default via fe80::1 dev nsm-0 table 20000 metric 1024 onlink"
        );
        let heavy = Route {
            hop: Some(Hop {
                weight: 5,
                ..further.hop.unwrap()
            }),
            ..further
        };
        assert!(leg(&picture, &heavy).ends_with(" weight 5"));
        assert_eq!(
            short_route(&picture, &heavy),
            "default via fe80::1 dev nsm-0"
        );
    }
}
