//! Random cases: who wants what, what stands, what has just happened.

use super::super::*;
use super::world::{FOREIGN, OURS, World};
use crate::claims::Claims;
use crate::policy::Want;
use nsm_netlink::{Link, PortRange};
use proptest::prelude::*;
use proptest::sample::{Index, select};

const TABLES: u32 = 6;

/// One case: who wants what, what stands, what has just happened.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) world: World,
    pub(super) claims: Claims,
    pub(super) links: Vec<Link>,
    pub(super) fail_closed: bool,
    pub(super) dropped: Vec<Selector>,
    pub(super) ended: Vec<(Selector, IpNet, Option<IpAddr>)>,
    pub(super) due: Vec<Index>,
    pub(super) orphans_are_due: bool,
}

pub(super) fn selectors() -> Vec<Selector> {
    let port = |n| Some(PortRange::new(n, n).unwrap());
    let mut all = Vec::new();
    for (family, from) in [(Family::V4, "10.1.0.1/32"), (Family::V6, "2001:db8::1/128")] {
        let any = Selector::any(family);
        let from = Some(from.parse().unwrap());
        all.push(Selector {
            from,
            ..any.clone()
        });
        all.push(Selector {
            from,
            proto: Some(6),
            dport: port(443),
            ..any.clone()
        });
        all.push(Selector {
            proto: Some(17),
            dport: port(53),
            ..any
        });
    }
    all
}

pub(super) fn prefixes(family: Family) -> [IpNet; 2] {
    match family {
        Family::V4 => ["0.0.0.0/0", "10.5.0.0/16"].map(|text| text.parse().unwrap()),
        Family::V6 => ["::/0", "2001:db8:5::/48"].map(|text| text.parse().unwrap()),
    }
}

pub(super) fn via(family: Family, which: usize) -> Option<IpAddr> {
    let text = match family {
        Family::V4 => ["172.16.1.1", "172.16.1.7"],
        Family::V6 => ["fd00::1", "fd00::7"],
    };
    text.get(which).map(|text| text.parse().unwrap())
}

pub(super) fn a_selector() -> impl Strategy<Value = Selector> {
    select(selectors())
}

pub(super) fn a_family() -> impl Strategy<Value = Family> {
    select(Family::ALL.to_vec())
}

pub(super) fn a_want() -> impl Strategy<Value = Want> {
    (
        a_selector(),
        proptest::collection::vec((0..2usize, 0..3usize), 1..3),
    )
        .prop_map(|(selector, routes)| {
            let family = selector.family;
            let routes = routes
                .iter()
                .map(|(p, v)| (prefixes(family)[*p], via(family, *v)));
            Want {
                routes: routes.collect(),
                selector,
                index: 0,
            }
        })
}

pub(super) fn a_rule() -> impl Strategy<Value = Rule> {
    let protocol = prop_oneof![4 => Just(OURS), 1 => Just(FOREIGN)];
    (a_selector(), 0..TABLES, protocol, 0..5u8, 0..12u8).prop_map(
        |(selector, table, protocol, moved, extra)| {
            let right = crate::priority::priority(Band::DEFAULT, &selector);
            let priority = if moved == 0 { 30500 } else { right };
            let mut rule = Rule::lookup(priority, selector, 20000 + table, protocol);
            if extra == 0 {
                rule.rest.insert(10, &5u32.to_ne_bytes());
            }
            rule
        },
    )
}

pub(super) fn a_route() -> impl Strategy<Value = Route> {
    let protocol = prop_oneof![2 => Just(OURS), 1 => Just(FOREIGN)];
    (
        a_family(),
        0..TABLES,
        0..2usize,
        0..3usize,
        2..5u32,
        protocol,
        0..10u8,
    )
        .prop_map(|(family, table, prefix, hop, dev, protocol, kind)| {
            let (table, prefix) = (20000 + table, prefixes(family)[prefix]);
            if kind == 0 {
                Route::unreachable(table, prefix, protocol)
            } else {
                Route::unicast(table, prefix, dev, via(family, hop), protocol)
            }
        })
}

prop_compose! {
    pub(super) fn a_case()(
        rules in proptest::collection::vec(a_rule(), 0..9),
        routes in proptest::collection::vec(a_route(), 0..24),
        wants in proptest::collection::vec((0..2usize, proptest::collection::vec(a_want(), 1..4)), 0..4),
        missing in 0..6usize,
        fail_closed in proptest::bool::weighted(0.3),
        dropped in proptest::collection::vec(a_selector(), 0..2),
        ended in proptest::collection::vec((a_selector(), 0..2usize, 0..3usize), 0..3),
        due in proptest::collection::vec(any::<Index>(), 0..2),
        orphans_are_due in any::<bool>(),
    ) -> Case {
        let mut world = World { rules: Vec::new(), routes: Vec::new() };
        for rule in rules {
            world.apply(&Op::AddRule(rule));
        }
        for route in routes {
            world.apply(&Op::AddRoute(route, Placement::Append));
        }
        let mut claims = Claims::default();
        for (i, (link, mut wants)) in wants.into_iter().enumerate() {
            let mut seen = BTreeSet::new();
            wants.retain(|want| seen.insert(want.selector.clone()));
            claims.set(format!("c{i}").try_into().unwrap(), format!("nsm-{link}"), wants);
        }
        let links = (0..2usize)
            .filter(|i| *i != missing)
            .map(|i| Link { index: 2 + i as u32, name: format!("nsm-{i}"), up: true })
            .collect();
        let ended = ended
            .into_iter()
            .map(|(s, p, v)| { let f = s.family; (s, prefixes(f)[p], via(f, v)) })
            .collect();
        Case { world, claims, links, fail_closed, dropped, ended, due, orphans_are_due }
    }
}

impl Case {
    pub(super) fn desired(&self) -> Vec<Desired> {
        self.claims.desired(None, &self.links, Band::DEFAULT).0
    }

    pub(super) fn due(&self) -> BTreeSet<Rule> {
        let unclaimed: Vec<&Rule> = self
            .world
            .ours()
            .filter(|rule| !rule.is_plain() || !self.claims.selectors().contains(&rule.selector))
            .collect();
        let due = self.due.iter().filter(|_| !unclaimed.is_empty());
        due.map(|index| unclaimed[index.index(unclaimed.len())].clone())
            .collect()
    }
}
