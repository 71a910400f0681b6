//! What one element is to do, by the page that describes it: the model remembers who claims what
//! and since when left-overs wait, and holds what stands after each call against it.

mod faulted;
mod waits;

use crate::claims::{Claim, Claims};
use crate::judge::{Case, Kind, Problem, missing, same_way, unchanged};
use crate::leftovers::{Around, Left, Leftovers};
use crate::picture::{Leg, Life, Picture, Place, is_hidden, is_probe, leg};
use crate::record::Record;
use crate::small_world::Who;
use crate::turn::Turn;
use crate::wants::{Contradiction, Want};
use crate::watch::Sight;
use nsm_chain::ErrorKind;
use nsm_netlink::fault::Fault;
use nsm_netlink::{Op, Owner, Rule, Selector};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// What happened around a call, or around a time that passed.
#[derive(Debug)]
pub struct Seen {
    /// What stood before.
    pub before: Picture,
    /// What stands now.
    pub after: Picture,
    /// What was written.
    pub record: Record,
    /// What the element answered: what kind of error, and what it said.
    pub answer: Result<(), (ErrorKind, String)>,
    /// What went wrong in the kernel meanwhile.
    pub hit: Option<Fault>,
    /// What time it is.
    pub now: Instant,
}

/// What the model knows of one element.
#[derive(Debug, Clone)]
pub struct Model {
    owner: Owner,
    fail_closed: bool,
    claims: Claims,
    /// Where the selectors that are wanted were seated last.
    seats: BTreeMap<Selector, u32>,
    left: Leftovers,
    /// Legs whose mark is hidden and that have been tried.
    tried: BTreeSet<Leg>,
    /// Selectors that a close has given up and that could not be looked for.
    owed: BTreeSet<Selector>,
    /// Whether work has failed and the element may be about to do it again.
    unsettled: bool,
    /// What happened in the last call, for those who count.
    pub notes: Notes,
}

/// What was remarkable in the last call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Notes {
    /// Rules went because their time had come, or because a request dropped them.
    pub left_over_gone: bool,
    /// Something of ours that was away is back.
    pub repaired: bool,
    /// Rules of a former process are claimed.
    pub adopted: bool,
    /// Nothing had to be done for a connection with policies.
    pub nothing_to_do: bool,
    /// No table was free.
    pub exhausted: bool,
}

impl Model {
    /// An element that has just started.
    pub fn new(who: Who, fail_closed: bool) -> Self {
        Self {
            owner: who.owner(),
            fail_closed,
            claims: Claims::default(),
            seats: BTreeMap::new(),
            left: Leftovers::new(),
            tried: BTreeSet::new(),
            owed: BTreeSet::new(),
            unsettled: false,
            notes: Notes::default(),
        }
    }

    /// Who wants what.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Its mark.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// A connection was asked for: it is to have what `claim` says, and the request still said
    /// `asked`.
    pub fn requested(
        &mut self,
        connection: &'static str,
        interface: &'static str,
        wants: Result<Vec<Want>, Contradiction>,
        asked: &[Want],
        seen: &Seen,
    ) -> Vec<Problem> {
        self.notes = Notes::default();
        if let Some(kind) = self.refusal(interface, &wants, seen) {
            return self.refused(kind, seen);
        }
        let wants = wants.unwrap_or_default();
        if wants.is_empty() && asked.is_empty() && self.claims.of(connection).is_none() {
            return self.idle(seen);
        }
        let turn = Turn::request(
            &self.claims,
            Claim {
                connection,
                interface,
                wants,
            },
            asked,
        );
        match &seen.answer {
            Err((ErrorKind::ResourceExhausted, _)) if seen.hit.is_none() => {
                self.ran_out(&turn, seen)
            }
            _ => self.worked(&turn, seen),
        }
    }

