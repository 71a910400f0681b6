//! What the element remembers from one piece of work to the next, and what it sees when it looks
//! around.

use super::{Model, Seen};
use crate::judge::same_way;
use crate::leftovers::{Around, Left};
use crate::picture::{Life, Picture, Place, is_hidden};
use crate::turn::Turn;
use crate::wants::priority;
use nsm_netlink::{Rule, Selector};
use std::collections::BTreeMap;

impl Model {
    /// All that was owed is done.
    pub(super) fn settle(&mut self) {
        self.left.spares_gone();
        self.owed.clear();
        self.unsettled = false;
        if self.claims.is_empty() {
            // What is known of a namespace goes when it is held no more.
            self.tried.clear();
        }
    }

    /// What goes, or may go, at the moment.
    pub(super) fn left_at(&self, seen: &Seen) -> Left {
        let mut left = self.left.at(seen.now);
        let owed = |rule: &&Rule| rule.is_plain() && self.owed.contains(&rule.selector);
        let rules = seen.before.own_rules(self.owner);
        left.may_go.extend(rules.filter(owed).cloned());
        left
    }

    /// Takes over what the element remembers after work that went well.
    pub(super) fn commit(&mut self, turn: &Turn, after: &Picture) {
        self.claims = turn.claims.clone();
        let stand = turn.claims.selectors().into_iter();
        let stand: BTreeMap<Selector, u32> = stand
            .filter_map(|selector| Some((selector.clone(), self.kept(selector, after)?.table)))
            .collect();
        // Who has lost its rule has its table until another has it.
        self.seats.retain(|selector, table| {
            let mut others = stand.iter();
            turn.claims.has(selector)
                && !others.any(|(it, its)| (it.family, its) == (selector.family, &*table))
        });
        self.seats.extend(stand);
        self.forget_gone(after);
    }

    /// Of several rules of one policy the one on a table of its own and at its own priority is
    /// kept, then the first. The others may only not have been removed yet.
    fn kept<'p>(&self, selector: &Selector, after: &'p Picture) -> Option<&'p Rule> {
        let shares = |rule: &Rule| {
            let mut others = after.lookups((rule.family(), rule.table));
            others.any(|other| {
                self.owner.owns_rule(other) && !(other.is_plain() && other.selector == *selector)
            })
        };
        let rules = after.rules_of(self.owner, selector).into_iter();
        rules.min_by_key(|rule| (shares(rule), rule.priority != priority(selector)))
    }

    pub(super) fn forget_gone(&mut self, after: &Picture) {
        let (owner, claims) = (self.owner, &self.claims);
        let wanted = |rule: &Rule| rule.is_plain() && claims.has(&rule.selector);
        self.left
            .rules
            .retain(|rule| after.rules.contains(rule) && !wanted(rule));
        self.left.tables.retain(|place| {
            after
                .routes_in(*place)
                .any(|route| after.is_own(owner, route) || is_hidden(route))
                && !after.lookups(*place).any(|rule| owner.owns_rule(rule))
        });
        self.left.retain_routes(|route| {
            let place = (route.family(), route.table);
            after.routes_in(place).any(|other| same_way(other, route))
        });
    }

    /// What the element sees when it looks around: the rules of ours that nobody wants and that do
    /// not go by this turn, and the tables of ours without a rule.
    pub(super) fn around(&self, turn: &Turn, before: &Picture) -> Around {
        let dropped = |rule: &Rule| rule.is_plain() && turn.given_up.contains(&rule.selector);
        let rules = before
            .own_rules(self.owner)
            .filter(|rule| !self.is_wanted(turn, rule) && !dropped(rule))
            .map(|rule| (rule.clone(), before.life(self.owner, rule)));
        let mut tables: BTreeMap<Place, Life> = BTreeMap::new();
        for route in before
            .routes
            .iter()
            .filter(|it| self.owner.tables.contains(it.table))
        {
            let place = (route.family(), route.table);
            let looked_up = before.lookups(place).any(|rule| self.owner.owns_rule(rule));
            let claimed = turn
                .claims
                .selectors()
                .into_iter()
                .any(|it| self.seats.get(it).map(|table| (it.family, *table)) == Some(place));
            match before.is_own(self.owner, route) {
                _ if looked_up => {}
                // It has not lost that one, or leaves it just now.
                true if claimed => drop(tables.insert(place, Life::Unclear)),
                true => drop(tables.insert(place, Life::Dead)),
                false if is_hidden(route) => drop(tables.entry(place).or_insert(Life::Unclear)),
                false => {}
            }
        }
        Around {
            rules: rules.collect(),
            tables,
        }
    }
}
