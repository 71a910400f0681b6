use super::{Case, Problem};
use crate::picture::{is_hidden, is_probe};
use nsm_netlink::{Family, Op, Rule};

/// The most bursts of one plan, the probe aside.
const BURSTS: usize = 4;

impl Case<'_> {
    /// S4 and how it is written: nothing where nothing has to be done, nothing that is not ours,
    /// four bursts at most, and one probe where IPv6 routes changed behind a rule that stands.
    pub fn writes(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (op, outcome) in self.record.writes().filter(|(op, _)| !self.is_of_probe(op)) {
            if !self.names_ours(op) {
                problems.push(Problem::wrong(format!("not ours to write: {op}")));
            }
            if outcome.is_ok() && self.was_right() {
                problems.push(Problem::wrong(format!("all was right, and yet: {op}")));
            } else if !self.may_be_tried(op) && self.was_right() {
                problems.push(Problem::wrong(format!(
                    "all was right, and yet it tried: {op}"
                )));
            }
        }
        let (probes, bursts): (Vec<_>, Vec<_>) = self
            .record
            .bursts
            .iter()
            .partition(|burst| burst.iter().all(|(op, _)| self.is_of_probe(op)));
        if bursts.len() > BURSTS {
            problems.push(Problem::wrong(format!("{} bursts", bursts.len())));
        }
        let expected = usize::from(self.needs_probe());
        let whole = probes.iter().all(|burst| burst.len() == 2);
        // Where a former probe was left, its removal is a change of a rule itself; where former work
        // has not come to its probe, there is one more reason.
        let any = self.unsettled || self.before.probes(self.owner).next().is_some();
        if !any && (probes.len() != expected || !whole) {
            problems.push(Problem::wrong(format!(
                "{} probes, not {expected}",
                probes.len()
            )));
        }
        let left = self.after.probes(self.owner);
        problems.extend(left.map(|rule| Problem::rule_too_many(rule, "left of a probe")));
        problems
    }

    fn is_of_probe(&self, op: &Op) -> bool {
        matches!(op, Op::AddRule(rule) | Op::DelRule(rule) if is_probe(rule, self.owner))
    }

    fn names_ours(&self, op: &Op) -> bool {
        match op {
            Op::AddRule(rule) | Op::DelRule(rule) => self.owner.owns_rule(rule),
            // Of a leg whose mark is hidden the delete says that it is ours: the kernel knows.
            Op::AddRoute(route, _) | Op::DelRoute(route) => {
                self.owner.tables.contains(route.table)
                    && (self.owner.owns_route(route) || is_hidden(route))
            }
        }
    }

    /// A leg whose mark is hidden may be tried, to learn whose it is.
    fn may_be_tried(&self, op: &Op) -> bool {
        matches!(op, Op::DelRoute(route) if is_hidden(route))
    }

    fn needs_probe(&self) -> bool {
        let v6 = |rule: &Rule| rule.family() == Family::V6;
        let ops = || {
            self.record
                .writes()
                .map(|(op, _)| op)
                .filter(|op| !self.is_of_probe(op))
        };
        let moves_rule =
            ops().any(|op| matches!(op, Op::AddRule(rule) | Op::DelRule(rule) if v6(rule)));
        let behind = |table: u32| {
            let mut rules = self.before.lookups((Family::V6, table));
            rules.any(|rule| self.owner.owns_rule(rule))
        };
        let writes_route = ops().any(|op| {
            matches!(op, Op::AddRoute(route, _) | Op::DelRoute(route)
                if route.family() == Family::V6 && behind(route.table))
        });
        writes_route && !moves_rule
    }
}
