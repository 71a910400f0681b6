//! The IPv6 tables (`net/ipv6/ip6_fib.c`, `net/ipv6/route.c`).

use super::request::device6;
use super::state::shown;
use super::{Leg, Place, refuse};
use crate::{Errno, Family, Part, Refusal, Route};
use ipnet::IpNet;
use nix::libc;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

#[derive(Debug, Default)]
struct Table {
    /// Which table of the namespace it is, counted from the first.
    age: usize,
    legs: Vec<Leg>,
}

#[derive(Debug, Default)]
pub(super) struct Fib6 {
    tables: BTreeMap<u32, Table>,
}

/// The kernel walks its tree branches first, so a longer prefix comes before those that hold it.
fn walk(a: &IpNet, b: &IpNet) -> Ordering {
    if a == b {
        Ordering::Equal
    } else if a.contains(b) {
        Ordering::Greater
    } else if b.contains(a) {
        Ordering::Less
    } else {
        a.addr().cmp(&b.addr())
    }
}

fn order(a: &Route, b: &Route) -> Ordering {
    walk(&a.prefix, &b.prefix).then(a.metric.cmp(&b.metric))
}

/// Whether a route joins others of its prefix and metric as a leg: those with a gateway do
/// (`rt6_qualify_for_ecmp`).
fn is_leg(route: &Route) -> bool {
    via(route).is_some()
}

fn via(route: &Route) -> Option<IpAddr> {
    route.hop.and_then(|hop| hop.via)
}

impl Fib6 {
    /// A table comes into being with the first route that is asked for in it, or with the first rule
    /// that names it, and never goes.
    pub(super) fn make_table(&mut self, id: u32) {
        let age = self.tables.len();
        self.tables.entry(id).or_insert(Table {
            age,
            legs: Vec::new(),
        });
    }

    /// Puts a route behind those of its prefix and metric (`fib6_add_rt2node`).
    pub(super) fn insert(&mut self, route: Route, place: Place) -> Result<(), Errno> {
        self.make_table(route.table);
        let legs = &mut self.tables.entry(route.table).or_default().legs;
        let equals = equals(legs, &route);
        if !equals.is_empty() && place == Place::Exclusive {
            return Err(Errno::EEXIST);
        }
        if !equals.is_empty() && place == Place::Replace {
            replace(legs, equals, route);
            return Ok(());
        }
        let end = equals.end;
        let mut others = legs[equals].iter().map(|leg| &leg.route);
        if others.any(|other| other.dev() == route.dev() && via(other) == via(&route)) {
            return Err(Errno::EEXIST);
        }
        legs.insert(end, Leg::alive(route));
        Ok(())
    }

    /// A route with those that are its legs, itself first: so the kernel tells of one that is added.
    pub(super) fn with_legs(&self, route: &Route) -> Vec<Route> {
        let ring = self.legs_of(route);
        let at = ring.iter().position(|other| *other == route).unwrap_or(0);
        as_one(ring[at..].iter().chain(&ring[..at]).copied())
    }

    /// All legs of the route that a leg belongs to, the oldest first: so a dump shows them.
    pub(super) fn all_legs(&self, route: &Route) -> Vec<Route> {
        as_one(self.legs_of(route).into_iter())
    }

    fn legs_of<'a>(&'a self, route: &'a Route) -> Vec<&'a Route> {
        match self.tables.get(&route.table) {
            Some(table) if is_leg(route) => {
                let routes = table.legs[equals(&table.legs, route)]
                    .iter()
                    .map(|leg| &leg.route);
                routes.filter(|other| is_leg(other)).collect()
            }
            _ => vec![route],
        }
    }

    /// Deletes the first route that agrees in what is given (`ip6_route_del`): the type is not
    /// compared. With a gateway, if only `::`, it is that one leg; without, all legs go.
    pub(super) fn delete(&mut self, like: &Route) -> Result<Vec<Route>, Refusal> {
        let Some(table) = self.tables.get_mut(&like.table) else {
            return Err(refuse(Errno::ESRCH, "FIB table does not exist"));
        };
        let legs = &mut table.legs;
        if like.prefix.prefix_len() == 0
            && !legs.iter().any(|leg| leg.route.prefix.prefix_len() == 0)
            && agrees(&nothing(like.table), like)
        {
            return Err(Errno::ENOENT.into());
        }
        let at = legs
            .iter()
            .position(|leg| agrees(&leg.route, like))
            .ok_or(Errno::ESRCH)?;
        let found = legs[at].route.clone();
        if like.hop.is_some() || !is_leg(&found) {
            legs.remove(at);
            return Ok(vec![found]);
        }
        let gone = self.with_legs(&found);
        let table = self.tables.entry(like.table).or_default();
        table
            .legs
            .retain(|leg| order(&leg.route, &found).is_ne() || !is_leg(&leg.route));
        Ok(gone)
    }

    /// The routes via an interface go; legs stay while another leg lives (`fib6_ifdown`). Gives
    /// what went.
    pub(super) fn device_down(&mut self, dev: u32) -> Vec<Route> {
        for leg in self.tables.values_mut().flat_map(|table| &mut table.legs) {
            leg.dead |= device6(&leg.route) == Some(dev);
        }
        let living: Vec<Route> = self
            .tables
            .values()
            .flat_map(|table| &table.legs)
            .filter(|leg| !leg.dead && is_leg(&leg.route))
            .map(|leg| leg.route.clone())
            .collect();
        self.take(|leg| {
            let sibling =
                |other: &Route| other.table == leg.route.table && order(other, &leg.route).is_eq();
            leg.dead && !(is_leg(&leg.route) && living.iter().any(sibling))
        })
    }

