//! What one element is to do, by the page that describes it: the model remembers who claims what
//! and since when left-overs wait, and holds what stands after each call against it.

mod done;
mod faulted;
mod memory;
mod untouched;
mod waits;

use crate::claims::{Claim, Claims};
use crate::judge::{Case, Problem};
use crate::leftovers::{Left, Leftovers};
use crate::picture::{Leg, Picture};
use crate::record::Record;
use crate::small_world::Who;
use crate::turn::Turn;
use crate::wants::{Contradiction, Want};
use crate::watch::Sight;
use nsm_chain::ErrorKind;
use nsm_netlink::fault::Fault;
use nsm_netlink::{Owner, Rule, Selector};
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
        let is_idle = wants.is_empty() && asked.is_empty() && self.claims.of(connection).is_none();
        let turn = Turn::request(
            &self.claims,
            Claim {
                connection,
                interface,
                wants,
            },
            asked,
        );
        if is_idle {
            return self.idle(&turn, seen);
        }
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
}
