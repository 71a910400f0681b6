//! Rules of ours that nobody claims, and tables of ours that no rule looks up.

use crate::actual::Place;
use nsm_netlink::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// What of ours is left over in one namespace and waits for its end.
///
/// A table without a rule waits too, though not for long: another process of the same owner (one
/// that is being replaced by this one) may be between its routes and its rule.
///
/// A rule that works and that nobody named is not among them: it harms nobody, may be another
/// process's, and dies with its link.
#[derive(Debug, Clone, Default)]
pub struct Leftovers {
    waiting: BTreeMap<Rule, Waiting>,
    orphans: BTreeMap<Place, Instant>,
    /// When a removal that failed is tried again.
    again: Option<Instant>,
    /// Until when nothing is tried on its own, after a try has failed.
    put_off: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    since: Instant,
    /// Whether a close named it, so that it goes even if it works.
    named: bool,
}

impl Leftovers {
    /// Takes note of the rules that nobody claims, each with whether it is dead.
    pub fn observe(&mut self, unclaimed: &BTreeMap<&Rule, bool>, now: Instant) {
        self.waiting.retain(|rule, waiting| {
            unclaimed
                .get(rule)
                .is_some_and(|dead| *dead || waiting.named)
        });
        for (rule, dead) in unclaimed {
            if *dead && !self.waiting.contains_key(*rule) {
                self.waiting.insert(
                    (*rule).clone(),
                    Waiting {
                        since: now,
                        named: false,
                    },
                );
            }
        }
    }

    /// Takes note of the tables that no rule looks up.
    pub fn observe_orphans(&mut self, orphans: &BTreeSet<Place>, now: Instant) {
        self.orphans.retain(|place, _| orphans.contains(place));
        for place in orphans {
            self.orphans.entry(*place).or_insert(now);
        }
    }

    /// Forgets a table that has been emptied or taken into use.
    pub fn forget_orphan(&mut self, place: Place) {
        self.orphans.remove(&place);
    }

    /// The tables whose time has come.
    pub fn due_orphans(&self, now: Instant, settle: Duration) -> BTreeSet<Place> {
        let due = self
            .orphans
            .iter()
            .filter(|(_, since)| **since + settle <= now);
        due.map(|(place, _)| *place).collect()
    }

    /// Takes note that everything else has been tried again.
    pub fn tried(&mut self) {
        self.again = None;
        self.put_off = None;
    }

    /// Takes note that a close has named a rule.
    pub fn name(&mut self, rule: &Rule, now: Instant) {
        let waiting = Waiting {
            since: now,
            named: true,
        };
        self.waiting.entry(rule.clone()).or_insert(waiting).named = true;
    }

    /// Takes note that a rule could not be removed: as if a close had named it just now.
    pub fn postpone(&mut self, rule: &Rule, now: Instant) {
        self.waiting.insert(
            rule.clone(),
            Waiting {
                since: now,
                named: true,
            },
        );
    }

    /// Takes note that something could not be removed.
    pub fn try_again(&mut self, at: Instant) {
        self.again = Some(self.again.map_or(at, |former| former.min(at)));
    }

    /// Takes note that what was due could not even be looked at: no call that fails meanwhile
    /// brings the next try forward.
    pub fn put_off(&mut self, until: Instant) {
        self.put_off = Some(until);
    }

    /// Forgets a rule that has been removed.
    pub fn forget(&mut self, rule: &Rule) {
        self.waiting.remove(rule);
    }

    /// The rules whose time has come.
    pub fn due(&self, now: Instant, grace: Duration) -> BTreeSet<Rule> {
        self.waiting
            .iter()
            .filter(|(_, waiting)| waiting.since + grace <= now)
            .map(|(rule, _)| rule.clone())
            .collect()
    }

    /// When there is something to do next.
    pub fn next(&self, grace: Duration, settle: Duration) -> Option<Instant> {
        let rules = self.waiting.values().map(|waiting| waiting.since + grace);
        let orphans = self.orphans.values().map(|since| *since + settle);
        let next = rules.chain(orphans).chain(self.again).min();
        next.max(next.and(self.put_off))
    }

