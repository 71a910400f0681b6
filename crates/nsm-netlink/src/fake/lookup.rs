//! Which way a packet goes: rules in order, in a table the longest prefix, of one prefix the lowest
//! metric (`fib_rules_lookup`, `fib_table_lookup`, `fib6_table_lookup`).

use super::Leg;
use super::links::LOOPBACK;
use super::request::{device6, number};
use super::rules::{mark, target};
use super::state::{MAIN, State};
use crate::rtnl::rule::{
    FR_ACT_GOTO, FRA_DST, FRA_IIFNAME, FRA_OIFNAME, FRA_SUPPRESS_PREFIXLEN, FRA_UID_RANGE,
};
use crate::{Action, Attributes, Errno, Family, PortRange, Rule};
use ipnet::IpNet;
use nix::libc;
use std::cmp::Reverse;
use std::net::IpAddr;

/// The IANA number of UDP.
const UDP: u8 = 17;

const FR_ACT_UNREACHABLE: u8 = 7;
const FR_ACT_PROHIBIT: u8 = 8;

/// A packet that the host itself sends, as `ip route get` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Where it goes.
    pub to: IpAddr,
    /// Its source, where one is chosen already; it is taken for one of the host's own.
    pub from: Option<IpAddr>,
    /// The IANA number of the protocol above IP. In IPv4, `None` is UDP.
    pub proto: Option<u8>,
    /// Its source port.
    pub sport: Option<u16>,
    /// Its destination port.
    pub dport: Option<u16>,
    /// Its mark.
    pub mark: u32,
    /// Its type of service.
    pub tos: u8,
    /// The user who sends it.
    pub uid: u32,
    /// The interface that it came in by; `None` is sent by the host.
    pub iif: Option<u32>,
    /// The interface that it must leave by.
    pub oif: Option<u32>,
}

/// What the kernel wants of a route, when it looks for a gateway.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    /// Routes of a wider scope don't count.
    pub(super) scope: u8,
    /// Among equals, a route by this interface is taken.
    pub(super) prefers: Option<u32>,
}

impl Flow {
    /// A packet of which only the destination is known.
    pub fn to(to: IpAddr) -> Self {
        Self {
            to,
            from: None,
            proto: None,
            sport: None,
            dport: None,
            mark: 0,
            tos: 0,
            uid: 0,
            iif: None,
            oif: None,
        }
    }
}

/// The way that a packet takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// The table that knew it.
    pub table: u32,
    /// The interface that it leaves by.
    pub dev: u32,
    /// The next hop; `None` is the destination itself.
    pub via: Option<IpAddr>,
}

/// What one table says.
pub(super) enum Answer<'a> {
    Route(&'a Leg),
    Refused(Errno),
    /// The next rule is asked.
    Nothing,
}

impl State {
    pub(super) fn lookup(&self, flow: &Flow) -> Result<Way, Errno> {
        // So the kernel answers to `ip route get` (`inet_rtm_getroute`, net/ipv4/route.c).
        let udp = Some(UDP).filter(|_| flow.to.is_ipv4());
        let flow = &Flow {
            proto: flow.proto.or(udp),
            ..*flow
        };
        let (table, leg) = match (self.lookup_by_rules(flow, Limits::default()), flow.oif) {
            (Ok(found), _) => found,
            // Where no route leads, IPv4 takes what must leave by an interface for on-link
            // (`ip_route_output_key_hash_rcu`, net/ipv4/route.c).
            (Err(_), Some(dev)) if flow.to.is_ipv4() && self.is_up(dev) => {
                return Ok(Way {
                    table: MAIN,
                    dev,
                    via: None,
                });
            }
            (Err(errno), _) => return Err(errno),
        };
        let hop = leg.route.hop.ok_or(Errno::ENETUNREACH)?;
        // What goes to the host itself goes by `lo`, whatever interface has the address.
        let is_local = number(leg.route.kind) == libc::RTN_LOCAL;
        // A gateway that is the host itself is none (`rt_set_nexthop`).
        let via = hop.via.filter(|via| !self.links.has_address(*via));
        Ok(Way {
            table,
            dev: if is_local { LOOPBACK } else { hop.dev },
            via,
        })
    }

    fn is_up(&self, dev: u32) -> bool {
        self.links.get(dev).is_some_and(|device| device.link.up)
    }