    /// Legs that are still there come to life again (`rt6_sync_up`).
    pub(super) fn device_up(&mut self, dev: u32) {
        for leg in self.tables.values_mut().flat_map(|table| &mut table.legs) {
            leg.dead &= device6(&leg.route) != Some(dev);
        }
    }

    /// All routes and legs via an interface go with it. Gives what went.
    pub(super) fn device_gone(&mut self, dev: u32) -> Vec<Route> {
        self.take(|leg| device6(&leg.route) == Some(dev))
    }

    /// Routes that prefer an address lose that preference with the address and stay, in whatever
    /// table and by whatever interface (`rt6_remove_prefsrc`).
    pub(super) fn source_gone(&mut self, address: Ipv6Addr) {
        for leg in self.tables.values_mut().flat_map(|table| &mut table.legs) {
            let rest = &leg.route.rest;
            if rest.get(libc::RTA_PREFSRC) == Some(&address.octets()) {
                let others = rest.iter().filter(|(kind, _)| *kind != libc::RTA_PREFSRC);
                leg.route.rest = others
                    .map(|(kind, payload)| (kind, payload.to_vec()))
                    .collect();
            }
        }
    }

    fn take(&mut self, mut goes: impl FnMut(&Leg) -> bool) -> Vec<Route> {
        let mut gone = Vec::new();
        for id in self.walk() {
            let legs = self.tables.entry(id).or_default();
            gone.extend(
                legs.legs
                    .extract_if(.., |leg| goes(leg))
                    .map(|leg| leg.route),
            );
        }
        gone
    }

    /// The tables in the order of a dump: by the low byte of their id, the newest of one byte first.
    fn walk(&self) -> Vec<u32> {
        let mut ids: Vec<_> = self
            .tables
            .iter()
            .map(|(id, table)| (*id, table.age))
            .collect();
        ids.sort_by_key(|(id, age)| (id & 0xff, Reverse(*age)));
        ids.into_iter().map(|(id, _)| id).collect()
    }

    /// All routes as a dump shows them (`fib6_dump_node`): the legs of one route together, under
    /// the protocol of the first. From the first leg the dump goes on behind the last, so that
    /// **what stands between them is not shown**.
    pub(super) fn dump(&self) -> Vec<Route> {
        let mut shown = Vec::new();
        for id in self.walk() {
            let legs = self
                .tables
                .get(&id)
                .map(|table| table.legs.as_slice())
                .unwrap_or_default();
            let mut at = 0;
            while let Some(Leg { route, .. }) = legs.get(at) {
                shown.extend(self.all_legs(route));
                let behind = equals(legs, route).end;
                let last = legs[at..behind].iter().rposition(|leg| is_leg(&leg.route));
                at += last.filter(|_| is_leg(route)).unwrap_or(0) + 1;
            }
        }
        shown
    }

    /// The legs of a table whose prefix holds an address, in the order in which they are tried.
    pub(super) fn covering(&self, table: u32, to: IpAddr) -> Vec<&Leg> {
        let legs = self
            .tables
            .get(&table)
            .map(|table| table.legs.as_slice())
            .unwrap_or_default();
        let mut legs: Vec<_> = legs
            .iter()
            .filter(|leg| leg.route.prefix.contains(&to))
            .collect();
        legs.sort_by_key(|leg| Reverse(leg.route.prefix.prefix_len()));
        legs
    }
}

/// Where those of a route's prefix and metric stand.
fn equals(legs: &[Leg], route: &Route) -> Range<usize> {
    let start = legs.partition_point(|leg| order(&leg.route, route).is_lt());
    start..legs.partition_point(|leg| order(&leg.route, route).is_le())
}

/// Takes the place of the first route that has a gateway as this one has, or has none as this one
/// has none; with it go its other legs.
fn replace(legs: &mut Vec<Leg>, equals: Range<usize>, route: Route) {
    let alike = equals
        .clone()
        .find(|index| is_leg(&legs[*index].route) == is_leg(&route));
    let at = alike.unwrap_or(equals.start);
    let old = std::mem::replace(&mut legs[at], Leg::alive(route));
    if is_leg(&old.route) {
        legs.extract_if(at + 1..equals.end, |leg| is_leg(&leg.route))
            .for_each(drop);
    }
}

/// Routes as the legs of one, which has all but the next hop from the first.
fn as_one<'a>(mut legs: impl Iterator<Item = &'a Route>) -> Vec<Route> {
    let Some(first) = legs.next() else {
        return Vec::new();
    };
    let leg = |leg: &Route| Route {
        hop: leg.hop,
        onlink: leg.onlink,
        part: Part::Further,
        ..first.clone()
    };
    let further: Vec<Route> = legs.map(leg).collect();
    if further.is_empty() {
        return vec![shown(first)];
    }
    let first = Route {
        part: Part::First,
        ..first.clone()
    };
    std::iter::once(first).chain(further).collect()
}

/// What stands for the default route where a table has none (`fib6_null_entry`). A dump does not
/// show it, and to delete it is another error than to delete what is not there.
fn nothing(table: u32) -> Route {
    Route::unreachable(table, Family::V6.default_prefix(), libc::RTPROT_KERNEL)
}

fn agrees(route: &Route, like: &Route) -> bool {
    route.prefix == like.prefix.trunc()
        && (like.metric == 0 || like.metric == route.metric)
        && (like.protocol == 0 || like.protocol == route.protocol)
        && like.hop.is_none_or(|wanted| {
            (wanted.dev == 0 || device6(route) == Some(wanted.dev)) && wanted.via == via(route)
        })
}