    /// What a request must be refused with: policies that contradict each other, or an interface
    /// that is missing or down.
    pub fn refusal(
        &self,
        interface: &str,
        wants: &Result<Vec<Want>, Contradiction>,
        seen: &Seen,
    ) -> Option<ErrorKind> {
        match wants {
            Err(Contradiction) => Some(ErrorKind::InvalidArgument),
            Ok(wants) if wants.is_empty() => None,
            Ok(_) => match seen.before.usable(interface) {
                Some(_) => None,
                None => Some(ErrorKind::FailedPrecondition),
            },
        }
    }

    /// A connection was closed that had, as the client knows, `had`.
    pub fn closed(&mut self, connection: &str, had: &[Want], seen: &Seen) -> Vec<Problem> {
        self.notes = Notes::default();
        if self.claims.of(connection).is_some() {
            let turn = Turn::close(&self.claims, connection);
            return self.worked(&turn, seen);
        }
        // Unknown here: it changes nothing, and what it names waits for its end.
        let turn = Turn::timer(&self.claims);
        let problems = self.stood_by(&turn, seen);
        let sight = match &seen.answer {
            Ok(()) if !had.is_empty() => Sight::Certain,
            _ => Sight::Perhaps,
        };
        self.left
            .observe(&self.around(&turn, &seen.after), seen.now, sight);
        let named = turn.unwanted(had);
        for rule in seen.after.own_rules(self.owner) {
            if rule.is_plain() && named.contains(&rule.selector) && !self.is_claimed(rule) {
                self.left.rules.name(rule, seen.now, sight);
            }
        }
        problems
    }

    /// The element is another process, which remembers nothing.
    pub fn restarted(&mut self) {
        self.claims = Claims::default();
        self.seats.clear();
        self.left = Leftovers::new();
        self.tried.clear();
        self.owed.clear();
        self.unsettled = false;
    }

    /// How many namespaces the element must hold, if that is known.
    pub fn holds(&self) -> Option<usize> {
        if !self.claims.is_empty() || self.left.wakes().is_some() {
            Some(1)
        } else {
            (self.left.is_idle() && !self.unsettled).then_some(0)
        }
    }

    /// A request that is refused touches nothing, not even the claims.
    fn refused(&mut self, kind: ErrorKind, seen: &Seen) -> Vec<Problem> {
        let mut problems = self.left_alone(seen);
        match &seen.answer {
            Err((found, _)) if *found == kind || seen.hit.is_some() => {}
            Err((found, text)) => {
                problems.push(Problem::wrong(format!(
                    "it must say {kind}, not {found}: {text}"
                )));
            }
            Ok(()) => problems.push(Problem::wrong(format!(
                "it must say {kind}, and says nothing"
            ))),
        }
        problems
    }

    /// A call of somebody who wants nothing and had nothing.
    fn idle(&mut self, seen: &Seen) -> Vec<Problem> {
        let turn = Turn::timer(&self.claims);
        let problems = self.stood_by(&turn, seen);
        let around = self.around(&turn, &seen.after);
        self.left.observe(&around, seen.now, Sight::Perhaps);
        problems
    }

    /// A call that asks for nothing. What is owed may be paid on the occasion.
    fn stood_by(&mut self, turn: &Turn, seen: &Seen) -> Vec<Problem> {
        let same = unchanged(self.owner, &seen.before, &seen.after).is_empty();
        if self.left.owes() && !same {
            self.worked(turn, seen)
        } else {
            self.untouched(seen)
        }
    }

    /// Nothing of the element's has changed, and nothing was tried.
    fn untouched(&self, seen: &Seen) -> Vec<Problem> {
        let mut problems = self.left_alone(seen);
        problems.extend(self.answers_well(seen));
        problems
    }

    fn left_alone(&self, seen: &Seen) -> Vec<Problem> {
        let turn = Turn::timer(&self.claims);
        let mut problems = unchanged(self.owner, &seen.before, &seen.after);
        problems.extend(self.case(&turn, &Left::default(), seen).safe());
        problems.extend(self.nothing_written(seen));
        problems
    }

