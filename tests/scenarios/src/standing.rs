//! What holds after every call that was to succeed, whatever the file is about: the standing
//! assertions S1, S2, S3, and that rules of ours stay in their band.

use crate::picture::{Ours, Picture, Share, compare, is_unicast};
use crate::print;
use crate::problem::Problem;
use crate::wanted::Routes;
use nsm_netlink::{Action, Route, Rule, Selector};
use nsm_policyroute::Config;
use std::collections::{BTreeMap, BTreeSet};

/// What an open connection wants in the pod.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Its id.
    pub connection: String,
    /// Its link.
    pub interface: String,
    /// Its policies.
    pub wants: BTreeMap<Selector, Routes>,
    /// Whether a call for it has succeeded since the element started: until then its rules may
    /// stand and need not.
    pub counts: bool,
}

/// A pod around a call, as the element is to leave it.
#[derive(Debug)]
pub struct Standing<'a> {
    /// Before the call, or after what somebody else did meanwhile.
    pub before: &'a Picture,
    /// After the call.
    pub after: &'a Picture,
    /// The element that was called.
    pub config: &'a Config,
    /// What is that element's.
    pub ours: &'a Ours,
    /// What is anybody's own here: of all elements that were at work meanwhile.
    pub own_of_all: &'a Ours,
    /// What that element has been asked for.
    pub claims: &'a [Claim],
    /// For each selector, the routes that connections of the file have ever asked for.
    pub ever_asked: &'a BTreeMap<Selector, Routes>,
    /// Rules of ours that may stand although nobody wants them.
    pub left_over: &'a BTreeSet<Rule>,
    /// Whether other calls ran at the same time, so that what stood before may have gone by
    /// itself when a table was given.
    pub concurrent: bool,
}

