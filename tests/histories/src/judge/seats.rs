use super::tables::Stay;
use super::{Case, Fate, Kind, Problem, same_way};
use crate::picture::{Place, is_hidden};
use crate::wants::{in_other_family, priority};
use nsm_netlink::{Route, Rule, Selector};

impl Case<'_> {
    /// A rule that stands keeps its table; a policy that gets one gets one that was free.
    pub(super) fn seats(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut last_fresh = None;
        for selector in self.turn.claims.selectors() {
            let stands = self.after.rules_of(self.owner, selector);
            let Some(rule) = stands.first().filter(|_| stands.len() == 1) else {
                continue;
            };
            if !self.has_content(selector) {
                continue;
            }
            let stood = self.before.rules_of(self.owner, selector);
            if let Some(text) = self.is_reattached(rule, &stood) {
                problems.push(Problem::wrong(text));
            }
            if stood.iter().any(|old| old.table == rule.table) {
                continue;
            }
            if let Some(why) = self.was_not_free(rule) {
                problems.push(Problem::wrong(format!("{why}: given to {rule}")));
            }
            if self.is_fresh(rule) {
                problems.extend(self.passed_over(rule));
                if last_fresh > Some(rule.table) {
                    problems.push(Problem {
                        text: format!("tables are not given in list order: {rule}"),
                        kind: Kind::PassedOver,
                    });
                }
                last_fresh = Some(rule.table);
            }
        }
        problems
    }

    /// Why a rule is not the one that was to be kept. Of several the one on a table of its own and
    /// at its own priority is.
    fn is_reattached(&self, rule: &Rule, stood: &[&Rule]) -> Option<String> {
        let on_its_own: Vec<_> = stood.iter().filter(|old| self.stood_alone(old)).collect();
        let in_place = on_its_own
            .iter()
            .find(|old| old.priority == priority(&old.selector));
        let tables: Vec<u32> = match in_place {
            Some(old) => vec![old.table],
            None => on_its_own.iter().map(|old| old.table).collect(),
        };
        let kept = tables.is_empty() || tables.contains(&rule.table);
        (!kept).then(|| format!("it stood on table {tables:?} and was moved: {rule}"))
    }

    fn stood_alone(&self, rule: &Rule) -> bool {
        self.before
            .lookups((rule.family(), rule.table))
            .all(|other| {
                !self.owner.owns_rule(other) || other.is_plain() && other.selector == rule.selector
            })
    }

    /// Why a table that was given to a policy was not free.
    fn was_not_free(&self, rule: &Rule) -> Option<String> {
        let (table, place) = (rule.table, (rule.family(), rule.table));
        if let Some(other) = self.before.lookups(place).next() {
            return Some(format!("table {table} was looked up by {other}"));
        }
        let comes_back = self.seats.get(&rule.selector) == Some(&table);
        let theirs = |route: &&Route| {
            // Of a leg whose mark is hidden it cannot know in the table that it had.
            let unknowable = comes_back && is_hidden(route);
            !(self.before.is_own(self.owner, route) || unknowable)
        };
        if let Some(route) = self.before.routes_in(place).find(theirs) {
            return Some(format!("table {table} held {}", self.before.print(route)));
        }
        if let Some(other) = self.claimed_by_another(rule) {
            return Some(format!("table {table} belongs to [{other}]"));
        }
        if self.turn.former.has(&rule.selector)
            && let Some(last) = self.last_seat(&rule.selector)
            && last != table
            && !self.is_with_its_partner(rule)
        {
            return Some(format!("its routes stand in table {last}"));
        }
        let has_routes = self.before.routes_in(place).next().is_some();
        if has_routes
            && !comes_back
            && !self.held_just_that(&rule.selector, place)
            && !self.is_cleared_for_its_partner(rule)
        {
            return Some(format!("table {table} held routes of another policy"));
        }
        None
    }

    /// A better table than the one that was given: that of the other family, or a lower one. A
    /// policy that waits for its interface may have one set aside.
    fn passed_over(&self, rule: &Rule) -> Option<Problem> {
        let problem = |text: String| {
            Some(Problem {
                text,
                kind: Kind::PassedOver,
            })
        };
        if let Some(partner) = self.partner_table(&rule.selector)
            && self.is_open((rule.family(), partner))
            && self
                .before
                .routes_in((rule.family(), partner))
                .next()
                .is_none()
        {
            return problem(format!("its other family has table {partner}: {rule}"));
        }
        if self.before.is_used(rule.table) {
            return problem(format!("its table is in use in the other family: {rule}"));
        }
        let ids = self.owner.tables.ids().map(|id| id.get());
        let lower = ids.take_while(|id| *id < rule.table);
        let mut free = lower.filter(|id| !self.before.is_used(*id) && !self.is_given(*id));
        let selectors = self.turn.claims.selectors().into_iter();
        let waiting = selectors.filter(|it| !self.has_content(it));
        let free = free.nth(waiting.count())?;
        problem(format!("table {free} was free, and passed over for {rule}"))
    }

    /// Whether a table was taken into use for this rule, neither come back to nor shared with its
    /// other family.
    fn is_fresh(&self, rule: &Rule) -> bool {
        self.before
            .routes_in((rule.family(), rule.table))
            .next()
            .is_none()
            && self.seats.get(&rule.selector) != Some(&rule.table)
            && !self.is_with_its_partner(rule)
    }

    /// Another policy that is wanted, had this table, and has lost its rule.
    fn claimed_by_another(&self, rule: &Rule) -> Option<&Selector> {
        let place = (rule.family(), rule.table);
        let selectors = self.turn.claims.selectors().into_iter();
        selectors
            .filter(|other| **other != rule.selector)
            .find(|other| {
                (other.family, self.seats.get(*other).copied()) == (place.0, Some(place.1))
                    && self.before.rules_of(self.owner, other).is_empty()
            })
    }

    /// Whether an id belongs to a policy that is wanted, by what is or by what was.
    fn is_given(&self, id: u32) -> bool {
        let selectors = self.turn.claims.selectors().into_iter();
        selectors.into_iter().any(|selector| {
            self.seats.get(selector) == Some(&id)
                || self
                    .after
                    .rules_of(self.owner, selector)
                    .iter()
                    .any(|rule| rule.table == id)
        })
    }

    /// The table that a policy had last, if its routes are still there and nobody else's.
    fn last_seat(&self, selector: &Selector) -> Option<u32> {
        let last = *self.seats.get(selector)?;
        let place = (selector.family, last);
        let full = self.before.own_ways(self.owner, place).next().is_some();
        let free = self
            .after
            .lookups(place)
            .all(|rule| rule.selector == *selector);
        (full && free && self.is_open(place)).then_some(last)
    }

    fn is_open(&self, place: Place) -> bool {
        self.before.lookups(place).next().is_none()
            && self
                .before
                .routes_in(place)
                .all(|route| self.before.is_own(self.owner, route))
    }

    /// Whether a table whose rule is gone holds exactly what a policy wants.
    fn held_just_that(&self, selector: &Selector, place: Place) -> bool {
        let protocol = self.owner.protocol.get();
        let content = self.turn.claims.content(selector, self.before);
        let wanted: Vec<Route> = content
            .into_iter()
            .map(|(prefix, (dev, via))| Route::unicast(place.1, prefix, dev, via, protocol))
            .collect();
        let held: Vec<&Route> = self.before.own_ways(self.owner, place).collect();
        held.len() == wanted.len()
            && held
                .iter()
                .all(|route| wanted.iter().any(|it| same_way(it, route)))
    }

    fn partner_table(&self, selector: &Selector) -> Option<u32> {
        let other = in_other_family(selector)?;
        let stands = self.after.rules_of(self.owner, &other);
        self.turn.claims.has(&other).then_some(())?;
        stands.first().map(|rule| rule.table)
    }

    /// A table with the id of the other family whose routes nobody else is about to use: it is
    /// given, and those that are not wanted go. One that does not is a problem for itself.
    fn is_cleared_for_its_partner(&self, rule: &Rule) -> bool {
        let place = (rule.family(), rule.table);
        let mut ways = self.after.own_ways(self.owner, place);
        self.is_with_its_partner(rule)
            && self.fate_of_table(place) != Fate::Stays
            && ways.all(|way| matches!(self.stay(&rule.selector, way), Stay::Wanted | Stay::Goes))
    }

    fn is_with_its_partner(&self, rule: &Rule) -> bool {
        self.partner_table(&rule.selector) == Some(rule.table)
    }
}
