use crate::{Attributes, Family};
use ipnet::IpNet;
use std::fmt;
use thiserror::Error;

/// A range of ports, both ends included.
///
/// The kernel takes 1 to 65534 (`nla_get_port_range` in net/core/fib_rules.c refuses 0, 65535 and a
/// reversed range).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    start: u16,
    end: u16,
}

impl PortRange {
    /// The range from `start` to `end`.
    ///
    /// # Errors
    /// When the range is reversed or an end is 0 or 65535.
    pub const fn new(start: u16, end: u16) -> Result<Self, PortRangeError> {
        if start == 0 || end == u16::MAX || start == u16::MAX || end == 0 {
            return Err(PortRangeError::Limit);
        }
        if start > end {
            return Err(PortRangeError::Reversed);
        }
        Ok(Self { start, end })
    }

    /// A range exactly as a dump gives it: of another writer's rules, anything may stand there.
    pub const fn from_dump(start: u16, end: u16) -> Self {
        Self { start, end }
    }

    /// The lowest port.
    pub const fn start(&self) -> u16 {
        self.start
    }

    /// The highest port.
    pub const fn end(&self) -> u16 {
        self.end
    }

    /// Whether the range is one port.
    pub const fn is_single(&self) -> bool {
        self.start == self.end
    }

    /// Whether every port of `other` lies in this range.
    pub const fn covers(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether the two have a port in common.
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() {
            write!(f, "{}", self.start)
        } else {
            write!(f, "{}-{}", self.start, self.end)
        }
    }
}

/// Why two numbers are no range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PortRangeError {
    /// An end is 0 or 65535.
    #[error("a port must be 1 to 65534 (the kernel's limit for rules)")]
    Limit,
    /// The range ends before it begins.
    #[error("the range of ports ends before it begins")]
    Reversed,
}

/// What a policy's rule selects: the identity of a policy.
///
/// `from` keeps its host bits, as the kernel does: `10.0.0.7/24` and `10.0.0.0/24` are two
/// different selectors. Whoever makes a selector to be installed masks it first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    /// Rules of the two families never meet.
    pub family: Family,
    /// The packet's source; `None` is any. Never of length 0.
    pub from: Option<IpNet>,
    /// The IANA number of the protocol above IP; `None` is any.
    pub proto: Option<u8>,
    /// Source ports; `None` is any.
    pub sport: Option<PortRange>,
    /// Destination ports; `None` is any.
    pub dport: Option<PortRange>,
}

impl Selector {
    /// The selector of all traffic of a family.
    pub const fn any(family: Family) -> Self {
        Self {
            family,
            from: None,
            proto: None,
            sport: None,
            dport: None,
        }
    }

    /// Whether everything that `other` selects is selected by this one too.
    pub fn covers(&self, other: &Self) -> bool {
        fn field<T>(ours: &Option<T>, theirs: &Option<T>, covers: impl Fn(&T, &T) -> bool) -> bool {
            match (ours, theirs) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(a), Some(b)) => covers(a, b),
            }
        }
        self.family == other.family
            && field(&self.from, &other.from, |a, b| {
                a.trunc().contains(&b.trunc())
            })
            && field(&self.proto, &other.proto, |a, b| a == b)
            && field(&self.sport, &other.sport, PortRange::covers)
            && field(&self.dport, &other.dport, PortRange::covers)
    }
}

/// What a rule does with what it selects (`FR_ACT_*`, linux/fib_rules.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Looks up [`Rule::table`].
    Lookup,
    /// Nothing: evaluation goes on.
    Nop,
    /// Any other action, by its number.
    Other(u8),
}

/// A rule of the routing policy database, as ip-rule(8) shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// Rules are asked in the order of this number, lowest first; equals in the order of age.
    pub priority: u32,
    /// The fields that policies use.
    pub selector: Selector,
    /// The table that is looked up, 0 where the action looks up none.
    pub table: u32,
    /// What happens to a packet that is selected.
    pub action: Action,
    /// Who made the rule (`FRA_PROTOCOL`); 0 says nobody.
    pub protocol: u8,
    /// Whether the rule selects what its fields do *not* say (`not` in ip-rule(8)).
    pub invert: bool,
    /// The type of service that is selected; 0 is any.
    pub tos: u8,
    /// Whatever else the rule has: destination, interfaces, marks, user ids ...
    pub rest: Attributes,
}

impl Rule {
    /// A rule that looks up a table and has no fields but these.
    pub fn lookup(priority: u32, selector: Selector, table: u32, protocol: u8) -> Self {
        Self {
            priority,
            selector,
            table,
            action: Action::Lookup,
            protocol,
            invert: false,
            tos: 0,
            rest: Attributes::NONE,
        }
    }

    /// The family of the rule.
    pub fn family(&self) -> Family {
        self.selector.family
    }

    /// Whether the rule selects exactly what its [`selector`](Self::selector) says and no less:
    /// it has no other condition, is not inverted and suppresses nothing.
    pub fn is_plain(&self) -> bool {
        !self.invert && self.tos == 0 && self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(net: &str) -> Selector {
        Selector {
            from: Some(net.parse().unwrap()),
            ..Selector::any(Family::V4)
        }
    }

    #[test]
    fn ports_outside_the_kernels_limits_are_refused() {
        assert_eq!(PortRange::new(0, 5), Err(PortRangeError::Limit));
        assert_eq!(PortRange::new(443, 65535), Err(PortRangeError::Limit));
        assert_eq!(PortRange::new(90, 80), Err(PortRangeError::Reversed));
        assert!(PortRange::new(1, 65534).is_ok());
    }

    #[test]
    fn a_wider_selector_covers_a_narrower_one_and_not_the_reverse() {
        let narrow = Selector {
            proto: Some(6),
            dport: Some(PortRange::new(443, 443).unwrap()),
            ..from("10.1.0.1/32")
        };

        assert!(from("10.1.0.0/16").covers(&narrow));
        assert!(Selector::any(Family::V4).covers(&narrow));
        assert!(!narrow.covers(&from("10.1.0.1/32")));
        assert!(!from("10.2.0.0/16").covers(&narrow));
        assert!(!Selector::any(Family::V6).covers(&narrow));
    }

    #[test]
    fn a_selector_prints_as_ip_rule_does() {
        let selector = Selector {
            proto: Some(17),
            sport: Some(PortRange::new(5, 9).unwrap()),
            ..from("10.1.0.1/32")
        };

        assert_eq!(selector.to_string(), "from 10.1.0.1 ipproto udp sport 5-9");
        assert_eq!(from("10.1.0.0/16").to_string(), "from 10.1.0.0/16");
        assert_eq!(Selector::any(Family::V6).to_string(), "from all");
    }
}
