use super::tables::Stay;
use super::{Case, Problem};
use crate::picture::is_hidden;
use nsm_netlink::Rule;

impl Case<'_> {
    /// Whether a rule of ours of another selector looks up the table of a rule too.
    pub(super) fn is_shared(&self, rule: &Rule) -> bool {
        let mut others = self.after.lookups((rule.family(), rule.table));
        others.any(|other| {
            self.owner.owns_rule(other)
                && !(other.is_plain() && rule.is_plain() && other.selector == rule.selector)
        })
    }

    /// A table that two policies share is never edited. A policy may stay there where it was, as
    /// long as the table holds what it wants and no more: its traffic would take that, too.
    pub(super) fn shared_table(&self, rule: &Rule, problems: &mut Vec<Problem>) {
        let (selector, place) = (&rule.selector, (rule.family(), rule.table));
        self.is_untouched(place, problems);
        let stood = self.before.rules_of(self.owner, selector);
        if !stood.iter().any(|old| old.table == rule.table) {
            let text = format!("a table of another policy was given: {rule}");
            problems.push(Problem::lacks(selector, text));
        }
        if !self.has_content(&rule.selector) || self.has_run_out() {
            return;
        }
        self.lacks_nothing(selector, place, problems);
        // A leg whose mark is hidden may be another's, too.
        let routes = self.after.routes_in(place);
        let mut ours = routes.filter(|it| self.after.is_own(self.owner, it) || is_hidden(it));
        if let Some(more) = ours.find(|route| self.stay(selector, route) != Stay::Wanted) {
            let text = format!("[{selector}] shares {}", self.after.print(more));
            problems.push(Problem::lacks(selector, text));
        }
        let mut others = self
            .after
            .own_rules(self.owner)
            .filter(|other| (other.family(), other.table) == place && other.selector != *selector);
        // A spare rule is a problem for itself.
        let is_only = |other: &Rule| self.after.rules_of(self.owner, &other.selector).len() == 1;
        if others
            .any(|other| other.is_plain() && is_only(other) && self.has_content(&other.selector))
        {
            let text = format!("two policies that are wanted share a table: {rule}");
            problems.push(Problem::lacks(selector, text));
        }
    }
}
