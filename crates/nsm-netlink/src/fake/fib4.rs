//! The IPv4 tables (`net/ipv4/fib_trie.c`, `net/ipv4/fib_semantics.c`).

use super::{Leg, Place, refuse};
use crate::{Attributes, Errno, Hop, Part, Refusal, Route, RouteKind};
use ipnet::IpNet;
use nix::libc;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

pub(super) const SCOPE_HOST: u8 = 254;
const SCOPE_NOWHERE: u8 = 255;

/// A route with its legs, one where it is no multipath route.
type Entry = Vec<Leg>;

#[derive(Debug, Default)]
struct Table {
    /// Which table of the namespace it is, counted from the first.
    age: usize,
    entries: Vec<Entry>,
}

#[derive(Debug, Default)]
pub(super) struct Fib4 {
    tables: BTreeMap<u32, Table>,
}

/// Where a route stands in its table: the longer prefix of one address first, the lower metric of
/// one prefix first.
type Key = (IpAddr, Reverse<u8>, Reverse<u8>, u32);

fn key(route: &Route) -> Key {
    let prefix = route.prefix;
    (
        prefix.addr(),
        Reverse(prefix.prefix_len()),
        Reverse(route.tos),
        route.metric,
    )
}

fn entry_key(entry: &Entry) -> Option<Key> {
    entry.first().map(|leg| key(&leg.route))
}

impl Fib4 {
    /// A table comes into being with the first route that is asked for in it, taken or refused, and
    /// never goes.
    pub(super) fn make_table(&mut self, id: u32) {
        let age = self.tables.len();
        self.tables.entry(id).or_insert(Table {
            age,
            entries: Vec::new(),
        });
    }

    /// The table that the kernel gives to a rule without one (`fib_empty_table`).
    pub(super) fn pick_table(&mut self) -> Result<u32, Refusal> {
        let free = (1..=255).find(|id| !self.tables.contains_key(id));
        let id = free.ok_or_else(|| refuse(Errno::ENOBUFS, "No free table"))?;
        self.make_table(id);
        Ok(id)
    }

    /// Puts a route in its place among those of equal prefix, type of service and metric
    /// (`fib_table_insert`). Says whether anything changed.
    pub(super) fn insert(&mut self, legs: Vec<Route>, place: Place) -> Result<bool, Errno> {
        let Some(first) = legs.first() else {
            return Err(Errno::EINVAL);
        };
        let key = key(first);
        self.make_table(first.table);
        let entries = &mut self.tables.entry(first.table).or_default().entries;
        let entry: Entry = legs.into_iter().map(Leg::alive).collect();

        let start = entries.partition_point(|other| entry_key(other) < Some(key));
        let end = entries.partition_point(|other| entry_key(other) <= Some(key));
        let mut at = start;
        if start < end {
            if place == Place::Exclusive {
                return Err(Errno::EEXIST);
            }
            let same = (start..end).find(|index| is_same(&entries[*index], &entry));
            match (place, same) {
                (Place::Replace, Some(index)) if index == start => return Ok(false),
                (_, Some(_)) => return Err(Errno::EEXIST),
                (Place::Replace, None) => {
                    entries[start] = entry;
                    return Ok(true);
                }
                (Place::Append, None) => at = end,
                (Place::Prepend | Place::Exclusive, None) => {}
            }
        }
        entries.insert(at, entry);
        Ok(true)
    }

    /// Deletes the first route of the prefix and type of service that agrees in what is given
    /// (`fib_table_delete`).
    pub(super) fn delete(&mut self, like: &Route) -> Result<Vec<Route>, Refusal> {
        let Some(table) = self.tables.get_mut(&like.table) else {
            return Err(refuse(Errno::ESRCH, "FIB table does not exist"));
        };
        let at = table
            .entries
            .iter()
            .position(|entry| entry.first().is_some_and(|leg| agrees(&leg.route, like)));
        let entry = table.entries.remove(at.ok_or(Errno::ESRCH)?);
        Ok(entry.into_iter().map(|leg| leg.route).collect())
    }

    /// The routes via an interface go; a multipath route stays while another leg lives
    /// (`fib_sync_down_dev`). The host's own addresses stay too, unless `all`.
    pub(super) fn device_down(&mut self, dev: u32, all: bool) {
        self.retain(|entry| {
            for leg in entry.iter_mut().filter(|leg| leg.route.dev() == Some(dev)) {
                leg.dead |= all || leg.route.scope != SCOPE_HOST;
            }
            !entry.iter().all(|leg| leg.dead)
        });
    }

