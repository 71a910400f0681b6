//! Rules on the wire: `struct fib_rule_hdr` and `FRA_*` (linux/fib_rules.h).

use super::wire::{Malformed, Requests, af, head, read_address, read_u8, read_u32};
use crate::{Action, Attributes, Family, PortRange, Rule, Selector};
use ipnet::IpNet;
use nix::libc;

pub(crate) const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
pub(crate) const FRA_IIFNAME: u16 = 3;
pub(crate) const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
pub(crate) const FRA_FWMARK: u16 = 10;
pub(crate) const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
pub(crate) const FRA_FWMASK: u16 = 16;
pub(crate) const FRA_OIFNAME: u16 = 17;
const FRA_PAD: u16 = 18;
pub(crate) const FRA_L3MDEV: u16 = 19;
pub(crate) const FRA_UID_RANGE: u16 = 20;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
pub(crate) const FRA_SPORT_MASK: u16 = 28;
pub(crate) const FRA_DPORT_MASK: u16 = 29;
const FRA_DSCP_MASK: u16 = 30;

const FIB_RULE_INVERT: u32 = 2;

const FR_ACT_TO_TBL: u8 = 1;
pub(crate) const FR_ACT_GOTO: u8 = 2;
const FR_ACT_NOP: u8 = 3;

/// Builds an add that is refused where an equal rule stands.
pub(crate) fn add(requests: &mut Requests, rule: &Rule) {
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    requests.message(libc::RTM_NEWRULE, flags, |requests| body(requests, rule));
}

/// Builds a delete. The kernel takes the first rule that agrees in what is named, so all is named.
pub(crate) fn delete(requests: &mut Requests, rule: &Rule) {
    requests.message(libc::RTM_DELRULE, 0, |requests| body(requests, rule));
}

