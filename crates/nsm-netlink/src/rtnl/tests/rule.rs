use super::{bytes, net, payload};
use crate::rtnl::rule;
use crate::{Action, Family, PortRange, Rule, Selector};
use std::net::Ipv6Addr;

/// A rule of either family with all that a rule can have.
pub(super) fn full(family: Family) -> Rule {
    let (from, to) = match family {
        Family::V4 => ("10.1.0.7/24", vec![10, 2, 0, 0, 16]),
        Family::V6 => {
            let mut to = "fd02::".parse::<Ipv6Addr>().unwrap().octets().to_vec();
            to.push(64);
            ("fd00::1/128", to)
        }
    };
    let selector = Selector {
        family,
        from: Some(net(from)),
        proto: Some(17),
        sport: Some(PortRange::new(5, 9).unwrap()),
        dport: Some(PortRange::new(443, 443).unwrap()),
    };
    let mut rule = Rule::lookup(30_000, selector, 0x4e53_4d01, 78);
    rule.invert = true;
    rule.tos = 0x10;
    rule.rest.insert(rule::FRA_DST, &to);
    rule.rest.insert(rule::FRA_IIFNAME, b"lo\0");
    rule.rest.insert(rule::FRA_FWMARK, &5_u32.to_ne_bytes());
    rule.rest.insert(rule::FRA_FWMASK, &0xff_u32.to_ne_bytes());
    rule
}

#[test]
fn a_rule_is_read_as_it_was_written() {
    for family in Family::ALL {
        let full = full(family);
        let nop = Rule {
            action: Action::Nop,
            table: 0,
            priority: 0,
            ..full.clone()
        };
        let goto = Rule {
            action: Action::Other(2),
            protocol: 0,
            ..full.clone()
        };
        for rule in [
            full,
            nop,
            goto,
            Rule::lookup(1, Selector::any(family), 254, 78),
        ] {
            let written = payload(|requests| rule::add(requests, &rule));
            assert_eq!(rule::decode(&written, family).unwrap(), Some(rule));
        }
    }
}

#[test]
fn a_delete_names_all_that_an_add_names() {
    let rule = full(Family::V6);

    let add = payload(|requests| rule::add(requests, &rule));
    let delete = payload(|requests| rule::delete(requests, &rule));

    assert_eq!(add, delete);
}

#[test]
fn a_rule_of_the_kernel_is_read_without_what_the_kernel_made_up() {
    let sent = bytes(
        "02101010fc0000010200000008000f00204e000008000e00ffffffff050015004e000000070003006c6f0000
         080006003075000008000a000500000008001000ffffffff0c00140001000000050000000800170005000900
         080018000700070006001d00ffff00000500160011000000080001000a020000080002000a010000",
    );

    let rule = rule::decode(&sent, Family::V4).unwrap().unwrap();

    assert_eq!(
        rule.to_string(),
        "30000:\tnot from 10.1.0.0/16 to 10.2.0.0/16 tos 0x10 fwmark 0x5 iif lo uidrange 1-5 \
         ipproto udp sport 5-9 dport 7 lookup 20000 proto 78"
    );
    assert_eq!(
        rule.rest.iter().map(|(kind, _)| kind).collect::<Vec<_>>(),
        [1, 3, 10, 20]
    );
    assert_eq!(
        rule::decode(&sent, Family::V6),
        Ok(None),
        "it is of another family"
    );
}

#[test]
fn a_full_mask_without_a_mark_is_a_condition_and_stays() {
    let mut rule = Rule::lookup(1, Selector::any(Family::V4), 254, 78);
    rule.rest.insert(rule::FRA_FWMASK, &u32::MAX.to_ne_bytes());

    let written = payload(|requests| rule::add(requests, &rule));

    assert_eq!(rule::decode(&written, Family::V4).unwrap(), Some(rule));
}

/// A kernel without IPv6 may answer a dump of it with the rules of all families that it has.
#[test]
fn a_rule_of_another_family_than_was_asked_for_is_left_out() {
    for (family, other) in [(Family::V4, Family::V6), (Family::V6, Family::V4)] {
        for rule in [
            full(family),
            Rule::lookup(1, Selector::any(family), 254, 78),
        ] {
            let written = payload(|requests| rule::add(requests, &rule));

            assert_eq!(rule::decode(&written, other), Ok(None));
            assert_eq!(rule::decode(&written, family), Ok(Some(rule)));
        }
    }
}
