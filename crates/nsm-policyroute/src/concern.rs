//! Which of all that happens in a namespace concerns its claims.

use crate::Band;
use crate::actual::Place;
use crate::claims::Claims;
use crate::report;
use nsm_netlink::{Change, Link, Notification, Owner, Route, Rule, Selector, Subject};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What the claims of a namespace have to do with.
#[derive(Debug)]
pub struct Concern {
    owner: Owner,
    band: Band,
    selectors: BTreeSet<Selector>,
    /// Who sits where.
    tables: BTreeMap<Place, Vec<Selector>>,
    interfaces: BTreeSet<String>,
    /// The interfaces of these names, by index, each with whether it is up: of an address no name is
    /// told.
    devs: BTreeMap<u32, bool>,
}

/// What a notification means for the claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Foreign,
    /// Something may be missing now, or worth telling.
    Look,
    /// Somebody has laid hands on what is there for a policy, or has put something beside it.
    Touched {
        /// The policies: mostly one, several where they share a table.
        selectors: Vec<Selector>,
        /// Who.
        by: Writer,
    },
}

/// Somebody else who writes where we do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    /// The netlink port of the last write, usually the id of a process.
    pub port: u32,
    /// The protocol number of what was put there, if anything was.
    pub protocol: Option<u8>,
}

impl Writer {
    /// The same writer after another write: what is known of him stays known.
    #[must_use]
    pub fn or(self, former: Self) -> Self {
        Self {
            protocol: self.protocol.or(former.protocol),
            ..self
        }
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(protocol) = self.protocol {
            write!(f, "protocol number {protocol}, ")?;
        }
        write!(f, "netlink port {} (mostly the process id)", self.port)
    }
}

impl Concern {
    /// What the claims have to do with. `devs` are the indexes of their interfaces, each with
    /// whether it was up when they were read.
    pub fn of(claims: &Claims, devs: &BTreeMap<u32, bool>, owner: Owner, band: Band) -> Self {
        let mut tables: BTreeMap<Place, Vec<Selector>> = BTreeMap::new();
        for (selector, place) in claims.seated() {
            tables.entry(place).or_default().push(selector.clone());
        }
        Self {
            owner,
            band,
            selectors: claims.selectors().into_iter().cloned().collect(),
            tables,
            interfaces: claims.interfaces().map(str::to_owned).collect(),
            devs: devs.clone(),
        }
    }

    /// What a notification means. Those of our own writes are to be left out.
    pub fn judge(&mut self, notification: &Notification) -> Verdict {
        let Notification {
            port,
            change,
            subject,
        } = notification;
        let by = |protocol: u8| Writer {
            port: *port,
            protocol: Some(protocol).filter(|it| *it != 0 && *change == Change::Added),
        };
        match subject {
            Subject::Rule(rule) => self.rule(rule, by(rule.protocol)),
            Subject::Route(route) => self.route(route, by(route.protocol)),
            Subject::Link(link) => self.link(link, *change),
            Subject::Address(dev) if self.devs.contains_key(dev) => Verdict::Look,
            Subject::Address(_) => Verdict::Foreign,
        }
    }

    fn rule(&self, rule: &Rule, by: Writer) -> Verdict {
        if rule.is_plain() && self.selectors.contains(&rule.selector) {
            return touched(std::slice::from_ref(&rule.selector), by);
        }
        let shadows = !self.owner.owns_rule(rule)
            && report::may_shadow(rule, self.band)
            && self.selectors.iter().any(|it| rule.selector.covers(it));
        if shadows {
            Verdict::Look
        } else {
            Verdict::Foreign
        }
    }

    /// Whatever comes or goes in a table of ours: a route that takes the place of ours is told as
    /// one that comes.
    fn route(&self, route: &Route, by: Writer) -> Verdict {
        match self.tables.get(&(route.family(), route.table)) {
            Some(selectors) => touched(selectors, by),
            None => Verdict::Foreign,
        }
    }

    /// An interface that comes, goes, is set up or down, or gets another name. The kernel tells of
    /// much else, and some of that later: a carrier, a size.
    fn link(&mut self, link: &Link, change: Change) -> Verdict {
        let is_ours = change == Change::Added && self.interfaces.contains(&link.name);
        let now = is_ours.then_some(link.up);
        let before = match now {
            Some(up) => self.devs.insert(link.index, up),
            None => self.devs.remove(&link.index),
        };
        if now == before {
            Verdict::Foreign
        } else {
            Verdict::Look
        }
    }
}

/// What the kernel does by itself is nobody's doing.
fn touched(selectors: &[Selector], by: Writer) -> Verdict {
    if by.port == 0 {
        return Verdict::Look;
    }
    Verdict::Touched {
        selectors: selectors.to_vec(),
        by,
    }
}

#[cfg(test)]
#[path = "concern_tests.rs"]
mod tests;
