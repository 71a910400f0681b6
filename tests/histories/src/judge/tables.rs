use super::{Case, Kind, Problem, same_way};
use crate::picture::Place;
use nsm_netlink::{Errno, Family, Op, Refusal, Route, RouteKind, Rule, Selector};
use std::collections::BTreeSet;

impl Case<'_> {
    /// S3: each table holds what is wanted of its policy, and of what nobody wants only what
    /// harms nobody.
    pub(super) fn tables(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut looked_at: BTreeSet<Place> = BTreeSet::new();
        for selector in self.turn.claims.selectors() {
            let rules = self.after.rules_of(self.owner, selector);
            looked_at.extend(rules.iter().map(|rule| (rule.family(), rule.table)));
            // Of several, which is a problem for itself, one must be right.
            let best = rules.into_iter().map(|rule| self.table_of(rule));
            problems.extend(best.min_by_key(Vec::len).unwrap_or_default());
        }
        for rule in self.after.own_rules(self.owner) {
            let place = (rule.family(), rule.table);
            if looked_at.insert(place) {
                self.is_untouched(place, &mut problems);
            }
        }
        problems
    }

    fn table_of(&self, rule: &Rule) -> Vec<Problem> {
        let mut problems = Vec::new();
        let place = (rule.family(), rule.table);
        if self.is_shared(rule) {
            self.shared_table(rule, &mut problems);
        } else {
            self.lacks_nothing(&rule.selector, place, &mut problems);
            self.has_no_more(&rule.selector, place, &mut problems);
        }
        problems
    }

    pub(super) fn is_untouched(&self, place: Place, problems: &mut Vec<Problem>) {
        let (before, after): (Vec<_>, Vec<_>) = (
            self.before.own_routes(self.owner, place).collect(),
            self.after.own_routes(self.owner, place).collect(),
        );
        for route in before
            .iter()
            .filter(|route| !after.iter().any(|it| same_way(it, route)))
        {
            if !self.left.owed_routes.contains(*route) {
                let route = self.before.print(route);
                problems.push(Problem::wrong(format!(
                    "a left-over's table has lost {route}"
                )));
            }
        }
        for route in after
            .iter()
            .filter(|route| !before.iter().any(|it| same_way(it, route)))
        {
            problems.push(self.too_many(route, "put into a left-over's table"));
        }
    }

    pub(super) fn lacks_nothing(
        &self,
        selector: &Selector,
        place: Place,
        problems: &mut Vec<Problem>,
    ) {
        let routes: Vec<&Route> = self.after.routes_in(place).collect();
        let content = self.turn.claims.content(selector, self.before);
        let protocol = self.owner.protocol.get();
        let wanted = content
            .into_iter()
            .map(|(prefix, (dev, via))| Route::unicast(place.1, prefix, dev, via, protocol));
        let twins = self.turn.claims.prefixes(selector).into_iter();
        let twins = twins
            .filter(|_| self.fail_closed)
            .map(|prefix| Route::unreachable(place.1, prefix, protocol));
        for route in wanted.chain(twins) {
            let mut found = routes.iter().filter(|other| same_way(other, &route));
            // In IPv6 the kernel takes no second route that leads the same way.
            let there =
                found.any(|found| place.0 == Family::V6 || self.after.is_own(self.owner, found));
            if !there && !self.is_said_to_stand(&route) {
                let line = self.after.print(&route);
                problems.push(Problem::lacks(
                    selector,
                    format!("[{selector}] lacks {line}"),
                ));
            }
        }
    }

    /// Of what nobody wants, a route stays that neither stands in the way of what is wanted, nor
    /// leaves by an interface of those who want the policy, nor has just ended.
    fn has_no_more(&self, selector: &Selector, place: Place, problems: &mut Vec<Problem>) {
        let after: Vec<&Route> = self.after.own_routes(self.owner, place).collect();
        let before: Vec<&Route> = self.before.own_routes(self.owner, place).collect();
        for route in &after {
            let is_new = !before.iter().any(|old| same_way(old, route));
            match self.stay(selector, route) {
                Stay::Wanted => {}
                _ if self.was_out_of_sight(route) => {}
                _ if is_new => problems.push(self.too_many(route, "nobody wants it")),
                Stay::Goes => problems.push(self.too_many(route, "nobody wants it any more")),
                Stay::May | Stay::Stays => {}
            }
        }
        for route in before
            .iter()
            .filter(|old| !after.iter().any(|it| same_way(it, old)))
        {
            if self.stay(selector, route) == Stay::Stays {
                let route = self.before.print(route);
                problems.push(Problem::wrong(format!("[{selector}] has lost {route}")));
            }
        }
    }

    /// A dump does not show what stands between the legs of an IPv6 route: what is there comes to
    /// light when a leg goes, and the element may not have seen it.
    pub(super) fn was_out_of_sight(&self, route: &Route) -> bool {
        let mut pictures = self.record.moments.iter().chain([self.before]);
        let is_made = self
            .record
            .writes()
            .any(|(op, _)| matches!(op, Op::AddRoute(made, _) if same_way(made, route)));
        route.family() == Family::V6
            && !is_made
            && pictures.any(|it| !it.routes.iter().any(|other| same_way(other, route)))
    }

    /// So what is out of sight is known to be there when the kernel takes no second one.
    fn is_said_to_stand(&self, route: &Route) -> bool {
        let mut writes = self.record.writes();
        route.family() == Family::V6
            && writes.any(|(op, outcome)| {
                let exists = |refusal: &Refusal| refusal.errno == Errno::EEXIST;
                matches!(op, Op::AddRoute(added, _) if same_way(added, route))
                    && outcome.as_ref().is_err_and(exists)
            })
    }

    pub(super) fn stay(&self, selector: &Selector, route: &Route) -> Stay {
        let claims = &self.turn.claims;
        let content = claims.content(selector, self.before);
        let prefix = &route.prefix;
        if route.kind != RouteKind::Unicast {
            return self.twin_stays(selector, route);
        }
        if let Some((dev, via)) = content.get(prefix) {
            let protocol = route.protocol;
            let wanted = Route::unicast(route.table, *prefix, *dev, *via, protocol);
            return if same_way(route, &wanted) {
                Stay::Wanted
            } else {
                Stay::Goes
            };
        }
        if claims.prefixes(selector).contains(prefix) {
            // Who wants it waits for an interface, and until then nothing is better.
            return Stay::May;
        }
        let via = |route: &Route| route.hop.and_then(|hop| hop.via);
        let way = (*prefix, via(route));
        let by_claimant = route
            .dev()
            .is_some_and(|dev| claims.devs(selector, self.before).contains(&dev));
        if by_claimant || self.turn.has_ended(selector, way) || self.is_due(route) {
            return Stay::Goes;
        }
        // What could not be removed is looked for wherever the policy sits meanwhile.
        let owed = self
            .left
            .owed_routes
            .iter()
            .any(|owed| (owed.prefix, via(owed)) == way);
        if owed { Stay::May } else { Stay::Stays }
    }

    fn is_due(&self, route: &Route) -> bool {
        self.left.due_routes.iter().any(|due| same_way(due, route))
    }

    /// A twin refuses what its route no longer takes. Without a claim and without a route it would
    /// refuse for nobody.
    fn twin_stays(&self, selector: &Selector, twin: &Route) -> Stay {
        if self.fail_closed && self.turn.claims.prefixes(selector).contains(&twin.prefix) {
            return Stay::Wanted;
        }
        let place = (twin.family(), twin.table);
        let is_way = |it: &Route| it.kind == RouteKind::Unicast && it.prefix == twin.prefix;
        let mut ways = self.after.routes_in(place);
        if ways.any(is_way) {
            Stay::May
        } else {
            Stay::Goes
        }
    }

    pub(super) fn too_many(&self, route: &Route, why: &str) -> Problem {
        Problem {
            text: format!("{why}: {}", self.after.print(route)),
            kind: Kind::RouteTooMany(route.clone()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    Wanted,
    Stays,
    May,
    Goes,
}
