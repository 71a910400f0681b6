//! How many histories have a kind of step, or a case worth looking at, in them.

use crate::model::{Model, Seen};
use crate::step::{Deleted, Foreign, LinkEvent, LookAlike, Step};
use std::collections::{BTreeMap, BTreeSet};

/// What there was in one history.
#[derive(Debug, Clone, Default)]
pub struct Tally(BTreeSet<&'static str>);

/// How many histories had what in them.
#[derive(Debug, Clone, Default)]
pub struct Census {
    histories: usize,
    counts: BTreeMap<&'static str, usize>,
}

/// All that is counted.
pub const COUNTED: [&str; 44] = [
    "request",
    "refresh",
    "close",
    "restart",
    "restart with links lost",
    "link deleted",
    "link remade",
    "link down",
    "link down and up",
    "link up",
    "address removed",
    "address added",
    "rule of ours deleted",
    "route of ours deleted",
    "table flushed",
    "rules flushed",
    "look-alike before ours",
    "look-alike unmarked",
    "look-alike out of range",
    "foreign rule on a table of ours",
    "foreign route in a table of ours",
    "foreign route with our mark",
    "something foreign gone",
    "left behind by a former process",
    "a fault",
    "time",
    "fault hit: refused",
    "fault hit: answers lost",
    "fault hit: dump refused",
    "killed",
    "two connections share a selector",
    "two connections conflict",
    "two elements with claims",
    "a policy in both families",
    "restart with claims",
    "adopted after a restart",
    "repaired",
    "nothing to do",
    "left-over gone",
    "left-over gone with time",
    "look-alike of a claimed selector",
    "foreign route behind a rule of ours",
    "an interface away from a claim",
    "request refused",
];

impl Tally {
    fn note(&mut self, what: &'static str) {
        debug_assert!(
            COUNTED.contains(&what) || what == "no table was free",
            "{what}"
        );
        self.0.insert(what);
    }

    /// A step was done.
    pub fn step(&mut self, step: &Step) {
        self.note(match step {
            Step::Request { .. } => "request",
            Step::Refresh { .. } => "refresh",
            Step::Close { .. } => "close",
            Step::Restart { links_lost: false } => "restart",
            Step::Restart { links_lost: true } => "restart with links lost",
            Step::Link { event, .. } => match event {
                LinkEvent::Deleted => "link deleted",
                LinkEvent::Remade => "link remade",
                LinkEvent::Down => "link down",
                LinkEvent::Flapped => "link down and up",
                LinkEvent::Up => "link up",
            },
            Step::Address { there: false, .. } => "address removed",
            Step::Address { there: true, .. } => "address added",
            Step::Deleted(deleted) => match deleted {
                Deleted::Rule { .. } => "rule of ours deleted",
                Deleted::Route { .. } => "route of ours deleted",
                Deleted::TableFlushed { .. } => "table flushed",
                Deleted::RulesFlushed => "rules flushed",
            },
            Step::Foreign(foreign) => match foreign {
                Foreign::LookAlike { how, .. } => match how {
                    LookAlike::Before => "look-alike before ours",
                    LookAlike::Unmarked => "look-alike unmarked",
                    LookAlike::OutOfRange => "look-alike out of range",
                },
                Foreign::RuleOnTable { .. } => "foreign rule on a table of ours",
                Foreign::Route { .. } => "foreign route in a table of ours",
                Foreign::MarkedElsewhere { .. } => "foreign route with our mark",
            },
            Step::ForeignGone { .. } => "something foreign gone",
            Step::LeftBehind(_) => "left behind by a former process",
            Step::Fault { .. } => "a fault",
            Step::Wait(_) => "time",
        });
    }

    /// A process was killed.
    pub fn killed(&mut self) {
        self.note("killed");
    }

    /// The elements start anew.
    pub fn restarted(&mut self, models: &[Model]) {
        if models.iter().any(|model| !model.claims().is_empty()) {
            self.note("restart with claims");
        }
    }

    /// An element was called.
    pub fn called(&mut self, models: &[Model; 2], at: usize, seen: &Seen) {
        let (claims, notes) = (models[at].claims(), models[at].notes);
        let owner = models[at].owner();
        let shared = |count: usize| {
            claims
                .selectors()
                .into_iter()
                .any(|it| claims.claimants(it).count() >= count)
        };
        let both = |from: Option<ipnet::IpNet>| from.is_none();
        let alike = || {
            let foreign = |rule: &&nsm_netlink::Rule| !owner.owns_rule(rule);
            let mut rules = seen.before.rules.iter().filter(foreign);
            rules.any(|rule| rule.is_plain() && claims.has(&rule.selector))
        };
        let leg = || {
            claims.selectors().into_iter().any(|selector| {
                seen.before.rules_of(owner, selector).iter().any(|rule| {
                    let mut routes = seen.before.routes_in((rule.family(), rule.table));
                    routes.any(|route| !seen.before.is_own(owner, route))
                })
            })
        };
        let away = || {
            let mut claims = claims.iter();
            claims.any(|claim| seen.before.usable(claim.interface).is_none())
        };
        for (is_so, what) in [
            (notes.adopted, "adopted after a restart"),
            (notes.repaired, "repaired"),
            (notes.nothing_to_do, "nothing to do"),
            (notes.left_over_gone, "left-over gone"),
            (notes.exhausted, "no table was free"),
            (shared(2), "two connections share a selector"),
            (claims.conflict(), "two connections conflict"),
            (
                models.iter().all(|model| !model.claims().is_empty()),
                "two elements with claims",
            ),
            (
                claims.selectors().iter().any(|it| both(it.from)),
                "a policy in both families",
            ),
            (alike(), "look-alike of a claimed selector"),
            (leg(), "foreign route behind a rule of ours"),
            (away(), "an interface away from a claim"),
            (
                seen.answer.is_err() && seen.hit.is_none(),
                "request refused",
            ),
        ] {
            if is_so {
                self.note(what);
            }
        }
        self.fault(seen);
    }

    /// Time has passed.
    pub fn waited(&mut self, model: &Model, seen: &Seen) {
        if model.notes.left_over_gone {
            self.note("left-over gone with time");
        }
        self.fault(seen);
    }

    fn fault(&mut self, seen: &Seen) {
        use nsm_netlink::OpKind::{AddRoute, AddRule, DelRoute, DelRule};
        use nsm_netlink::fault::Effect;
        let Some(fault) = seen.hit else { return };
        self.note(match (fault.effect, fault.op) {
            (Effect::Errno(_), AddRule | DelRule | AddRoute | DelRoute) => "fault hit: refused",
            (Effect::Errno(_), _) => "fault hit: dump refused",
            _ => "fault hit: answers lost",
        });
    }
}

impl Census {
    /// Counts a history.
    pub fn add(&mut self, tally: &Tally) {
        self.histories += 1;
        for what in &tally.0 {
            *self.counts.entry(what).or_default() += 1;
        }
    }

    /// What occurs in less than one history of `one_in`.
    pub fn rare(&self, one_in: usize) -> Vec<String> {
        let count = |what: &str| self.counts.get(what).copied().unwrap_or(0);
        let rare = COUNTED
            .into_iter()
            .filter(|what| count(what) * one_in < self.histories);
        rare.map(|what| format!("{what}: {} of {}", count(what), self.histories))
            .collect()
    }
}

impl std::fmt::Display for Census {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} histories", self.histories)?;
        for (what, count) in &self.counts {
            writeln!(
                f,
                "  {:>5.1} % {what}",
                100.0 * *count as f64 / self.histories as f64
            )?;
        }
        Ok(())
    }
}