/// Builds the question for all rules of a family. The kernel has no filter for rules.
pub(crate) fn dump(requests: &mut Requests, family: Family) -> u32 {
    requests.message(libc::RTM_GETRULE, libc::NLM_F_DUMP as u16, |requests| {
        requests.put(&[af(family), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    })
}

fn body(requests: &mut Requests, rule: &Rule) {
    let selector = &rule.selector;
    let to = rule.rest.get(FRA_DST).and_then(<[u8]>::split_last);
    let dst_len = to.map_or(0, |(len, _)| *len);
    let src_len = selector.from.map_or(0, |net| net.prefix_len());
    let action = match rule.action {
        Action::Lookup => FR_ACT_TO_TBL,
        Action::Nop => FR_ACT_NOP,
        Action::Other(action) => action,
    };
    let flags = if rule.invert { FIB_RULE_INVERT } else { 0 };
    requests.put(&[
        af(selector.family),
        dst_len,
        src_len,
        rule.tos,
        0,
        0,
        0,
        action,
    ]);
    requests.put(&flags.to_ne_bytes());

    // Without a priority the kernel picks one, and 0 is a priority; of protocol and table 0 means
    // that none is named, in IPv4 that a free table is to be picked (fib4_rule_configure).
    requests.number(FRA_PRIORITY, rule.priority);
    if rule.table != 0 {
        requests.number(FRA_TABLE, rule.table);
    }
    if rule.protocol != 0 {
        requests.attribute(FRA_PROTOCOL, &[rule.protocol]);
    }
    if let Some(net) = &selector.from {
        requests.address(FRA_SRC, &net.addr());
    }
    if let Some(proto) = selector.proto {
        requests.attribute(FRA_IP_PROTO, &[proto]);
    }
    for (kind, ports) in [
        (FRA_SPORT_RANGE, selector.sport),
        (FRA_DPORT_RANGE, selector.dport),
    ] {
        if let Some(ports) = ports {
            let [a, b] = ports.start().to_ne_bytes();
            let [c, d] = ports.end().to_ne_bytes();
            requests.attribute(kind, &[a, b, c, d]);
        }
    }
    for (kind, payload) in rule.rest.iter() {
        let payload = match (kind, to) {
            (FRA_DST, Some((_, address))) => address,
            _ => payload,
        };
        requests.attribute(kind, payload);
    }
}

/// Reads a rule, unless it is of another family: a kernel without the family answers a dump with
/// the rules of all.
///
/// A destination goes to [`Rule::rest`] as `FRA_DST` with its length behind the address, because
/// the kernel keeps the length in the message's head.
pub(crate) fn decode(payload: &[u8], family: Family) -> Result<Option<Rule>, Malformed> {
    let (head, attrs) = head::<12>(payload)?;
    let &[
        rule_family,
        dst_len,
        src_len,
        tos,
        table,
        _,
        _,
        action,
        f0,
        f1,
        f2,
        f3,
    ] = head;
    if rule_family != af(family) {
        return Ok(None);
    }
    let mut rule = Rule {
        priority: 0,
        selector: Selector::any(family),
        table: u32::from(table),
        action: match action {
            FR_ACT_TO_TBL => Action::Lookup,
            FR_ACT_NOP => Action::Nop,
            other => Action::Other(other),
        },
        protocol: 0,
        invert: u32::from_ne_bytes([f0, f1, f2, f3]) & FIB_RULE_INVERT != 0,
        tos,
        rest: Attributes::NONE,
    };
    let mut fwmask = None;
    for attr in attrs {
        let (kind, payload) = attr?;
        match kind {
            FRA_PRIORITY => rule.priority = read_u32(payload)?,
            FRA_TABLE => rule.table = read_u32(payload)?,
            FRA_PROTOCOL => rule.protocol = read_u8(payload)?,
            FRA_SRC => rule.selector.from = source(payload, src_len, family)?,
            FRA_IP_PROTO => rule.selector.proto = Some(read_u8(payload)?).filter(|it| *it != 0),
            FRA_SPORT_RANGE => rule.selector.sport = Some(ports(payload)?),
            FRA_DPORT_RANGE => rule.selector.dport = Some(ports(payload)?),
            FRA_DST => {
                let mut payload = payload.to_vec();
                payload.push(dst_len);
                rule.rest.insert(FRA_DST, &payload);
            }
            FRA_FWMASK => fwmask = Some(payload),
            FRA_PAD => {}
            _ if is_made_up(kind, payload) => {}
            _ => rule.rest.insert(kind, payload),
        }
    }
    if let Some(mask) = fwmask {
        // Beside a mark a full mask is what the kernel takes for one that is not given. Alone it is
        // a condition: the mark must be 0.
        if mask != [0xff; 4] || rule.rest.get(FRA_FWMARK).is_none() {
            rule.rest.insert(FRA_FWMASK, mask);
        }
    }
    Ok(Some(rule))
}

/// Whether the value stands for "no limit" or "all bits", which the kernel shows though nobody gave
/// it (`fib_nl_fill_rule`, net/core/fib_rules.c; `fib4_rule_fill` and `fib6_rule_fill` beside it).
fn is_made_up(kind: u16, payload: &[u8]) -> bool {
    match kind {
        FRA_SUPPRESS_PREFIXLEN => payload == u32::MAX.to_ne_bytes(),
        FRA_SPORT_MASK | FRA_DPORT_MASK => payload == u16::MAX.to_ne_bytes(),
        FRA_DSCP_MASK => payload == [0x3f],
        _ => false,
    }
}

fn source(payload: &[u8], len: u8, family: Family) -> Result<Option<IpNet>, Malformed> {
    let net = IpNet::new(read_address(payload)?, len)
        .map_err(|_| Malformed("a rule's source is longer than its address"))?;
    if Family::of_net(&net) != family {
        return Err(Malformed(
            "a rule's source is of another family than the rule",
        ));
    }
    Ok(Some(net).filter(|_| len != 0))
}

fn ports(payload: &[u8]) -> Result<PortRange, Malformed> {
    let [a, b, c, d] = *payload
        .first_chunk()
        .ok_or(Malformed("a rule's range of ports is cut short"))?;
    Ok(PortRange::from_dump(
        u16::from_ne_bytes([a, b]),
        u16::from_ne_bytes([c, d]),
    ))
}
