//! The list of rules of one family (`net/core/fib_rules.c`).

use super::refuse;
use crate::rtnl::rule::{
    FR_ACT_GOTO, FRA_DST, FRA_FWMARK, FRA_FWMASK, FRA_GOTO, FRA_IIFNAME, FRA_L3MDEV, FRA_OIFNAME,
};
use crate::{Action, Attributes, Errno, Family, PortRange, Refusal, Rule, Selector};

const RTPROT_KERNEL: u8 = 2;
/// `IFNAMSIZ` without the NUL.
const LONGEST_NAME: usize = 15;
/// The two low bits of a type of service are ECN and select nothing.
const ECN: u8 = 0x03;
const FR_ACT_UNSPEC: Action = Action::Other(0);

/// What a writer wants of a rule that is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// No second one that is equal (`NLM_F_EXCL`).
    Exclusive,
    /// A second one, where an equal one stands.
    Duplicate,
    /// A number that the kernel chooses.
    Unnumbered,
}

/// The rules of one family.
#[derive(Debug)]
pub(super) struct Rules {
    list: Vec<Rule>,
    /// What lookups ask, where it is not the list: until the first IPv6 rule is added they know
    /// only that the tables `local` and `main` are asked, whatever was deleted meanwhile
    /// (`fib6_has_custom_rules`, net/ipv6/fib6_rules.c).
    assumed: Option<Vec<Rule>>,
}

impl Rules {
    /// The rules that a new namespace has (`fib_default_rules_init`, `fib6_rules_net_init`).
    pub(super) fn fresh(family: Family) -> Self {
        let numbers: &[(u32, u32)] = match family {
            Family::V4 => &[(0, 255), (32766, 254), (32767, 253)],
            Family::V6 => &[(0, 255), (32766, 254)],
        };
        let rule = |&(priority, table): &(u32, u32)| {
            Rule::lookup(priority, Selector::any(family), table, RTPROT_KERNEL)
        };
        let list: Vec<_> = numbers.iter().map(rule).collect();
        let assumed = (family == Family::V6).then(|| list.clone());
        Self { list, assumed }
    }

    pub(super) fn list(&self) -> &[Rule] {
        &self.list
    }

    /// The rules as lookups know them.
    pub(super) fn asked(&self) -> &[Rule] {
        self.assumed.as_deref().unwrap_or(&self.list)
    }

    /// Adds a rule behind its equals in number. `pick_table` finds a table for a lookup that names
    /// none.
    pub(super) fn add(
        &mut self,
        mut rule: Rule,
        want: Want,
        pick_table: impl FnOnce() -> Result<u32, Refusal>,
    ) -> Result<Rule, Refusal> {
        if want == Want::Unnumbered {
            rule.priority = self.in_front();
        }
        check(&rule)?;
        rule.selector.from = rule.selector.from.filter(|net| net.prefix_len() > 0);
        rule.selector.proto = rule.selector.proto.filter(|proto| *proto != 0);
        if want != Want::Duplicate && self.list.iter().any(|other| is_taken_for(other, &rule)) {
            return Err(Errno::EEXIST.into());
        }
        if rule.tos & ECN != 0 {
            return Err(refuse(
                Errno::EINVAL,
                "Invalid dsfield (tos): ECN bits must be 0",
            ));
        }
        if rule.table == 0 && rule.action == Action::Lookup {
            rule.table = pick_table()?;
        }
        let at = self
            .list
            .partition_point(|other| other.priority <= rule.priority);
        self.list.insert(at, rule.clone());
        self.assumed = None;
        Ok(rule)
    }

    /// Deletes the first rule that agrees in every field that is given and not 0. What is not given
    /// is not compared, and neither is the inversion (`rule_find`).
    pub(super) fn delete(&mut self, like: &Rule) -> Result<Rule, Refusal> {
        check(like)?;
        let at = self
            .list
            .iter()
            .position(|rule| agrees(rule, like))
            .ok_or(Errno::ENOENT)?;
        Ok(self.list.remove(at))
    }

    /// One less than the number of the second rule, so that a rule without a number goes in front
    /// of all but the first (`fib_default_rule_pref`).
    fn in_front(&self) -> u32 {
        self.list
            .get(1)
            .map_or(0, |second| second.priority.saturating_sub(1))
    }
}

