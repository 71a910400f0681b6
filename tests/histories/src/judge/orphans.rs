use super::{Case, Fate, Problem, same_way};
use crate::picture::{Place, is_hidden};
use nsm_netlink::RouteKind;
use std::collections::BTreeSet;

impl Case<'_> {
    /// A table that its rule has left holds nothing of ours. One that has been without a rule may be
    /// what another process of the same mark is about to use: it is emptied at once where this
    /// process or this connection left it, else after a while.
    pub(super) fn orphans(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for place in self.without_a_rule() {
            let (before, after): (Vec<_>, Vec<_>) = (
                self.before.own_routes(self.owner, place).collect(),
                self.after.own_routes(self.owner, place).collect(),
            );
            let fate = self.fate_of_table(place);
            for route in &after {
                let is_new = !before.iter().any(|old| same_way(old, route));
                if (is_new || fate == Fate::Goes) && !self.was_out_of_sight(route) {
                    problems.push(self.too_many(route, "no rule of ours looks it up"));
                }
            }
            let gone = before
                .iter()
                .filter(|old| !after.iter().any(|it| same_way(it, old)));
            for route in gone.filter(|_| fate == Fate::Stays) {
                let line = self.before.print(route);
                problems.push(Problem::wrong(format!("went before its time: {line}")));
            }
        }
        problems
    }

    fn without_a_rule(&self) -> BTreeSet<Place> {
        let routes = self.before.routes.iter().chain(&self.after.routes);
        routes
            .filter(|route| self.owner.tables.contains(route.table))
            .map(|route| (route.family(), route.table))
            .filter(|place| {
                !self
                    .after
                    .lookups(*place)
                    .any(|rule| self.owner.owns_rule(rule))
            })
            .collect()
    }

    /// What becomes of the routes of a table that no rule of ours looks up.
    pub(super) fn fate_of_table(&self, place: Place) -> Fate {
        let had_rule = self
            .before
            .lookups(place)
            .any(|rule| self.owner.owns_rule(rule));
        let given_up = self.seats.iter().any(|(selector, table)| {
            (selector.family, *table) == place && !self.turn.claims.has(selector)
        });
        if had_rule && self.twice {
            // Its rule had gone when the work began anew.
            return Fate::MayGo;
        }
        if had_rule || given_up {
            return Fate::Goes;
        }
        let dev = self.turn.interface.and_then(|name| self.before.dev(name));
        let leaves =
            |route: &&nsm_netlink::Route| route.kind != RouteKind::Unicast || route.dev() == dev;
        let mut hidden = self
            .before
            .routes_in(place)
            .filter(|route| is_hidden(route));
        let by_this = dev.is_some()
            && self
                .before
                .own_routes(self.owner, place)
                .all(|it| leaves(&it));
        if by_this && hidden.all(|it| leaves(&it)) {
            return Fate::Goes;
        }
        // What a policy had that waits for its interface stays its own.
        let claimed = self.seats.iter().any(|(selector, table)| {
            (selector.family, *table) == place && self.turn.claims.has(selector)
        });
        if claimed {
            return Fate::MayGo;
        }
        let owed = self
            .left
            .owed_routes
            .iter()
            .any(|it| (it.family(), it.table) == place);
        if self.left.due_tables.contains(&place) {
            Fate::Goes
        } else if by_this || owed || self.left.may_go_tables.contains(&place) {
            Fate::MayGo
        } else {
            Fate::Stays
        }
    }
}