    /// Asks one table.
    pub(super) fn lookup_in(&self, table: u32, flow: &Flow, limits: Limits) -> Answer<'_> {
        let family = Family::of(&flow.to);
        let mut legs = match family {
            Family::V4 => self.fib4.covering(table, flow.to),
            Family::V6 => self.fib6.covering(table, flow.to),
        };
        // In IPv6 the interface only decides among equals once the source is chosen
        // (`ip6_route_output_flags_noref`, net/ipv6/route.c).
        let strict = family == Family::V4 || flow.from.is_none();
        if let Some(dev) = limits.prefers.or(flow.oif.filter(|_| !strict)) {
            legs.sort_by_key(|leg| {
                let prefix = leg.route.prefix.prefix_len();
                (
                    Reverse(prefix),
                    leg.route.metric,
                    leg.route.dev() != Some(dev),
                )
            });
        }
        for leg in legs {
            let route = &leg.route;
            if (route.tos != 0 && route.tos != flow.tos) || route.scope < limits.scope {
                continue;
            }
            let by = match family {
                Family::V4 => route.dev(),
                Family::V6 => device6(route),
            };
            if strict && flow.oif.is_some() && by.is_some() && by != flow.oif {
                continue;
            }
            match number(route.kind) {
                libc::RTN_BLACKHOLE => return Answer::Refused(Errno::EINVAL),
                libc::RTN_UNREACHABLE => return Answer::Refused(Errno::EHOSTUNREACH),
                libc::RTN_PROHIBIT => return Answer::Refused(Errno::EACCES),
                libc::RTN_THROW => return Answer::Nothing,
                _ if leg.dead => {}
                _ => return Answer::Route(leg),
            }
        }
        Answer::Nothing
    }

    /// Asks the rules, one after the other.
    pub(super) fn lookup_by_rules(
        &self,
        flow: &Flow,
        limits: Limits,
    ) -> Result<(u32, &Leg), Errno> {
        let rules = self.rules(Family::of(&flow.to)).asked();
        let mut at = 0;
        while let Some(rule) = rules.get(at) {
            at += 1;
            if !self.selects(rule, flow) {
                continue;
            }
            match rule.action {
                Action::Lookup => match self.lookup_in(rule.table, flow, limits) {
                    Answer::Route(leg) if !suppresses(rule, leg) => return Ok((rule.table, leg)),
                    Answer::Refused(errno) => return Err(errno),
                    Answer::Route(_) | Answer::Nothing => {}
                },
                Action::Other(FR_ACT_GOTO) => {
                    let target = target(&rule.rest);
                    let found = rules
                        .iter()
                        .position(|other| Some(other.priority) == target);
                    at = found.filter(|found| *found >= at).unwrap_or(at);
                }
                Action::Other(FR_ACT_UNREACHABLE) => return Err(Errno::ENETUNREACH),
                Action::Other(FR_ACT_PROHIBIT) => return Err(Errno::EACCES),
                Action::Nop => {}
                // To drop, and whatever the kernel does not know (`fib4_rule_action`).
                Action::Other(_) => return Err(Errno::EINVAL),
            }
        }
        Err(Errno::ENETUNREACH)
    }

    fn selects(&self, rule: &Rule, flow: &Flow) -> bool {
        let net = |net: &Option<IpNet>, address: Option<IpAddr>| {
            net.is_none_or(|net| address.is_some_and(|it| net.trunc().contains(&it)))
        };
        let ports = |range: Option<PortRange>, port: Option<u16>| {
            range.is_none_or(|it| port.is_some_and(|port| (it.start()..=it.end()).contains(&port)))
        };
        let named = |kind, index: Option<u32>| match rule.rest.get(kind) {
            None => true,
            Some(name) => self.links.get_opt(index).is_some_and(|device| {
                name.strip_suffix(&[0]).unwrap_or(name) == device.link.name.as_bytes()
            }),
        };
        let (value, mask) = mark(&rule.rest);
        let selector = &rule.selector;
        let selected = net(&selector.from, flow.from)
            && net(&destination(&rule.rest), Some(flow.to))
            && selector.proto.is_none_or(|proto| flow.proto == Some(proto))
            && ports(selector.sport, flow.sport)
            && ports(selector.dport, flow.dport)
            && (rule.tos == 0 || rule.tos == flow.tos)
            && (value ^ flow.mark) & mask == 0
            && named(FRA_IIFNAME, flow.iif.or(Some(LOOPBACK)))
            && named(FRA_OIFNAME, flow.oif)
            && users(&rule.rest).is_none_or(|(first, last)| (first..=last).contains(&flow.uid));
        selected != rule.invert
    }
}

/// A rule that suppresses routes of few bits passes over what its table says.
fn suppresses(rule: &Rule, leg: &Leg) -> bool {
    let limit = word(&rule.rest, FRA_SUPPRESS_PREFIXLEN);
    limit
        .is_some_and(|limit| limit != u32::MAX && u32::from(leg.route.prefix.prefix_len()) <= limit)
}

/// The destination of a rule: an address with its length behind it.
fn destination(rest: &Attributes) -> Option<IpNet> {
    let (len, address) = rest.get(FRA_DST)?.split_last()?;
    let address = match address.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
    };
    IpNet::new(address, *len).ok()
}

fn users(rest: &Attributes) -> Option<(u32, u32)> {
    let (first, last) = rest.get(FRA_UID_RANGE)?.split_first_chunk()?;
    Some((
        u32::from_ne_bytes(*first),
        u32::from_ne_bytes(last.try_into().ok()?),
    ))
}

fn word(rest: &Attributes, kind: u16) -> Option<u32> {
    rest.get(kind)?.try_into().ok().map(u32::from_ne_bytes)
}