/// What is refused before the list is looked at, of a delete too (`fib_nl2rule`).
fn check(rule: &Rule) -> Result<(), Refusal> {
    let invalid = |text| Err(refuse(Errno::EINVAL, text));
    let is_too_long = |kind| {
        let name = rule.rest.get(kind).unwrap_or_default();
        name.strip_suffix(&[0]).unwrap_or(name).len() > LONGEST_NAME
    };
    if rule.rest.get(FRA_L3MDEV).is_some() {
        return Err(refuse(
            Errno::EOPNOTSUPP,
            "the fake kernel has no such rules",
        ));
    }
    if is_too_long(FRA_IIFNAME) || is_too_long(FRA_OIFNAME) {
        return Err(refuse(Errno::ERANGE, "Error parsing msg"));
    }
    if rule
        .selector
        .from
        .is_some_and(|net| Family::of_net(&net) != rule.family())
    {
        return invalid("Invalid source address");
    }
    match (
        rule.action == Action::Other(FR_ACT_GOTO),
        target(&rule.rest),
    ) {
        (false, Some(_)) => return invalid("Unexpected goto"),
        (true, None) => return invalid("Missing goto target for action goto"),
        _ => {}
    }
    if rule.selector.sport.is_some_and(is_invalid) {
        return invalid("Invalid sport range");
    }
    if rule.selector.dport.is_some_and(is_invalid) {
        return invalid("Invalid dport range");
    }
    if target(&rule.rest).is_some_and(|target| target <= rule.priority) {
        return invalid("Backward goto not supported");
    }
    Ok(())
}

/// Where a rule jumps to, by number.
pub(super) fn target(rest: &Attributes) -> Option<u32> {
    rest.get(FRA_GOTO)?.try_into().ok().map(u32::from_ne_bytes)
}

fn is_invalid(ports: PortRange) -> bool {
    PortRange::new(ports.start(), ports.end()).is_err()
}

/// Whether the kernel takes a rule that stands for one that is new (`rule_exists`). It does not
/// compare the inversion, although the meaning is opposite; and where the new one has no source, no
/// destination or no type of service, one that has such will do (`fib4_rule_compare`).
fn is_taken_for(stands: &Rule, new: &Rule) -> bool {
    let (a, b) = (&stands.selector, &new.selector);
    let rest = |rule: &Rule| -> Attributes {
        let strict = rule
            .rest
            .iter()
            .filter(is_compared)
            .filter(|(kind, _)| *kind != FRA_DST);
        strict
            .map(|(kind, payload)| (kind, payload.to_vec()))
            .collect()
    };
    let (to, new_to) = (stands.rest.get(FRA_DST), new.rest.get(FRA_DST));
    stands.priority == new.priority
        && (b.from.is_none() || a.from == b.from)
        && (a.proto, a.sport, a.dport) == (b.proto, b.sport, b.dport)
        && stands.table == new.table
        && stands.action == new.action
        && stands.protocol == new.protocol
        && (new.tos == 0 || stands.tos == new.tos)
        && (new_to.is_none() || to == new_to)
        && mark(&stands.rest) == mark(&new.rest)
        && rest(stands) == rest(new)
}

fn agrees(rule: &Rule, like: &Rule) -> bool {
    fn given<T: PartialEq>(field: &T, like: &T, nothing: &T) -> bool {
        like == nothing || like == field
    }
    let (value, mask) = mark(&rule.rest);
    let (like_value, like_mask) = mark(&like.rest);
    let like_from = like.selector.from.filter(|net| net.prefix_len() > 0);
    let like_proto = like.selector.proto.filter(|proto| *proto != 0);
    rule.priority == like.priority
        && given(&rule.table, &like.table, &0)
        && given(&rule.action, &like.action, &FR_ACT_UNSPEC)
        && given(&rule.protocol, &like.protocol, &0)
        && (like.tos == 0 || rule.tos == like.tos)
        && given(&rule.selector.from, &like_from, &None)
        && given(&rule.selector.proto, &like_proto, &None)
        && given(&rule.selector.sport, &like.selector.sport, &None)
        && given(&rule.selector.dport, &like.selector.dport, &None)
        && given(&value, &like_value, &0)
        && given(&mask, &like_mask, &0)
        && like
            .rest
            .iter()
            .filter(is_compared)
            .all(|(kind, payload)| rule.rest.get(kind) == Some(payload))
}

/// The mark that a rule selects, and the bits of it that count: all, where a mark is given and no
/// mask.
pub(super) fn mark(rest: &Attributes) -> (u32, u32) {
    let number = |kind| {
        rest.get(kind)
            .and_then(|it| it.try_into().ok())
            .map(u32::from_ne_bytes)
    };
    match (number(FRA_FWMARK), number(FRA_FWMASK)) {
        (None, None) => (0, 0),
        (Some(value), None) => (value, u32::MAX),
        (value, Some(mask)) => (value.unwrap_or(0), mask),
    }
}

/// The mark is compared for itself, the target of a jump never.
fn is_compared(attribute: &(u16, &[u8])) -> bool {
    !matches!(attribute.0, FRA_FWMARK | FRA_FWMASK | FRA_GOTO)
}