impl Standing<'_> {
    /// All assertions.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = self.foreign_is_untouched();
        problems.extend(self.rules_are_those_wanted());
        problems.extend(self.tables_are_filled());
        problems.extend(self.tables_were_free());
        problems.extend(self.rules_are_in_band());
        problems
    }

    /// S1: what stood before and is not ours is identical.
    fn foreign_is_untouched(&self) -> Vec<Problem> {
        let problems = compare(self.before, self.after, self.own_of_all, Share::Foreign);
        problems
            .into_iter()
            .map(|problem| Problem {
                what: format!("S1: {}", problem.what),
                ..problem
            })
            .collect()
    }

    /// S2: our rules are the distinct selectors that are wanted, once each, and left-overs.
    fn rules_are_those_wanted(&self) -> Vec<Problem> {
        let own = self.after.own_rules(self.ours);
        let mut problems = Vec::new();
        for (selector, claimants) in self.wanted() {
            let rules: Vec<&Rule> = own
                .iter()
                .copied()
                .filter(|rule| is_rule_of(rule, selector))
                .collect();
            let must = claimants
                .iter()
                .any(|claim| claim.counts && self.can_stand(claim, selector));
            match rules.len() {
                0 if must => problems.push(Problem::with_lines(
                    format!(
                        "S2: {} has no rule [{selector}] ({})",
                        names(&claimants),
                        selector.family
                    ),
                    lines(own.iter().copied()),
                )),
                0 | 1 => {}
                count if claimants.iter().any(|claim| claim.counts) => {
                    problems.push(Problem::with_lines(
                        format!(
                            "S2: {} has {count} rules [{selector}] ({})",
                            names(&claimants),
                            selector.family
                        ),
                        lines(rules),
                    ));
                }
                _ => {}
            }
        }
        let wanted = self.wanted();
        let excess: Vec<&Rule> = own
            .into_iter()
            .filter(|rule| !(rule.is_plain() && wanted.contains_key(&rule.selector)))
            .filter(|rule| !self.left_over.contains(rule))
            .collect();
        if !excess.is_empty() {
            let what = "S2: rules of ours that no open connection wants";
            problems.push(Problem::with_lines(what, lines(excess)));
        }
        problems
    }

    /// S3, the first half: no rule that is wanted looks up an empty table.
    fn tables_are_filled(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for claim in self
            .claims
            .iter()
            .filter(|claim| claim.counts && self.is_up(claim))
        {
            for selector in claim.wants.keys() {
                for rule in self
                    .after
                    .rules
                    .iter()
                    .filter(|rule| self.is_own(rule, selector))
                {
                    let mut routes = self.after.routes_in(rule.family(), rule.table);
                    if !routes.any(|route| is_unicast(route) && self.ours.route(self.after, route))
                    {
                        problems.push(Problem::with_lines(
                            format!(
                                "S3: connection {}: table {} holds no {} route of ours",
                                claim.connection,
                                rule.table,
                                rule.family()
                            ),
                            lines([rule]),
                        ));
                    }
                }
            }
        }
        problems
    }

    /// S3, the second half: no rule that is wanted was given a table that was in use.
    fn tables_were_free(&self) -> Vec<Problem> {
        let wanted = self.wanted();
        let stood = |rule: &Rule| {
            let mut before = self.before.own_rules(self.ours).into_iter();
            before.any(|old| old.selector == rule.selector && old.table == rule.table)
        };
        let given =
            self.after.own_rules(self.ours).into_iter().filter(|rule| {
                rule.is_plain() && wanted.contains_key(&rule.selector) && !stood(rule)
            });
        given
            .filter_map(|rule| {
                let users = self.other_users(rule);
                (!users.is_empty()).then(|| {
                    let what = format!(
                        "S3: a table that was in use was given to [{}]",
                        rule.selector
                    );
                    Problem::with_lines(what, lines([rule]).into_iter().chain(users).collect())
                })
            })
            .collect()
    }

    /// What else used the table of a rule when the rule was given it, or uses it with the rule.
    fn other_users(&self, given: &Rule) -> Vec<String> {
        let family = given.family();
        let looks_it_up = |rule: &&Rule| {
            rule.family() == family
                && rule.action == Action::Lookup
                && rule.table == given.table
                && !self.is_own(rule, &given.selector)
        };
        let still_stands = |rule: &&Rule| self.after.rules.contains(rule);
        let rules_before = self
            .before
            .rules
            .iter()
            .filter(looks_it_up)
            .filter(|rule| !self.concurrent || still_stands(rule));
        let own_rules_now = self
            .after
            .own_rules(self.ours)
            .into_iter()
            .filter(looks_it_up);
        let mut users: Vec<String> = lines(rules_before.chain(own_rules_now));
        users.sort();
        users.dedup();

        let asked = self.ever_asked.get(&given.selector);
        let of_this_policy = |route: &Route| {
            let hop = route.hop.and_then(|hop| hop.via);
            self.ours.route(self.before, route)
                && (!is_unicast(route)
                    || asked.is_some_and(|asked| asked.contains(&(route.prefix, hop))))
        };
        let still_stands = |route: &Route| {
            self.after
                .routes_in(family, given.table)
                .any(|now| now.is_same_as(route))
        };
        let routes = self
            .before
            .routes_in(family, given.table)
            .filter(|route| !of_this_policy(route))
            .filter(|route| !self.concurrent || still_stands(route));
        users.extend(routes.map(|route| print::route(self.before, route)));
        users
    }

    /// Every rule of ours lies in the band, and what carries our number has a table of the range.
    fn rules_are_in_band(&self) -> Option<Problem> {
        let band = self.config.priorities;
        let owner = self.config.owner;
        let made = |rule: &&Rule| {
            rule.protocol == owner.protocol.get()
                && !self.left_over.contains(rule)
                && !self.before.rules.contains(rule)
        };
        let out: Vec<&Rule> = self
            .after
            .rules
            .iter()
            .filter(made)
            .filter(|rule| {
                if owner.owns_rule(rule) {
                    !band.contains(rule.priority)
                } else {
                    !self.own_of_all.rule(rule)
                }
            })
            .collect();
        (!out.is_empty()).then(|| {
            let what = format!(
                "rules of ours outside of {band} and tables {}",
                owner.tables
            );
            Problem::with_lines(what, lines(out))
        })
    }

    /// The selectors that are wanted, each with who wants it.
    fn wanted(&self) -> BTreeMap<&Selector, Vec<&Claim>> {
        let mut wanted: BTreeMap<&Selector, Vec<&Claim>> = BTreeMap::new();
        for claim in self.claims {
            for selector in claim.wants.keys() {
                wanted.entry(selector).or_default().push(claim);
            }
        }
        wanted
    }

    /// A rule cannot be made for a claim without its link, and one that stands stays.
    fn can_stand(&self, claim: &Claim, selector: &Selector) -> bool {
        self.is_up(claim)
            || self
                .before
                .rules
                .iter()
                .any(|rule| self.is_own(rule, selector))
    }

    fn is_up(&self, claim: &Claim) -> bool {
        self.after
            .link(&claim.interface)
            .is_some_and(|link| link.up)
    }

    fn is_own(&self, rule: &Rule, selector: &Selector) -> bool {
        is_rule_of(rule, selector) && self.ours.rule(rule)
    }
}

fn is_rule_of(rule: &Rule, selector: &Selector) -> bool {
    rule.is_plain() && rule.selector == *selector
}

fn names(claims: &[&Claim]) -> String {
    let names: Vec<&str> = claims
        .iter()
        .map(|claim| claim.connection.as_str())
        .collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("connection{plural} {}", names.join(", "))
}

fn lines<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Vec<String> {
    rules.into_iter().map(print::rule).collect()
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
