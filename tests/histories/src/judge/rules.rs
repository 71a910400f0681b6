use super::{Case, Fate, Kind, Problem};
use crate::picture::Life;
use crate::wants::priority;
use nsm_netlink::{RouteKind, Rule, Selector};

impl Case<'_> {
    /// S2: for each selector that is wanted one rule, at its own priority; of those that nobody
    /// wants, the ones whose time has not come.
    pub(super) fn rules(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for selector in self.turn.claims.selectors() {
            self.rule_of(selector, &mut problems);
        }
        self.unclaimed(&mut problems);
        problems
    }

    fn rule_of(&self, selector: &Selector, problems: &mut Vec<Problem>) {
        let stood = self.before.rules_of(self.owner, selector);
        let stands = self.after.rules_of(self.owner, selector);
        let name = format!("[{selector}] ({})", selector.family);
        if !self.has_content(selector) {
            // Nobody's interface can be used: what stood stays, and nothing is made.
            for rule in stands.iter().filter(|rule| !stood.contains(rule)) {
                problems.push(Problem::rule_too_many(rule, "made on an empty table"));
            }
            if !stood.is_empty() && stands.is_empty() {
                problems.push(Problem::lacks(
                    selector,
                    format!("{name} has lost its rule"),
                ));
            }
            return;
        }
        let Some(rule) = self.kept(&stands) else {
            if !self.has_run_out() {
                problems.push(Problem::lacks(selector, format!("{name} has no rule")));
            }
            return;
        };
        let spare = stands.iter().filter(|other| **other != rule);
        for rule in spare.filter(|spare| !self.leads_meanwhile(spare, rule)) {
            problems.push(Problem::rule_too_many(rule, "a second rule of one policy"));
        }
        if rule.priority != priority(selector) {
            let text = format!(
                "{name} stands at {}, not {}",
                rule.priority,
                priority(selector)
            );
            problems.push(Problem::lacks(selector, text));
        }
    }

    /// Of several rules of one policy the one that stands for it.
    fn kept<'r>(&self, stands: &[&'r Rule]) -> Option<&'r Rule> {
        let is_kept = |rule: &&&Rule| {
            let mut spare = stands.iter().filter(|other| other != rule);
            spare.all(|spare| self.leads_meanwhile(spare, rule))
        };
        stands.iter().find(is_kept).or(stands.first()).copied()
    }

    /// A rule too many stays while it leads where the one that stands for the policy will only
    /// when a claimant's interface is there: that traffic would take the main table.
    fn leads_meanwhile(&self, spare: &Rule, kept: &Rule) -> bool {
        let claims = &self.turn.claims;
        let content = claims.content(&spare.selector, self.before);
        let leads = |rule: &Rule, prefix| {
            let mut routes = self.after.routes_in((rule.family(), rule.table));
            routes.any(|route| route.kind == RouteKind::Unicast && route.prefix == prefix)
        };
        let prefixes = claims.prefixes(&spare.selector).into_iter();
        let mut waits = prefixes.filter(|prefix| !content.contains_key(prefix));
        self.before.rules.contains(spare)
            && waits.any(|prefix| leads(spare, prefix) && !leads(kept, prefix))
    }

    /// Whether no table is free, so that a policy of another connection may have to go without.
    pub(super) fn has_run_out(&self) -> bool {
        !self
            .owner
            .tables
            .ids()
            .any(|id| !self.after.is_used(id.get()))
    }

    fn unclaimed(&self, problems: &mut Vec<Problem>) {
        let claimed = |rule: &Rule| rule.is_plain() && self.turn.claims.has(&rule.selector);
        for rule in self
            .before
            .own_rules(self.owner)
            .filter(|rule| !claimed(rule))
        {
            let stands = self.after.rules.contains(rule);
            match self.fate(rule) {
                Fate::Goes if stands => {
                    problems.push(Problem::rule_too_many(rule, "should have gone"));
                }
                Fate::Stays if !stands => {
                    problems.push(Problem::wrong(format!("went before its time: {rule}")));
                }
                _ => {}
            }
        }
        for rule in self
            .after
            .own_rules(self.owner)
            .filter(|rule| !claimed(rule))
        {
            if !self.before.rules.contains(rule) {
                problems.push(Problem::rule_too_many(rule, "made, and nobody wants it"));
            }
        }
    }

    /// What becomes of a rule of ours that nobody wants.
    fn fate(&self, rule: &Rule) -> Fate {
        let gone = rule.is_plain() && self.turn.given_up.contains(&rule.selector);
        if gone || self.left.due.contains(rule) {
            return Fate::Goes;
        }
        let mut fate = Fate::Stays;
        if rule.is_plain() && self.turn.unanswered.contains(&rule.selector) {
            let own = self.turn.interface.and_then(|name| self.before.dev(name));
            let place = (rule.family(), rule.table);
            let ways: Vec<_> = self.before.own_ways(self.owner, place).collect();
            let hidden = self.before.routes_in(place).any(crate::picture::is_hidden);
            fate = match self.before.life(self.owner, rule) {
                Life::Dead => Fate::Goes,
                Life::Alive if ways.iter().any(|route| route.dev() != own) => Fate::Stays,
                Life::Alive if hidden => Fate::MayGo,
                Life::Alive => Fate::Goes,
                Life::Unclear => Fate::MayGo,
            };
        }
        if fate == Fate::Stays && self.left.may_go.contains(rule) {
            Fate::MayGo
        } else {
            fate
        }
    }

    /// Whether a problem is about something that a connection wants itself.
    pub fn concerns(&self, problem: &Problem, connection: &str) -> bool {
        let Kind::Lacks(selector) = &problem.kind else {
            return false;
        };
        let claim = self.turn.claims.of(connection);
        claim.is_some_and(|claim| claim.wants.iter().any(|want| want.selector == *selector))
    }
}
