//! What the restarts did to the rules, one after the other. Nothing here looks at the kernel.

use super::state::Row;
use nsm_netlink::Rule;
use std::time::Duration;

/// The restarts so far.
#[derive(Debug, Clone)]
pub struct Course {
    /// The policies' rules before the first restart.
    pub before: Vec<Row>,
    /// Of these, the rules that stood after each restart.
    pub kept: Vec<Rule>,
    /// The policies' rules after the last restart.
    pub last: Vec<Row>,
    /// After the restart that left most policies astray, the latest of several; and which that was.
    pub worst: (u16, Vec<Row>),
    /// How long the connections took to be back, each time.
    pub returns: Vec<Duration>,
}

impl Course {
    /// Before the first restart.
    pub fn new(before: Vec<Row>) -> Self {
        Self {
            kept: before.iter().map(|row| row.rule.clone()).collect(),
            last: before.clone(),
            worst: (0, before.clone()),
            before,
            returns: Vec::new(),
        }
    }

    /// After the next restart.
    pub fn restarted(&mut self, rows: Vec<Row>, took: Duration) {
        self.returns.push(took);
        self.kept
            .retain(|rule| rows.iter().any(|row| row.rule == *rule));
        if self.returns.len() == 1 || astray(&rows) >= astray(&self.worst.1) {
            self.worst = (self.returns.len() as u16, rows.clone());
        }
        self.last = rows;
    }

    /// How long the connections took to be back on average.
    pub fn mean_return(&self) -> Duration {
        self.returns.iter().sum::<Duration>() / (self.returns.len() as u32).max(1)
    }

    /// How long they took at most.
    pub fn longest_return(&self) -> Duration {
        self.returns.iter().copied().max().unwrap_or_default()
    }

    /// How many policies led astray after the worst restart.
    pub fn astray(&self) -> usize {
        astray(&self.worst.1)
    }
}

/// How many policies do not lead to their interface. Of several rules of one policy only the first
/// is ever asked.
fn astray(rows: &[Row]) -> usize {
    let asked = rows.iter().enumerate().filter(|(index, row)| {
        rows[..*index]
            .iter()
            .all(|former| former.rule.selector != row.rule.selector)
    });
    asked.filter(|(_, row)| row.astray.is_some()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::topology::Topology;

    /// Rules of the four policies of a connection by priority, and which of them lead astray.
    fn rows(priority: u32, astray: &[usize]) -> Vec<Row> {
        let policies = Topology::new(1, 2).policies.into_iter().enumerate();
        policies
            .map(|(index, policy)| Row {
                rule: Rule::lookup(priority, policy.selector(), 20000 + index as u32, 78),
                route: String::new(),
                guarded: false,
                astray: astray.contains(&index).then(|| "nsm-0".to_owned()),
            })
            .collect()
    }

    #[test]
    fn a_rule_counts_as_kept_if_it_stood_after_each_restart() {
        let mut course = Course::new(rows(1, &[]));

        course.restarted(rows(1, &[]), Duration::ZERO);
        assert_eq!(course.kept.len(), 4);

        course.restarted(rows(2, &[]), Duration::ZERO);
        course.restarted(rows(1, &[]), Duration::ZERO);
        assert_eq!(course.kept.len(), 0, "to come back is not to be kept");
    }

    #[test]
    fn the_worst_restart_is_shown_and_the_last_where_all_are_alike() {
        let mut course = Course::new(rows(1, &[]));
        for astray in [&[0][..], &[1, 2], &[]] {
            course.restarted(rows(1, astray), Duration::ZERO);
        }
        assert_eq!((course.worst.0, course.astray()), (2, 2));

        let mut course = Course::new(rows(1, &[]));
        for _ in 0..3 {
            course.restarted(rows(1, &[]), Duration::ZERO);
        }
        assert_eq!((course.worst.0, course.astray()), (3, 0));
    }

    #[test]
    fn a_rule_that_is_never_asked_leads_nobody_astray() {
        let mut course = Course::new(rows(1, &[]));
        let mut doubled = rows(1, &[]);
        doubled.extend(rows(2, &[0]));

        course.restarted(doubled, Duration::ZERO);

        assert_eq!(course.astray(), 0);
    }
}
