//! Whether what must stand stands.

use crate::answer::{Answer, check_answer};
use crate::model::{
    Expectation, ExpectedPolicy, ExpectedTable, Kept, Lookup, NamedSelector, RouteText,
};
use crate::picture::{Ours, Picture, Share, compare, is_unicast};
use crate::print;
use crate::problem::Problem;
use nsm_netlink::{Family, Route, RouteKind, Rule};
use std::collections::BTreeMap;

/// What an expectation is held against.
#[derive(Debug)]
pub struct Scene<'a> {
    /// What stands now.
    pub now: &'a Picture,
    /// What is ours.
    pub ours: &'a Ours,
    /// What stood earlier, by name.
    pub snapshots: &'a BTreeMap<String, Picture>,
    /// The warnings so far.
    pub warnings: &'a [String],
}

impl Scene<'_> {
    /// Everything that an expectation expects and that is otherwise. `ask` asks the kernel.
    pub fn check(
        &self,
        expectation: &Expectation,
        mut ask: impl FnMut(&Lookup) -> Answer,
    ) -> Vec<Problem> {
        let mut problems = Vec::new();
        problems.extend(expectation.rules.and_then(|count| self.rules(count)));
        problems.extend(
            expectation
                .policies
                .iter()
                .flat_map(|policy| self.policy(policy)),
        );
        problems.extend(expectation.table.iter().flat_map(|table| self.table(table)));
        problems.extend(self.same(expectation.same_as.as_deref(), Share::Everything));
        problems.extend(self.same(expectation.foreign_same_as.as_deref(), Share::Foreign));
        problems.extend(expectation.kept.iter().flat_map(|kept| self.kept(kept)));
        problems.extend(self.order(&expectation.order));
        problems.extend(
            expectation
                .lookup
                .iter()
                .flat_map(|question| check_answer(question, &ask(question))),
        );
        problems.extend(expectation.reported.iter().flat_map(|pattern| {
            let matched = self.warnings.iter().any(|warning| pattern.matches(warning));
            (!matched).then(|| Problem {
                what: "no warning of the element matches".to_owned(),
                expected: Some(vec![pattern.to_string()]),
                found: self.warnings.to_vec(),
            })
        }));
        if expectation.no_own {
            problems.extend(self.no_own());
        }
        problems
    }

    fn rules(&self, count: usize) -> Option<Problem> {
        let own = self.now.own_rules(self.ours);
        (own.len() != count).then(|| {
            Problem::with_lines(
                format!("{count} rules of ours expected, {} found", own.len()),
                lines(own),
            )
        })
    }

    fn policy(&self, policy: &ExpectedPolicy) -> Vec<Problem> {
        let rules: Vec<&Rule> = self
            .now
            .own_rules(self.ours)
            .into_iter()
            .filter(|rule| policy.selector.is_of(rule))
            .collect();
        if rules.is_empty() {
            return vec![Problem::with_lines(
                format!("no rule of ours has the selector [{}]", policy.selector),
                lines(self.now.own_rules(self.ours)),
            )];
        }
        let mut problems = Vec::new();
        for family in Family::ALL {
            let rules: Vec<&Rule> = rules
                .iter()
                .copied()
                .filter(|rule| rule.family() == family)
                .collect();
            match rules.as_slice() {
                [] => {}
                [rule] => problems.extend(self.policy_rule(policy, rule)),
                several => problems.push(Problem::with_lines(
                    format!(
                        "one rule of ours expected with the selector [{}], {} found",
                        policy.selector,
                        several.len()
                    ),
                    lines(several.iter().copied()),
                )),
            }
        }
        problems
    }

    /// One rule against the policy that it is of.
    fn policy_rule(&self, policy: &ExpectedPolicy, rule: &Rule) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(table) = policy.table
            && rule.table != table
        {
            problems.push(Problem::with_lines(
                format!("table {table} expected for policy [{}]", policy.selector),
                vec![print::rule(rule)],
            ));
        }
        if let Some(numbers) = policy.priority
            && !numbers.contains(rule.priority)
        {
            problems.push(Problem::with_lines(
                format!(
                    "priority {numbers} expected for policy [{}]",
                    policy.selector
                ),
                vec![print::rule(rule)],
            ));
        }
        if let Some(routes) = &policy.routes {
            let mut expected: Vec<String> = routes
                .iter()
                .map(|route| normal(route, rule.family()))
                .collect();
            expected.sort();
            // The routes that fail_closed adds are looked at where the list names any.
            let all = routes.iter().any(RouteText::is_unreachable);
            let mut found: Vec<String> = self
                .now
                .routes_in(rule.family(), rule.table)
                .filter(|route| self.ours.route(self.now, route) && (all || is_unicast(route)))
                .map(|route| print::short_route(self.now, route))
                .collect();
            found.sort();
            let what = format!(
                "{} routes of ours in table {} of policy [{}]",
                rule.family(),
                rule.table,
                policy.selector
            );
            problems.extend(Problem::unless_equal(what, expected, found));
        }
        problems
    }

    fn table(&self, table: &ExpectedTable) -> Vec<Problem> {
        let routes: Vec<&Route> = self
            .now
            .routes
            .iter()
            .filter(|route| route.table == table.id)
            .collect();
        let holds = |text: &RouteText| routes.iter().any(|route| is_route(self.now, route, text));
        let found: Vec<String> = routes
            .iter()
            .map(|route| print::route(self.now, route))
            .collect();
        let lacking = table
            .has
            .iter()
            .filter(|text| !holds(text))
            .map(|text| Problem {
                what: format!("table {} lacks a route", table.id),
                expected: Some(vec![text.to_string()]),
                found: found.clone(),
            });
        let excess = table.lacks.iter().filter(|text| holds(text)).map(|text| {
            Problem::with_lines(
                format!(
                    "table {} has a route that it must not have: {text}",
                    table.id
                ),
                found.clone(),
            )
        });
        lacking.chain(excess).collect()
    }

    fn same(&self, name: Option<&str>, share: Share) -> Vec<Problem> {
        let Some(snapshot) = name.and_then(|name| self.snapshots.get(name)) else {
            return name.map(no_snapshot).into_iter().collect();
        };
        compare(snapshot, self.now, self.ours, share)
    }

    fn kept(&self, kept: &Kept) -> Vec<Problem> {
        let Some(snapshot) = self.snapshots.get(&kept.snapshot) else {
            return vec![no_snapshot(&kept.snapshot)];
        };
        let stood = snapshot.own_rules(self.ours);
        let stands = self.now.own_rules(self.ours);
        let mut problems = Vec::new();
        for selector in kept.only.iter().flatten() {
            if !stood.iter().any(|rule| selector.is_of(rule)) {
                problems.push(Problem::with_lines(
                    format!(
                        "no rule of ours in snapshot {:?} has the selector [{selector}]",
                        kept.snapshot
                    ),
                    lines(stood.iter().copied()),
                ));
            }
        }
        let looked_at = |rule: &Rule| {
            kept.only
                .as_ref()
                .is_none_or(|only| only.iter().any(|selector| selector.is_of(rule)))
        };
        for rule in stood.into_iter().filter(|rule| looked_at(rule)) {
            let same_selector: Vec<&Rule> = stands
                .iter()
                .copied()
                .filter(|now| now.selector == rule.selector)
                .collect();
            let unmoved = |now: &&Rule| now.priority == rule.priority && now.table == rule.table;
            if !same_selector.iter().any(unmoved) {
                problems.push(Problem {
                    what: format!("a rule of ours was not kept ({})", rule.family()),
                    expected: Some(vec![print::rule(rule)]),
                    found: lines(same_selector),
                });
            }
        }
        problems
    }

    fn order(&self, order: &[NamedSelector]) -> Vec<Problem> {
        let own = self.now.own_rules(self.ours);
        let mut problems = Vec::new();
        for selector in order {
            if !own.iter().any(|rule| selector.is_of(rule)) {
                problems.push(Problem::with_lines(
                    format!("no rule of ours has the selector [{selector}]"),
                    lines(own.iter().copied()),
                ));
            }
        }
        for family in Family::ALL {
            let stands: Vec<&Rule> = own
                .iter()
                .copied()
                .filter(|rule| rule.family() == family)
                .collect();
            let named = |rule: &&Rule| order.iter().any(|selector| selector.is_of(rule));
            let found: Vec<String> = lines(stands.iter().copied().filter(named));
            let of = |selector: &NamedSelector| {
                let rules = stands.iter().copied().filter(|rule| selector.is_of(rule));
                lines(rules.collect::<Vec<_>>())
            };
            let expected: Vec<String> = order.iter().flat_map(of).collect();
            let what = format!("order of {family} rules of ours");
            problems.extend(Problem::unless_equal(what, expected, found));
        }
        problems
    }

    fn no_own(&self) -> Option<Problem> {
        let routes = self.now.own_routes(self.ours);
        let routes = routes
            .into_iter()
            .map(|route| print::route(self.now, route));
        let found: Vec<String> = lines(self.now.own_rules(self.ours))
            .into_iter()
            .chain(routes)
            .collect();
        Problem::unless_equal("nothing of ours expected", Vec::new(), found)
    }
}

fn lines<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Vec<String> {
    rules.into_iter().map(print::rule).collect()
}

/// An expected route as [`print::short_route`] prints it, with the family that `default` lacks.
fn normal(text: &RouteText, family: Family) -> String {
    let to = text.to.unwrap_or(family.default_prefix());
    RouteText {
        to: Some(to),
        ..text.clone()
    }
    .to_string()
}

fn is_route(picture: &Picture, route: &Route, text: &RouteText) -> bool {
    let kind = if text.is_unreachable() {
        RouteKind::Unreachable
    } else {
        RouteKind::Unicast
    };
    let to = text.to.unwrap_or(route.family().default_prefix());
    let dev = route.hop.and_then(|hop| picture.link_name(hop.dev));
    route.kind == kind
        && route.prefix == to
        && route.hop.and_then(|hop| hop.via) == text.via
        && (text.is_unreachable() || dev == text.dev.as_deref())
}

fn no_snapshot(name: &str) -> Problem {
    Problem::new(format!("snapshot {name:?} has not been taken"))
}