    fn nothing_written(&self, seen: &Seen) -> Option<Problem> {
        let probe = |op: &Op| {
            self.unsettled
                && matches!(op, Op::AddRule(it) | Op::DelRule(it) if is_probe(it, self.owner))
        };
        let (op, _) = seen.record.writes().find(|(op, _)| !probe(op))?;
        Some(Problem::wrong(format!(
            "nothing was to be written, and yet: {op}"
        )))
    }

    /// An answer that was lost is read again; any other fault may be the call's error.
    fn answers_well(&self, seen: &Seen) -> Option<Problem> {
        let may_fail = seen.hit.is_some_and(|fault| !faulted::is_transient(&fault));
        match &seen.answer {
            Err((kind, text)) if !may_fail => {
                Some(Problem::wrong(format!("it answers {kind}: {text}")))
            }
            _ => None,
        }
    }

    /// A request for which no table was free.
    fn ran_out(&mut self, turn: &Turn, seen: &Seen) -> Vec<Problem> {
        self.left
            .observe(&self.around(turn, &seen.before), seen.now, Sight::Perhaps);
        self.notes.exhausted = true;
        let mut problems = unchanged(self.owner, &seen.before, &seen.after);
        problems.extend(self.nothing_written(seen));
        let ids = self.owner.tables.ids().map(|id| id.get());
        let seated = |id: &u32| {
            self.seats
                .iter()
                .any(|(it, seat)| seat == id && turn.claims.has(it))
        };
        let free = ids
            .filter(|id| !seen.before.is_used(*id) && !seated(id))
            .count();
        // Each rule that does not stand on a table of its own may need one.
        let selectors = turn.claims.selectors().into_iter();
        let needed = selectors.filter(|selector| {
            !seen
                .before
                .rules_of(self.owner, selector)
                .iter()
                .any(|rule| {
                    let mut others = seen.before.own_rules(self.owner);
                    others.all(|it| it.table != rule.table || it.selector == rule.selector)
                })
        });
        if free >= needed.count() {
            problems.push(Problem::wrong(format!(
                "{free} tables are free, and it says none is"
            )));
        }
        problems
    }

    /// The element has worked, well or not.
    fn worked(&mut self, turn: &Turn, seen: &Seen) -> Vec<Problem> {
        match (&seen.answer, &seen.hit) {
            (_, Some(fault)) if !faulted::is_transient(fault) => self.failed(turn, seen, fault),
            (Ok(()), _) => self.done(turn, seen),
            (Err((kind, text)), _) => {
                vec![Problem::wrong(format!("it answers {kind}: {text}"))]
            }
        }
    }

    /// The work came to its end: everything holds.
    fn done(&mut self, turn: &Turn, seen: &Seen) -> Vec<Problem> {
        self.left
            .observe(&self.around(turn, &seen.before), seen.now, Sight::Certain);
        let left = self.left_at(seen);
        let case = self.case(turn, &left, seen);
        let mut problems = case.judge();
        if self.unsettled {
            // Work that failed may have set a table aside.
            problems.retain(|problem| problem.kind != Kind::PassedOver);
        }
        if seen.hit.is_none() {
            problems.extend(case.writes());
        }
        self.notes.adopted = turn.own.is_some_and(|own| self.adopts(own, turn, seen));
        self.notes.nothing_to_do = turn.own.is_some() && seen.record.bursts.is_empty();
        self.notes.left_over_gone = seen.before.own_rules(self.owner).any(|rule| {
            let given_up = rule.is_plain() && turn.given_up.contains(&rule.selector);
            !given_up && !self.is_wanted(turn, rule) && !seen.after.rules.contains(rule)
        });
        self.notes.repaired = turn.former.selectors().iter().any(|selector| {
            turn.claims.has(selector)
                && seen.before.rules_of(self.owner, selector).is_empty()
                && !seen.after.rules_of(self.owner, selector).is_empty()
        });
        if seen.hit.is_none() {
            problems.extend(self.tried_once(&seen.record));
        }
        self.commit(turn, &seen.after);
        if seen.hit.is_some() {
            let around = self.around(turn, &seen.after);
            self.left.glimpse(&around, seen.now);
        }
        self.settle();
        problems
    }

