use super::fib4::Fib4;
use super::fib6::Fib6;
use super::journal::Entries;
use super::links::{LOOPBACK, Links};
use super::listeners::Listeners;
use super::request::{Request, check_request, normal};
use super::rules::{Rules, Want};
use super::{Place, refuse};
use crate::{
    Action, Change, Errno, Event, Family, Hop, Notification, Object, Op, Part, Placement, Refusal,
    Route, Rule, Subject,
};

pub(super) const MAIN: u32 = 254;
pub(super) const LOCAL: u32 = 255;

/// Something that a test does to the namespace while somebody reads or writes.
pub(super) type Meanwhile = Box<dyn FnOnce() + Send>;

/// Everything in one namespace. What is done to one part and reaches the others goes through here.
pub(super) struct State {
    pub(super) links: Links,
    rules4: Rules,
    rules6: Rules,
    pub(super) fib4: Fib4,
    pub(super) fib6: Fib6,
    pub(super) events: Vec<Event>,
    pub(super) listeners: Listeners,
    /// Whose request is at hand, 0 where the kernel does something by itself.
    pub(super) port: u32,
    pub(super) journal: Entries,
    /// How many objects one read of a dump gives.
    pub(super) chunk: usize,
    /// What happens between two reads, one after the other.
    pub(super) between_reads: Vec<Meanwhile>,
    pub(super) destroyed: bool,
}

impl State {
    /// A new namespace, with `lo` up.
    pub(super) fn fresh() -> Self {
        let mut state = Self {
            links: Links::fresh(),
            rules4: Rules::fresh(Family::V4),
            rules6: Rules::fresh(Family::V6),
            fib4: Fib4::default(),
            fib6: Fib6::default(),
            events: Vec::new(),
            listeners: Listeners::default(),
            port: 0,
            journal: Entries::default(),
            chunk: usize::MAX,
            between_reads: Vec::new(),
            destroyed: false,
        };
        for table in [LOCAL, MAIN] {
            state.fib4.make_table(table);
            state.fib6.make_table(table);
        }
        // The one that cannot fail: every namespace has the interface.
        if state.set_up(LOOPBACK).is_ok() {
            state.events.clear();
        }
        state
    }

    pub(super) fn rules(&self, family: Family) -> &Rules {
        match family {
            Family::V4 => &self.rules4,
            Family::V6 => &self.rules6,
        }
    }

    /// All routes of a family in the order of a dump.
    pub(super) fn routes(&self, family: Family) -> Vec<Route> {
        match family {
            Family::V4 => self.fib4.legs().map(|leg| shown(&leg.route)).collect(),
            Family::V6 => self.fib6.dump(),
        }
    }

    /// One write of somebody who uses the [`Kernel`](crate::Kernel) trait.
    pub(super) fn apply(&mut self, op: &Op) -> Result<(), Refusal> {
        match op {
            Op::AddRule(rule) => self.add_rule(rule.clone(), Want::Exclusive).map(|_| ()),
            Op::DelRule(rule) => self.del_rule(rule),
            Op::AddRoute(route, Placement::Exclusive) => {
                self.add_route(vec![route.clone()], Place::Exclusive)
            }
            Op::AddRoute(route, Placement::Append) => {
                self.add_route(vec![route.clone()], Place::Append)
            }
            Op::DelRoute(route) => self.del_route(&as_named(route)),
        }
    }

    pub(super) fn add_rule(&mut self, rule: Rule, want: Want) -> Result<Rule, Refusal> {
        let rule = match rule.family() {
            Family::V4 => self.rules4.add(rule, want, || self.fib4.pick_table()),
            Family::V6 => {
                let invalid = || Err(refuse(Errno::EINVAL, "Invalid table"));
                let added = self.rules6.add(rule, want, invalid);
                if let Ok(Rule {
                    action: Action::Lookup,
                    table,
                    ..
                }) = added
                {
                    self.fib6.make_table(table);
                }
                added
            }
        }?;
        self.tell(Change::Added, Object::Rule(rule.clone()));
        Ok(rule)
    }

    pub(super) fn del_rule(&mut self, like: &Rule) -> Result<(), Refusal> {
        let rules = match like.family() {
            Family::V4 => &mut self.rules4,
            Family::V6 => &mut self.rules6,
        };
        let gone = rules.delete(like)?;
        self.tell(Change::Removed, Object::Rule(gone));
        Ok(())
    }

