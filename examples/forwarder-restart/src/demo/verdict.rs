//! Whether all is well. Nothing here looks at the kernel or at a clock.

use super::cli::Recovery;
use super::tally::Datagrams;
use serde::Serialize;

/// What the demo found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings {
    /// How rules were found again.
    pub recovery: Recovery,
    /// How often the forwarding side restarted.
    pub restarts: u16,
    /// How many connections returned each time.
    pub connections: u16,
    /// How many policies each had in a family.
    pub policies: u16,
    /// By which they were shuffled.
    pub seed: u64,
    /// Rules of the policies before the first restart.
    pub rules_before: u64,
    /// Of these, those that stood after each restart: same rule, same priority, same table.
    pub rules_kept: u64,
    /// Rules of the policies after the last restart.
    pub rules_after: u64,
    /// Policies that did not lead to the interface of their connection, after the worst restart.
    pub policies_astray: u64,
    /// Notifications of rules that came or went, without the probe for IPv6 sockets.
    pub rule_events: u64,
    /// Rules and routes of others that came, went, or changed.
    pub foreign_changed: u64,
    /// Requests that failed.
    pub requests_failed: u64,
    /// What became of the datagrams.
    #[serde(flatten)]
    pub datagrams: Datagrams,
}

impl Findings {
    /// All that is not as it should be, in words, the worst first. Nothing, if all is well.
    pub fn faults(&self) -> Vec<String> {
        let wanted = 2 * u64::from(self.connections) * u64::from(self.policies);
        let Datagrams {
            leaked,
            lost,
            eth0,
            silent_policies,
            ..
        } = self.datagrams;
        let leaked_closed = if self.recovery == Recovery::ReattachFailClosed {
            eth0
        } else {
            0
        };
        let faults = [
            (
                self.rules_before.abs_diff(wanted),
                "rule missing from the start",
                "rules missing from the start",
            ),
            (
                self.rules_before.saturating_sub(self.rules_kept),
                "rule not kept",
                "rules not kept",
            ),
            (leaked, "datagram leaked", "datagrams leaked"),
            (self.policies_astray, "policy astray", "policies astray"),
            (
                self.foreign_changed,
                "foreign object changed",
                "foreign objects changed",
            ),
            (
                leaked_closed,
                "datagram left by eth0",
                "datagrams left by eth0",
            ),
            (self.requests_failed, "request failed", "requests failed"),
            (lost, "datagram lost", "datagrams lost"),
            (
                silent_policies,
                "policy without traffic",
                "policies without traffic",
            ),
            (
                self.rules_after.saturating_sub(self.rules_kept),
                "new rule",
                "new rules",
            ),
            (self.rule_events, "rule event", "rule events"),
        ];
        let faults = faults.into_iter().filter(|(number, ..)| *number > 0);
        faults
            .map(|(number, one, many)| count(number, one, many))
            .collect()
    }
}

/// A number and what it counts.
pub fn count(number: u64, one: &str, many: &str) -> String {
    let what = if number == 1 { one } else { many };
    format!("{} {what}", thousands(number))
}

/// A number with its thousands apart.
pub fn thousands(number: u64) -> String {
    if number < 1000 {
        number.to_string()
    } else {
        format!("{},{:03}", thousands(number / 1000), number % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> Findings {
        Findings {
            recovery: Recovery::Reattach,
            restarts: 1,
            connections: 2,
            policies: 1,
            seed: 1,
            rules_before: 4,
            rules_kept: 4,
            rules_after: 4,
            policies_astray: 0,
            rule_events: 0,
            foreign_changed: 0,
            requests_failed: 0,
            datagrams: Datagrams {
                served: 9,
                own_link: 9,
                unserved: 3,
                eth0: 3,
                ..Datagrams::default()
            },
        }
    }

    #[test]
    fn all_is_well_only_where_nothing_is_wrong() {
        assert_eq!(well().faults(), [""; 0]);

        let wrong: [fn(&mut Findings); 11] = [
            |it| it.rules_before = 0,
            |it| it.policies = 2,
            |it| it.rules_kept = 3,
            |it| it.rules_after = 5,
            |it| it.policies_astray = 1,
            |it| it.rule_events = 1,
            |it| it.foreign_changed = 1,
            |it| it.requests_failed = 1,
            |it| it.datagrams.leaked = 1,
            |it| it.datagrams.lost = 1,
            |it| it.datagrams.silent_policies = 1,
        ];
        for (index, spoil) in wrong.into_iter().enumerate() {
            let mut findings = well();
            spoil(&mut findings);
            assert!(!findings.faults().is_empty(), "{index}");
        }
    }

    #[test]
    fn what_leaves_by_eth0_in_the_gap_is_a_fault_only_where_policies_fail_closed() {
        let mut findings = well();
        assert!(findings.faults().is_empty());

        findings.recovery = Recovery::ReattachFailClosed;

        assert_eq!(findings.faults(), ["3 datagrams left by eth0"]);
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(thousands(7), "7");
        assert_eq!(thousands(1_002_030), "1,002,030");
        assert_eq!(count(1, "policy", "policies"), "1 policy");
    }
}
