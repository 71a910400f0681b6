//! Which rule is kept for each selector, and which table it looks up.

use crate::actual::{Place, View};
use crate::content;
use crate::desired::Desired;
use crate::plan::Goal;
use nsm_netlink::{Family, Rule, Selector, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// Where a selector sits.
#[derive(Debug)]
pub struct Seat<'a> {
    /// The table that its rule looks up.
    pub table: TableId,
    /// The rule of ours that stands on that table, if one does.
    pub keeper: Option<&'a Rule>,
}

/// Seats all selectors; `None` where no table is free.
///
/// A rule keeps its table unless a rule of ours with another selector looks it up too. Then it may
/// stay only where the table is what it wants, no more and no less: an edit would change the
/// other's traffic, and what is the other's would take its own.
pub fn seats<'a>(goal: &Goal<'_>, view: &View<'a>) -> Vec<Option<Seat<'a>>> {
    let mut taken = Taken::default();
    let mut seats: Vec<Option<Seat<'a>>> = Vec::with_capacity(goal.desired.len());
    for desired in goal.desired {
        let seat = keep(desired, goal, view, &taken);
        if let Some(seat) = &seat {
            taken.take(desired, seat.table);
        }
        seats.push(seat);
    }
    // Nobody is given a table that another has not lost.
    fill(&mut seats, goal, &mut taken, |desired, taken| {
        last(desired, view, taken)
    });
    let remembered: BTreeSet<TableId> = goal.desired.iter().filter_map(|d| d.seat).collect();
    let mut free = view
        .owner
        .tables
        .ids()
        .filter(|id| !view.is_used(id.get()) && !remembered.contains(id));
    let orphans = orphans(view);
    fill(&mut seats, goal, &mut taken, |desired, taken| {
        partner(desired, goal, view, taken)
            .or_else(|| orphan(desired, &orphans, goal, view, taken))
            .or_else(|| free.find(|id| !taken.ids.contains(id)))
    });
    seats
}

/// Gives those without a seat the table that is found for them, in the order of the list.
fn fill<'a>(
    seats: &mut [Option<Seat<'a>>],
    goal: &Goal<'_>,
    taken: &mut Taken,
    mut find: impl FnMut(&Desired, &Taken) -> Option<TableId>,
) {
    for (desired, seat) in goal.desired.iter().zip(seats) {
        if seat.is_some() {
            continue;
        }
        if let Some(table) = find(desired, taken) {
            taken.take(desired, table);
            *seat = Some(Seat {
                table,
                keeper: None,
            });
        }
    }
}

/// What is given in this plan.
#[derive(Default)]
struct Taken {
    places: BTreeSet<Place>,
    ids: BTreeSet<TableId>,
    groups: BTreeMap<Selector, TableId>,
}

impl Taken {
    fn take(&mut self, desired: &Desired, table: TableId) {
        self.places.insert((desired.family(), table.get()));
        self.ids.insert(table);
        self.groups.entry(desired.group()).or_insert(table);
    }

    fn has(&self, family: Family, table: TableId) -> bool {
        self.places.contains(&(family, table.get()))
    }
}

/// The rule that stands for a selector: of several the one on a table of its own and at its own
/// priority, then the first listed.
fn keep<'a>(
    desired: &Desired,
    goal: &Goal<'_>,
    view: &View<'a>,
    taken: &Taken,
) -> Option<Seat<'a>> {
    let family = desired.family();
    let shared = |rule: &Rule| view.is_shared((family, rule.table), &desired.selector);
    let keeper = view
        .rules_of(&desired.selector)
        .iter()
        .copied()
        .min_by_key(|rule| (shared(rule), rule.priority != desired.priority))?;
    let table = TableId::new(keeper.table)?;
    if taken.has(family, table) {
        return None;
    }
    let fits = || {
        let edit = content::edit(desired, keeper.table, goal, view);
        edit.is_empty() && !edit.extra
    };
    (!shared(keeper) || fits()).then_some(Seat {
        table,
        keeper: Some(keeper),
    })
}

/// The table of the same policy's rule in the other family. Routes of ours in it that no rule looks
/// up may be another process's that is about to: then it is left alone, as any such table is.
fn partner(desired: &Desired, goal: &Goal<'_>, view: &View<'_>, taken: &Taken) -> Option<TableId> {
    let table = *taken.groups.get(&desired.group())?;
    let place = (desired.family(), table.get());
    let is_free = || {
        let edit = content::edit(desired, table.get(), goal, view);
        !edit.extra && (edit.is_empty() || goal.orphans.contains(&place))
    };
    let is_left = view.routes(place).is_empty() || is_free();
    (is_left && is_open(desired, table, view, taken)).then_some(table)
}

/// The table that the selector had when it was seated last: its routes may still be there.
fn last(desired: &Desired, view: &View<'_>, taken: &Taken) -> Option<TableId> {
    let table = desired
        .seat
        .filter(|seat| view.owner.tables.contains(seat.get()))?;
    is_open(desired, table, view, taken).then_some(table)
}

/// Whether no rule looks a table up in this family and nobody else's route lies in it.
fn is_open(desired: &Desired, table: TableId, view: &View<'_>, taken: &Taken) -> bool {
    let place = (desired.family(), table.get());
    !taken.has(desired.family(), table)
        && view.lookups(place).is_empty()
        && view
            .routes(place)
            .iter()
            .all(|route| view.owner.owns_route(route))
}

/// The tables that hold routes and that no rule looks up, lowest first.
fn orphans(view: &View<'_>) -> BTreeSet<Place> {
    view.filled()
        .filter(|(_, table)| {
            Family::ALL
                .iter()
                .all(|family| view.lookups((*family, *table)).is_empty())
        })
        .collect()
}

/// A table whose rule is gone and that holds exactly what is wanted: a process that was ended
/// between its routes and its rule leaves one, and so does somebody who deletes rules.
fn orphan(
    desired: &Desired,
    orphans: &BTreeSet<Place>,
    goal: &Goal<'_>,
    view: &View<'_>,
    taken: &Taken,
) -> Option<TableId> {
    orphans
        .iter()
        .filter(|(family, table)| *family == desired.family() && view.owner.tables.contains(*table))
        .filter_map(|(_, table)| TableId::new(*table))
        .filter(|table| !taken.ids.contains(table) && is_open(desired, *table, view, taken))
        .find(|table| {
            let routes = view.routes((desired.family(), table.get()));
            let edit = content::edit(desired, table.get(), goal, view);
            edit.is_empty()
                && edit.stands
                && routes
                    .iter()
                    .all(|route| desired.prefixes.contains(&route.prefix))
        })
}
