//! Values to bytes and back, bytes that a kernel sent (Linux 6.18 on x86_64), and bytes that make no
//! sense.

mod route;
mod rule;

use super::wire::{Malformed, Messages, Requests};
use super::{
    address, answer::verdict, link, nothing_without, route as route_codec, rule as rule_codec,
};
use crate::{
    Attributes, Dump, Errno, Family, Hop, KernelError, OpKind, Placement, Route, Rule, Selector,
};
use ipnet::IpNet;
use nix::libc;
use proptest::prelude::*;
use std::net::IpAddr;

const EVERY_TABLE: std::ops::RangeInclusive<u32> = 0..=u32::MAX;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn address(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

/// The payload of the only message that is built.
fn payload(build: impl FnOnce(&mut Requests)) -> Vec<u8> {
    let mut requests = Requests::default();
    build(&mut requests);
    let messages: Vec<_> = Messages(requests.bytes())
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(messages.len(), 1);
    messages[0].payload.to_vec()
}

fn read_routes(payload: &[u8], family: Family) -> Result<Vec<Route>, Malformed> {
    let mut routes = Vec::new();
    route_codec::decode(payload, family, &EVERY_TABLE, &mut routes).map(|()| routes)
}

#[test]
fn a_refusal_is_read_with_its_text() {
    // NLMSG_ERROR, with the request's header and without its body, and a text behind.
    let mut sent = bytes("00000000 0200 0003 07000000 00000000 eaffffff");
    sent.extend(bytes("1c000000 2000 0106 07000000 00000000"));
    sent.extend(bytes(
        "0e000100 496e76616c69642078 00 0000 08000200 10000000",
    ));
    let len = sent.len() as u32;
    sent[..4].copy_from_slice(&len.to_ne_bytes());

    let message = Messages(&sent).next().unwrap().unwrap();
    let refusal = verdict(&message).unwrap().unwrap_err();

    assert_eq!(message.sequence, 7);
    assert_eq!(refusal.errno, Errno::EINVAL);
    assert_eq!(refusal.to_string(), "Invalid argument (Invalid x)");
}

/// A kernel without IPv6 knows no family of rules of that number.
#[test]
fn a_family_that_the_kernel_does_not_have_has_no_rules_and_no_routes() {
    for errno in [Errno::EAFNOSUPPORT, Errno::EPFNOSUPPORT, Errno::EOPNOTSUPP] {
        let dump = nothing_without(Family::V6, refused(errno)).unwrap();

        assert_eq!((dump.items.len(), dump.reads), (0, 0), "{errno}");
    }
}

/// There is no kernel without IPv4, so it is a fault there.
#[test]
fn what_else_a_dump_is_refused_for_is_an_error() {
    for (family, errno) in [
        (Family::V6, Errno::EPERM),
        (Family::V6, Errno::ENOENT),
        (Family::V6, Errno::EINVAL),
        (Family::V4, Errno::EAFNOSUPPORT),
        (Family::V4, Errno::EOPNOTSUPP),
    ] {
        let error = nothing_without(family, refused(errno)).unwrap_err();

        assert_eq!(error.errno(), Some(errno), "{family}");
    }
    let lost = nothing_without(Family::V6, Err::<Dump<Rule>, _>(KernelError::AnswersLost));
    assert!(matches!(lost, Err(KernelError::AnswersLost)));
}

/// As the kernel answers a dump that it does not begin.
fn refused(errno: Errno) -> Result<Dump<Rule>, KernelError> {
    let mut sent = bytes("24000000 0200 0000 07000000 00000000");
    sent.extend((-(errno as i32)).to_ne_bytes());
    sent.extend(bytes("1c000000 2200 0103 07000000 00000000"));
    let message = Messages(&sent).next().unwrap().unwrap();
    let source = verdict(&message).unwrap().unwrap_err();
    Err(KernelError::Refused {
        op: OpKind::DumpRules,
        source,
    })
}

#[test]
fn a_number_that_no_error_has_is_read_all_the_same() {
    let message = bytes("14000000 0200 0000 07000000 00000000 00000080");

    let message = Messages(&message).next().unwrap().unwrap();
    let refusal = verdict(&message).unwrap().unwrap_err();

    assert_eq!(refusal.errno, Errno::UnknownErrno);
}

#[test]
fn messages_are_split_where_room_ends_and_the_last_of_each_part_asks_for_an_answer() {
    let mut requests = Requests::default();
    for _ in 0..5 {
        requests.message(16, 0, |requests| requests.number(1, 2));
    }

    let first = requests.first_chunk(60, 100).unwrap();
    let second = requests.chunk_after(&first, 1, 100).unwrap();
    let third = requests.chunk_after(&second, 1000, 100).unwrap();
    let by_count = requests.first_chunk(1000, 3).unwrap();

    assert_eq!(
        [first.count, second.count, third.count, by_count.count],
        [2, 1, 2, 3]
    );
    assert_eq!([first.first, second.first, third.first], [0, 2, 3]);
    assert_eq!(requests.chunk_after(&third, 1000, 100), None);
    let sent: Vec<_> = Messages(requests.acknowledged(&third))
        .map(Result::unwrap)
        .collect();
    let asks = |index: usize| sent[index].flags & libc::NLM_F_ACK as u16 != 0;
    assert!(!asks(0) && asks(1));
}

#[test]
fn an_attribute_that_no_header_can_describe_is_noticed() {
    let mut rule = Rule::lookup(1, Selector::any(Family::V4), 254, 78);
    rule.rest = Attributes::from_iter([(99, vec![0; 70_000])]);
    let mut requests = Requests::default();

    rule_codec::add(&mut requests, &rule);

    assert!(requests.is_overlong());
}

/// Whatever the bytes, reading them ends.
fn read_everything(bytes: &[u8]) {
    for message in Messages(bytes) {
        let Ok(message) = message else { break };
        let _ = verdict(&message);
        read_payload(message.payload);
    }
    read_payload(bytes);
}

fn read_payload(payload: &[u8]) {
    for family in Family::ALL {
        if let Ok(Some(rule)) = rule_codec::decode(payload, family) {
            let _ = rule.to_string();
        }
        for route in read_routes(payload, family).unwrap_or_default() {
            let _ = route.display(|_| None).to_string();
        }
    }
    let _ = link::decode(payload);
    let _ = address::decode(payload);
}

proptest! {
    #[test]
    fn bytes_without_sense_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_everything(&bytes);
    }

    #[test]
    fn messages_that_are_damaged_are_no_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        len in any::<prop::sample::Index>(),
        v6 in any::<bool>(),
    ) {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let mut route = Route::unicast(9, family.default_prefix(), 3, address("fd00::1"), 78);
        route.hop = Some(Hop { weight: 2, ..route.hop.unwrap() });
        let mut requests = Requests::default();
        rule_codec::add(&mut requests, &rule::full(family));
        route_codec::add(&mut requests, &route, Placement::Append);
        let mut bytes = requests.bytes().to_vec();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(len.index(bytes.len()) + 1);
        read_everything(&bytes);
    }
}