    /// All that was owed is done.
    fn settle(&mut self) {
        self.left.spares_gone();
        self.owed.clear();
        self.unsettled = false;
        if self.claims.is_empty() {
            // What is known of a namespace goes when it is held no more.
            self.tried.clear();
        }
    }

    /// What goes, or may go, at the moment.
    fn left_at(&self, seen: &Seen) -> Left {
        let mut left = self.left.at(seen.now);
        let owed = |rule: &&Rule| rule.is_plain() && self.owed.contains(&rule.selector);
        let rules = seen.before.own_rules(self.owner);
        left.may_go.extend(rules.filter(owed).cloned());
        left
    }

    /// Takes over what the element remembers after work that went well.
    fn commit(&mut self, turn: &Turn, after: &Picture) {
        self.claims = turn.claims.clone();
        let rules = |selector: &Selector| after.rules_of(self.owner, selector);
        let stand = turn.claims.selectors().into_iter();
        let stand: BTreeMap<Selector, u32> = stand
            .filter_map(|selector| Some((selector.clone(), rules(selector).first()?.table)))
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

    fn forget_gone(&mut self, after: &Picture) {
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

    fn case<'a>(&'a self, turn: &'a Turn, left: &'a Left, seen: &'a Seen) -> Case<'a> {
        Case {
            owner: self.owner,
            fail_closed: self.fail_closed,
            at_work: std::slice::from_ref(&self.owner),
            turn,
            before: &seen.before,
            after: &seen.after,
            record: &seen.record,
            left,
            unsettled: self.unsettled,
            twice: seen.hit.as_ref().is_some_and(faulted::is_transient),
            seats: &self.seats,
        }
    }

    fn is_claimed(&self, rule: &Rule) -> bool {
        rule.is_plain() && self.claims.has(&rule.selector)
    }

    fn is_wanted(&self, turn: &Turn, rule: &Rule) -> bool {
        rule.is_plain() && turn.claims.has(&rule.selector)
    }

    /// What the element sees when it looks around: the rules of ours that nobody wants and that do
    /// not go by this turn, and the tables of ours without a rule.
    fn around(&self, turn: &Turn, before: &Picture) -> Around {
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

    fn adopts(&self, own: &str, turn: &Turn, seen: &Seen) -> bool {
        let Some(claim) = turn.claims.of(own) else {
            return false;
        };
        claim.wants.iter().any(|want| {
            !turn.former.has(&want.selector)
                && !seen.before.rules_of(self.owner, &want.selector).is_empty()
        })
    }

    /// A leg whose mark is hidden is tried once per process.
    fn tried_once(&mut self, record: &Record) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (op, outcome) in record.writes() {
            match (op, outcome) {
                (Op::AddRoute(route, _), Ok(())) => {
                    leg(route).map(|leg| self.tried.remove(&leg));
                }
                (Op::DelRoute(route), Err(_))
                    if !leg(route).is_none_or(|leg| self.tried.insert(leg)) =>
                {
                    problems.push(Problem::wrong(format!("tried a second time: {op}")));
                }
                _ => {}
            }
        }
        problems
    }

    /// Whatever of ours stood stands, and what has come is too many and owed.
    fn nothing_lost(&mut self, seen: &Seen) -> Vec<Problem> {
        if self.left.owes() || !self.owed.is_empty() {
            // What was owed may have been done before something else went wrong.
            return Vec::new();
        }
        missing(
            self.owner,
            &seen.before,
            &seen.after,
            "was lost by work that failed",
        )
    }
}