    /// Whether nothing waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.orphans.is_empty() && self.again.is_none()
    }

    /// How many rules wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_netlink::{Family, Selector};

    const GRACE: Duration = Duration::from_secs(900);
    const SETTLE: Duration = Duration::from_secs(10);

    fn rule(table: u32) -> Rule {
        Rule::lookup(30000, Selector::any(Family::V4), table, 78)
    }

    #[test]
    fn a_dead_rule_goes_after_grace_and_not_before() {
        let (mut left, dead) = (Leftovers::default(), rule(1));
        let start = Instant::now();

        left.observe(&[(&dead, true)].into(), start);
        left.observe(&[(&dead, true)].into(), start + GRACE / 2);

        assert!(
            left.due(start + GRACE - Duration::from_secs(1), GRACE)
                .is_empty()
        );
        assert_eq!(left.due(start + GRACE, GRACE), [dead].into());
        assert_eq!(left.next(GRACE, SETTLE), Some(start + GRACE));
    }

    #[test]
    fn a_rule_that_works_or_has_gone_does_not_wait() {
        let (mut left, a, b) = (Leftovers::default(), rule(1), rule(2));
        let start = Instant::now();
        left.observe(&[(&a, true), (&b, true)].into(), start);

        left.observe(&[(&a, false)].into(), start + GRACE);

        assert_eq!((left.len(), left.next(GRACE, SETTLE)), (0, None));
    }

    #[test]
    fn a_rule_that_a_close_named_goes_though_it_works() {
        let (mut left, works) = (Leftovers::default(), rule(1));
        let start = Instant::now();

        left.name(&works, start);
        left.observe(&[(&works, false)].into(), start + GRACE / 2);

        assert_eq!(left.due(start + GRACE, GRACE), [works].into());
    }

    #[test]
    fn what_could_not_be_removed_is_tried_again_at_the_earliest_time_noted() {
        let mut left = Leftovers::default();
        let start = Instant::now();

        left.try_again(start + GRACE);
        left.try_again(start + GRACE / 2);
        assert_eq!(left.next(GRACE, SETTLE), Some(start + GRACE / 2));

        left.tried();
        assert_eq!(left.next(GRACE, SETTLE), None);
    }

    #[test]
    fn a_rule_that_could_not_be_removed_waits_anew_and_goes_though_it_works() {
        let (mut left, refused) = (Leftovers::default(), rule(1));
        let start = Instant::now();
        left.name(&refused, start);

        let failed = start + GRACE;
        left.postpone(&refused, failed);
        left.observe(&[(&refused, false)].into(), failed + GRACE / 2);

        assert_eq!(left.next(GRACE, SETTLE), Some(failed + GRACE));
        assert!(left.due(failed + GRACE / 2, GRACE).is_empty());
        assert_eq!(left.due(failed + GRACE, GRACE), [refused].into());
    }

    #[test]
    fn a_rule_that_could_not_be_removed_waits_though_nobody_had_noted_it() {
        let (mut left, refused) = (Leftovers::default(), rule(1));
        let start = Instant::now();

        left.postpone(&refused, start);

        assert_eq!(left.due(start + GRACE, GRACE), [refused].into());
    }

    #[test]
    fn a_rule_that_has_been_removed_waits_no_more() {
        let (mut left, removed, other) = (Leftovers::default(), rule(1), rule(2));
        let start = Instant::now();
        left.name(&removed, start);
        left.name(&other, start + SETTLE);

        left.forget(&removed);
        assert_eq!(left.len(), 1);
        assert_eq!(left.next(GRACE, SETTLE), Some(start + SETTLE + GRACE));

        left.forget(&other);
        assert!(left.is_idle());
    }

    #[test]
    fn a_table_without_a_rule_goes_when_it_is_still_without_one_after_a_while() {
        let mut left = Leftovers::default();
        let start = Instant::now();
        let (alone, used) = ((Family::V4, 20000), (Family::V6, 20000));

        left.observe_orphans(&[alone, used].into(), start);
        assert!(left.due_orphans(start, SETTLE).is_empty());
        assert_eq!(left.next(GRACE, SETTLE), Some(start + SETTLE));

        left.observe_orphans(&[alone].into(), start + SETTLE);
        assert_eq!(left.due_orphans(start + SETTLE, SETTLE), [alone].into());

        left.forget_orphan(alone);
        assert!(left.is_idle());
    }
}
