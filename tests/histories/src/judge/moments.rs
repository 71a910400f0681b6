use super::{Case, Problem, same_way};
use crate::claims::Claims;
use crate::picture::Picture;
use ipnet::IpNet;
use nsm_netlink::{Family, Route, RouteKind, Rule, Selector};
use std::collections::BTreeSet;

impl Case<'_> {
    /// Never neither, no gap, no leak: at each moment of the work a policy that lasts leads
    /// somewhere, a new rule finds its routes, and a rule that goes still has them.
    pub(super) fn moments(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (at, moment) in self.record.moments.iter().chain([self.after]).enumerate() {
            let gap = self
                .gap(moment)
                .or_else(|| self.leak(moment))
                .or_else(|| self.bare(moment));
            if let Some(text) = gap {
                problems.push(Problem::wrong(format!("after write {}: {text}", at + 1)));
                break;
            }
        }
        problems
    }

    /// A policy that was served, is wanted before and after, and is not served.
    fn gap(&self, moment: &Picture) -> Option<String> {
        let mut lasting = self.turn.lasting().into_iter();
        let (selector, prefix) = lasting.find(|(selector, prefix)| {
            self.before.serves(self.owner, selector, prefix)
                && !moment.serves(self.owner, selector, prefix)
                && !self.serves_by_another(moment, selector, prefix)
                && !self.was_taken_before(moment, selector, prefix)
        })?;
        Some(format!("[{selector}] leads nowhere for {prefix}"))
    }

    /// In IPv6 somebody else's route that leads just as ours is to takes its place: the kernel
    /// lets none of ours stand beside it.
    fn serves_by_another(&self, moment: &Picture, selector: &Selector, prefix: &IpNet) -> bool {
        let content = self.turn.claims.content(selector, self.before);
        let Some((dev, via)) = content.get(prefix) else {
            return false;
        };
        moment
            .rules_of(self.owner, selector)
            .into_iter()
            .any(|rule| {
                let place = (rule.family(), rule.table);
                let protocol = self.owner.protocol.get();
                let wanted = Route::unicast(rule.table, *prefix, *dev, *via, protocol);
                place.0 == Family::V6 && moment.routes_in(place).any(|it| same_way(it, &wanted))
            })
    }

    /// Somebody else's route in the table of the rule that is asked first had taken the traffic
    /// before it came to ours, and still does.
    fn was_taken_before(&self, moment: &Picture, selector: &Selector, prefix: &IpNet) -> bool {
        let leads = |picture: &Picture, rule: &Rule| {
            let mut routes = picture.routes_in((rule.family(), rule.table));
            routes.any(|route| route.kind == RouteKind::Unicast && route.prefix == *prefix)
        };
        let mut rules = self.before.rules_of(self.owner, selector).into_iter();
        rules
            .find(|rule| leads(self.before, rule))
            .is_some_and(|rule| {
                let mut ours = self
                    .before
                    .own_ways(self.owner, (rule.family(), rule.table));
                !ours.any(|way| way.prefix == *prefix)
                    && moment.rules.contains(rule)
                    && leads(moment, rule)
            })
    }

    /// A rule that has come before its routes.
    fn leak(&self, moment: &Picture) -> Option<String> {
        let mut new = moment
            .own_rules(self.owner)
            .filter(|it| !self.before.rules.contains(it));
        new.find_map(|rule| {
            let place = (rule.family(), rule.table);
            let lacks = |claims: &Claims| {
                let prefixes: BTreeSet<IpNet> = if self.fail_closed {
                    // Each has a twin at least.
                    claims.prefixes(&rule.selector)
                } else {
                    let content = claims.content(&rule.selector, self.before);
                    content.into_keys().collect()
                };
                prefixes
                    .into_iter()
                    .find(|to| !moment.routes_in(place).any(|route| route.prefix == *to))
            };
            // Old content is as good as new.
            let old = lacks(&self.turn.former);
            let lacks = lacks(&self.turn.claims)?;
            if old.is_none() && self.turn.former.has(&rule.selector) {
                return None;
            }
            Some(format!(
                "the rule stands before its route to {lacks}: {rule}"
            ))
        })
    }

    /// A rule that goes, and whose routes have gone before.
    fn bare(&self, moment: &Picture) -> Option<String> {
        let goes = |rule: &&Rule| !self.after.rules.contains(rule);
        let mut going = self.before.own_rules(self.owner).filter(goes);
        let rule = going.find(|rule| {
            let place = (rule.family(), rule.table);
            let shared = [self.before, self.after].iter().any(|picture| {
                let mut others = picture.own_rules(self.owner).filter(|other| other != rule);
                others.any(|other| (other.family(), other.table) == place)
            });
            let mut ways = self.before.own_ways(self.owner, place);
            moment.rules.contains(rule)
                && !shared
                && ways.any(|old| !moment.routes_in(place).any(|it| same_way(it, old)))
        })?;
        Some(format!("the rule stands without its routes: {rule}"))
    }
}