    /// Legs that are still there come to life again (`fib_sync_up`).
    pub(super) fn device_up(&mut self, dev: u32) {
        for leg in self
            .tables
            .values_mut()
            .flat_map(|table| &mut table.entries)
            .flatten()
        {
            leg.dead &= leg.route.dev() != Some(dev);
        }
    }

    /// Multipath routes go as a whole with the interface of one leg.
    pub(super) fn device_gone(&mut self, dev: u32) {
        self.retain(|entry| !entry.iter().any(|leg| leg.route.dev() == Some(dev)));
    }

    /// Routes of the main table that prefer an address go with it. In other tables they stay,
    /// because the kernel compares the table of the address (`fib_sync_down_addr`).
    pub(super) fn source_gone(&mut self, table: u32, address: Ipv4Addr) -> Vec<Route> {
        let mut gone = Vec::new();
        self.retain(|entry| {
            let goes = entry.first().is_some_and(|leg| {
                leg.route.table == table
                    && leg.route.rest.get(libc::RTA_PREFSRC) == Some(&address.octets())
            });
            if goes {
                gone.extend(entry.iter().map(|leg| leg.route.clone()));
            }
            !goes
        });
        gone
    }

    fn retain(&mut self, mut keep: impl FnMut(&mut Entry) -> bool) {
        for table in self.tables.values_mut() {
            table.entries.retain_mut(&mut keep);
        }
    }

    /// All legs in the order of a dump: tables by the low byte of their id, the newest of one
    /// byte first.
    pub(super) fn legs(&self) -> impl Iterator<Item = &Leg> {
        let mut tables: Vec<_> = self.tables.iter().collect();
        tables.sort_by_key(|(id, table)| (*id & 0xff, Reverse(table.age)));
        tables
            .into_iter()
            .flat_map(|(_, table)| &table.entries)
            .flatten()
    }

    /// The legs of a table whose prefix holds an address, in the order in which they are tried.
    pub(super) fn covering(&self, table: u32, to: IpAddr) -> Vec<&Leg> {
        let entries = self
            .tables
            .get(&table)
            .map(|table| table.entries.as_slice());
        let legs = entries.unwrap_or_default().iter().flatten();
        let mut legs: Vec<_> = legs.filter(|leg| leg.route.prefix.contains(&to)).collect();
        legs.sort_by_key(|leg| Reverse(leg.route.prefix.prefix_len()));
        legs
    }
}

/// Whether the two are one route to the kernel, who made it included (`fib_find_info`).
fn is_same(a: &Entry, b: &Entry) -> bool {
    a.iter()
        .map(|leg| &leg.route)
        .eq(b.iter().map(|leg| &leg.route))
}

/// Without a next hop a delete takes a route with one too; what protects it is its scope
/// (`fib_nh_match`). Of a multipath route only the first leg is compared.
fn agrees(route: &Route, like: &Route) -> bool {
    let hop = |wanted: Hop| {
        route.hop.is_some_and(|hop| {
            (wanted.dev == 0 || wanted.dev == hop.dev)
                && (wanted.via.is_none() || wanted.via == hop.via)
        })
    };
    let given = |kind| {
        like.rest
            .get(kind)
            .is_none_or(|it| route.rest.get(kind) == Some(it))
    };
    route.prefix == like.prefix
        && route.tos == like.tos
        && (like.metric == 0 || like.metric == route.metric)
        && (like.kind == RouteKind::Other(0) || like.kind == route.kind)
        && (like.scope == SCOPE_NOWHERE || like.scope == route.scope)
        && (like.protocol == 0 || like.protocol == route.protocol)
        && like.hop.is_none_or(hop)
        && given(libc::RTA_PREFSRC)
        && given(libc::RTA_METRICS)
}

/// A route of the kernel's own: of an address, its network or its broadcast (`fib_magic`).
pub(super) fn of_address(
    table: u32,
    kind: RouteKind,
    scope: u8,
    prefix: IpNet,
    dev: u32,
    address: Ipv4Addr,
) -> Route {
    let mut rest = Attributes::NONE;
    rest.insert(libc::RTA_PREFSRC, &address.octets());
    Route {
        table,
        prefix,
        tos: 0,
        metric: 0,
        kind,
        scope,
        protocol: libc::RTPROT_KERNEL,
        hop: Some(Hop {
            dev,
            via: None,
            weight: 1,
        }),
        onlink: false,
        part: Part::Whole,
        rest,
    }
}
