use super::{Hex, Kind, Net, Protocol, RTPROT_KERNEL, Table, prefix};
use crate::rtnl::{rule as fra, wire};
use crate::{Action, PortRange, Rule, Selector};
use std::fmt;

/// What a rule's `rest` says in words of its own.
const RULE_WORDS: [u16; 11] = [
    fra::FRA_DST,
    fra::FRA_IIFNAME,
    fra::FRA_GOTO,
    fra::FRA_FWMARK,
    fra::FRA_SUPPRESS_PREFIXLEN,
    fra::FRA_FWMASK,
    fra::FRA_OIFNAME,
    fra::FRA_L3MDEV,
    fra::FRA_UID_RANGE,
    fra::FRA_SPORT_MASK,
    fra::FRA_DPORT_MASK,
];

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        from(self, f)?;
        ports(self, None, None, f)
    }
}

fn from(selector: &Selector, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &selector.from {
        None => f.write_str("from all"),
        Some(net) => write!(f, "from {}", Net(net)),
    }
}

/// The protocol and the ports; a port with a mask stands for all that agree with it in the mask.
fn ports(
    selector: &Selector,
    sport_mask: Option<&[u8]>,
    dport_mask: Option<&[u8]>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match selector.proto {
        None => {}
        Some(1) => f.write_str(" ipproto icmp")?,
        Some(6) => f.write_str(" ipproto tcp")?,
        Some(17) => f.write_str(" ipproto udp")?,
        Some(58) => f.write_str(" ipproto ipv6-icmp")?,
        Some(132) => f.write_str(" ipproto sctp")?,
        Some(other) => write!(f, " ipproto {other}")?,
    }
    let mut port = |name, ports: Option<PortRange>, mask: Option<&[u8]>| match (ports, mask) {
        (None, _) => Ok(()),
        (Some(ports), Some(&[a, b])) => {
            write!(
                f,
                " {name} {:#x}/{:#x}",
                ports.start(),
                u16::from_ne_bytes([a, b])
            )
        }
        (Some(ports), _) => write!(f, " {name} {ports}"),
    };
    port("sport", selector.sport, sport_mask)?;
    port("dport", selector.dport, dport_mask)
}

/// As a line of `ip rule show`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = |kind| self.rest.get(kind);
        write!(
            f,
            "{}:\t{}",
            self.priority,
            if self.invert { "not " } else { "" }
        )?;
        from(&self.selector, f)?;
        if let Some(net) = rest(fra::FRA_DST).and_then(prefix) {
            write!(f, " to {}", Net(&net))?;
        }
        if self.tos != 0 {
            write!(f, " tos {:#04x}", self.tos)?;
        }
        let mark = rest(fra::FRA_FWMARK).and_then(number);
        let mask = rest(fra::FRA_FWMASK)
            .and_then(number)
            .filter(|mask| *mask != u32::MAX);
        match (mark.unwrap_or(0), mask) {
            (mark, Some(mask)) => write!(f, " fwmark {}/{}", Hex(mark), Hex(mask))?,
            (0, None) if mark.is_none() && rest(fra::FRA_FWMASK).is_none() => {}
            (mark, None) => write!(f, " fwmark {}", Hex(mark))?,
        }
        for (word, kind) in [("iif", fra::FRA_IIFNAME), ("oif", fra::FRA_OIFNAME)] {
            if let Some(name) = rest(kind) {
                let name = name.strip_suffix(&[0]).unwrap_or(name);
                write!(f, " {word} {}", String::from_utf8_lossy(name))?;
            }
        }
        if rest(fra::FRA_L3MDEV).is_some() {
            f.write_str(" lookup [l3mdev-table]")?;
        }
        if let Some((first, last)) = rest(fra::FRA_UID_RANGE).and_then(pair) {
            write!(f, " uidrange {first}-{last}")?;
        }
        ports(
            &self.selector,
            rest(fra::FRA_SPORT_MASK),
            rest(fra::FRA_DPORT_MASK),
            f,
        )?;
        if self.table != 0 {
            write!(f, " lookup {}", Table(self.table))?;
        }
        if let Some(length) = rest(fra::FRA_SUPPRESS_PREFIXLEN).and_then(number) {
            write!(f, " suppress_prefixlength {length}")?;
        }
        match self.action {
            Action::Lookup => {}
            Action::Nop => f.write_str(" nop")?,
            Action::Other(fra::FR_ACT_GOTO) => match rest(fra::FRA_GOTO).and_then(number) {
                Some(priority) => write!(f, " goto {priority}")?,
                None => f.write_str(" goto none")?,
            },
            Action::Other(action) => write!(f, " {}", Kind(action))?,
        }
        if !matches!(self.protocol, 0 | RTPROT_KERNEL) {
            write!(f, " proto {}", Protocol(self.protocol))?;
        }
        for (kind, _) in self
            .rest
            .iter()
            .filter(|(kind, _)| !RULE_WORDS.contains(kind))
        {
            write!(f, " attr {kind}")?;
        }
        Ok(())
    }
}