    /// Adds a route, of several legs as one multipath route.
    pub(super) fn add_route(&mut self, legs: Vec<Route>, place: Place) -> Result<(), Refusal> {
        let request = if is_multipath(&legs) {
            Request::AddLeg
        } else {
            Request::Add
        };
        legs.iter()
            .try_for_each(|leg| check_request(leg, request))?;
        let legs: Vec<_> = legs.into_iter().map(normal).collect();
        match legs.first().map(Route::family) {
            None => Err(Errno::EINVAL.into()),
            Some(Family::V4) => self.add_route4(legs, place),
            Some(Family::V6) => self.add_route6(legs, place),
        }
    }

    fn add_route4(&mut self, mut legs: Vec<Route>, place: Place) -> Result<(), Refusal> {
        let several = legs.len() > 1;
        for leg in &legs {
            self.fib4.make_table(leg.table);
        }
        for (at, leg) in legs.iter_mut().enumerate() {
            self.check4(leg)?;
            leg.part = match (several, at) {
                (false, _) => Part::Whole,
                (true, 0) => Part::First,
                (true, _) => Part::Further,
            };
        }
        if self.fib4.insert(legs.clone(), place)? {
            self.tell_routes(Change::Added, legs);
        }
        Ok(())
    }

    /// In IPv6 the legs are added one by one; those behind the first join it.
    fn add_route6(&mut self, mut legs: Vec<Route>, place: Place) -> Result<(), Refusal> {
        for leg in &mut legs {
            self.fib6.make_table(leg.table);
            self.check6(leg)?;
        }
        for (at, leg) in legs.iter().enumerate() {
            let place = if at == 0 { place } else { Place::Append };
            if let Err(errno) = self.fib6.insert(leg.clone(), place) {
                for added in &legs[..at] {
                    self.fib6.delete(added)?;
                }
                return Err(errno.into());
            }
        }
        let Some(first) = legs.first() else {
            return Ok(());
        };
        let told = match place {
            Place::Append if is_multipath(&legs) => self.fib6.all_legs(first),
            _ => self.fib6.with_legs(first),
        };
        self.tell_routes(Change::Added, told);
        Ok(())
    }

    pub(super) fn del_route(&mut self, like: &Route) -> Result<(), Refusal> {
        check_request(like, Request::Delete)?;
        let table = if like.table == 0 { MAIN } else { like.table };
        let like = Route {
            table,
            ..like.clone()
        };
        let gone = match like.family() {
            Family::V4 => self.fib4.delete(&like),
            Family::V6 => self.fib6.delete(&like),
        }?;
        self.tell_routes(Change::Removed, gone);
        Ok(())
    }

    pub(super) fn tell_routes(&mut self, change: Change, routes: Vec<Route>) {
        for route in routes {
            self.tell(change, Object::Route(shown(&route)));
        }
    }

    fn tell(&mut self, change: Change, object: Object) {
        let subject = match &object {
            Object::Rule(rule) => Subject::Rule(rule.clone()),
            Object::Route(route) => Subject::Route(route.clone()),
        };
        self.events.push(Event { change, object });
        self.notify(change, subject);
    }

    /// Tells those who listen, of interfaces and addresses too.
    pub(super) fn notify(&mut self, change: Change, subject: Subject) {
        self.listeners.tell(&Notification {
            port: self.port,
            change,
            subject,
        });
    }
}

/// Whether a route is added as a multipath route, if only of one leg: of a share other than 1 the
/// kernel hears in no other way.
fn is_multipath(legs: &[Route]) -> bool {
    legs.len() > 1
        || legs
            .iter()
            .any(|leg| leg.hop.is_some_and(|hop| hop.weight != 1))
}

/// What a delete of one route names, as [`Rtnl`](crate::Rtnl) writes it: of an IPv4 multipath route
/// no next hop, because no leg's matches the whole; of an IPv6 route that refuses `lo`, by which
/// alone the kernel knows it.
fn as_named(route: &Route) -> Route {
    let hop = match (route.family(), route.hop) {
        (Family::V4, _) if route.part != Part::Whole => None,
        (Family::V6, None) => Some(Hop {
            dev: LOOPBACK,
            via: None,
            weight: 1,
        }),
        (_, hop) => hop,
    };
    Route {
        hop,
        ..route.clone()
    }
}

/// A route as a dump shows it: without its share, where no other leg has one, and without a flag
/// that is about a next hop, where it has none.
pub(super) fn shown(route: &Route) -> Route {
    let mut route = route.clone();
    if let (Part::Whole, Some(hop)) = (route.part, &mut route.hop) {
        hop.weight = 1;
    }
    route.onlink &= route.hop.is_some();
    route
}
