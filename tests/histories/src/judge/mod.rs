//! What must stand after a piece of work, given what stood before: the contract's sentences, one
//! after the other, each looked at for itself.

mod foreign;
mod moments;
mod orphans;
mod rules;
mod seats;
mod shared;
mod tables;
mod writes;

use crate::leftovers::Left;
use crate::picture::Picture;
use crate::record::Record;
use crate::turn::Turn;
use nsm_netlink::{Owner, Route, Rule, Selector};
use std::collections::BTreeMap;

/// A piece of work of one element.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// Whose work it is.
    pub owner: Owner,
    /// Whether each prefix has an `unreachable` twin.
    pub fail_closed: bool,
    /// The elements at work: what is theirs is not looked at as somebody else's.
    pub at_work: &'a [Owner],
    /// What it is about.
    pub turn: &'a Turn,
    /// What stood before.
    pub before: &'a Picture,
    /// What stands now.
    pub after: &'a Picture,
    /// What was written.
    pub record: &'a Record,
    /// What is left over and must go, may go, or stays.
    pub left: &'a Left,
    /// Whether answers were lost, so that it was read and planned again in the middle of the work.
    pub twice: bool,
    /// Whether former work has failed, so that its probe may be made now.
    pub unsettled: bool,
    /// Where the selectors that are wanted were seated last.
    pub seats: &'a BTreeMap<Selector, u32>,
}

/// A sentence of the contract that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, for people.
    pub text: String,
    /// What kind of wrong.
    pub kind: Kind,
}

/// What kind of wrong a problem is. After a fault some are allowed for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Never allowed.
    Wrong,
    /// A policy lacks something.
    Lacks(Selector),
    /// A table was passed over.
    PassedOver,
    /// A rule of ours too many.
    RuleTooMany(Rule),
    /// A route of ours too many.
    RouteTooMany(Route),
}

/// What becomes of something that nobody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Goes,
    MayGo,
    Stays,
}

impl Problem {
    /// Something that is never allowed.
    pub fn wrong(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Wrong,
        }
    }

    fn lacks(selector: &Selector, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Lacks(selector.clone()),
        }
    }

    fn rule_too_many(rule: &Rule, why: &str) -> Self {
        Self {
            text: format!("{why}: {rule}"),
            kind: Kind::RuleTooMany(rule.clone()),
        }
    }
}

impl Case<'_> {
    /// What is to be reached, and what must stay.
    pub fn judge(&self) -> Vec<Problem> {
        let mut problems = self.safe();
        problems.extend(self.rules());
        problems.extend(self.tables());
        problems.extend(self.orphans());
        problems.extend(self.seats());
        problems
    }

    /// What holds whatever goes wrong: others are left alone, and nobody's policy is without
    /// content for a moment.
    pub fn safe(&self) -> Vec<Problem> {
        let mut problems = self.foreign();
        problems.extend(self.moments());
        problems
    }

    /// Whether a rule of a policy finds anything in its table: a route by an interface that can be
    /// used, or a twin that refuses.
    fn has_content(&self, selector: &Selector) -> bool {
        let claims = &self.turn.claims;
        self.fail_closed && claims.has(selector)
            || !claims.content(selector, self.before).is_empty()
    }

    /// Whether nothing has to be done.
    fn was_right(&self) -> bool {
        let as_if_unchanged = Case {
            after: self.before,
            record: &Record::default(),
            ..*self
        };
        self.left.may_go.is_empty()
            && self.left.may_go_tables.is_empty()
            && self.left.owed_routes.is_empty()
            && self.before.probes(self.owner).next().is_none()
            && as_if_unchanged.judge().is_empty()
            // Where an interface is missing less must be done, and spare rules may go.
            && self.turn.claims.selectors().iter().all(|selector| {
                let content = self.turn.claims.content(selector, self.before);
                content.len() == self.turn.claims.prefixes(selector).len()
                    || self.before.rules_of(self.owner, selector).len() <= 1
            })
    }
}

/// Nothing of ours is other than before.
pub fn unchanged(owner: Owner, before: &Picture, after: &Picture) -> Vec<Problem> {
    let mut problems = missing(owner, before, after, "has gone");
    problems.extend(missing(owner, after, before, "has come"));
    problems
}

/// Whatever of ours stood before stands now.
pub fn missing(owner: Owner, before: &Picture, after: &Picture, what: &str) -> Vec<Problem> {
    let rules = before
        .own_rules(owner)
        .filter(|rule| !after.rules.contains(rule));
    let rules = rules.map(|rule| Problem::wrong(format!("{what}: {rule}")));
    let routes = before
        .routes
        .iter()
        .filter(|route| before.is_own(owner, route))
        .filter(|route| {
            let place = (route.family(), route.table);
            !after
                .own_routes(owner, place)
                .any(|other| same_way(other, route))
        });
    let routes = routes.map(|route| Problem::wrong(format!("{what}: {}", before.print(route))));
    rules.chain(routes).collect()
}

/// Whether two are one route of ours, whatever legs stand beside it.
pub fn same_way(a: &Route, b: &Route) -> bool {
    a.table == b.table && a.prefix == b.prefix && a.leads_as(b)
}