/// An attribute's number of 32 bits.
fn number(payload: &[u8]) -> Option<u32> {
    wire::read_u32(payload).ok()
}

/// Two numbers of 32 bits.
fn pair(payload: &[u8]) -> Option<(u32, u32)> {
    let (first, last) = payload.split_at_checked(4)?;
    Some((number(first)?, number(last)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;

    fn rule(family: Family, from: &str) -> Rule {
        let selector = Selector {
            from: Some(from.parse().unwrap()),
            ..Selector::any(family)
        };
        Rule::lookup(30_000, selector, 20_000, 78)
    }

    #[test]
    fn a_rule_of_a_policy_prints_as_ip_rule_does() {
        let mut rule = rule(Family::V4, "10.1.0.1/32");
        rule.selector.proto = Some(6);
        rule.selector.dport = Some(PortRange::new(443, 443).unwrap());

        assert_eq!(
            rule.to_string(),
            "30000:\tfrom 10.1.0.1 ipproto tcp dport 443 lookup 20000 proto 78"
        );
    }

    #[test]
    fn the_kernels_own_tables_have_names_and_its_own_rules_no_protocol() {
        let names = [255, 254, 253].map(|table| {
            Rule::lookup(0, Selector::any(Family::V4), table, RTPROT_KERNEL).to_string()
        });

        assert_eq!(
            names,
            [
                "0:\tfrom all lookup local",
                "0:\tfrom all lookup main",
                "0:\tfrom all lookup default"
            ]
        );
    }

    #[test]
    fn what_else_a_rule_has_is_said_in_words_or_by_number() {
        let mut rule = rule(Family::V6, "fd00::/16");
        rule.rest
            .insert(fra::FRA_SUPPRESS_PREFIXLEN, &0_u32.to_ne_bytes());
        rule.rest.insert(fra::FRA_FWMASK, &0xff_u32.to_ne_bytes());
        rule.rest.insert(fra::FRA_OIFNAME, b"eth0\0");
        rule.rest.insert(99, &[]);

        assert_eq!(
            rule.to_string(),
            "30000:\tfrom fd00::/16 fwmark 0/0xff oif eth0 lookup 20000 suppress_prefixlength 0 \
             proto 78 attr 99"
        );
    }

    #[test]
    fn what_a_rule_does_besides_looking_up_is_said() {
        let actions = [
            Action::Nop,
            Action::Other(7),
            Action::Other(fra::FR_ACT_GOTO),
        ];
        let texts = actions.map(|action| {
            let selector = Selector::any(Family::V4);
            Rule {
                action,
                table: 0,
                ..Rule::lookup(9, selector, 0, 0)
            }
            .to_string()
        });

        assert_eq!(
            texts,
            [
                "9:\tfrom all nop",
                "9:\tfrom all unreachable",
                "9:\tfrom all goto none"
            ]
        );
    }
}
