//! What is remembered of one namespace.

use crate::actual::Place;
use crate::claims::{Claim, Claims};
use crate::leftover::Leftovers;
use crate::metrics::Standing;
use crate::plan::Leg;
use crate::policy::Want;
use crate::report::Report;
use ipnet::IpNet;
use nsm_api::ConnectionId;
use nsm_netlink::{Op, Route, Rule, Selector, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The memory of one namespace. It holds what is wanted and what waits, never what is installed.
#[derive(Debug, Default)]
pub struct Space {
    /// Who wants what.
    pub claims: Claims,
    /// Rules of ours that nobody claims and that wait for their end.
    pub leftovers: Leftovers,
    /// Legs of IPv6 multipath routes that have turned out not to be ours.
    pub foreign_legs: BTreeSet<Leg>,
    /// Selectors that a close has given up and whose rules could not be looked for. They are
    /// removed by whatever is done next.
    pub owed: BTreeSet<Selector>,
    /// Rules that a request that failed may have left. They go with whatever is done next, unless
    /// somebody claims them.
    pub stray: BTreeSet<Rule>,
    /// Tables that hold routes which a call that failed has left. They are emptied by whatever is
    /// done next, unless a rule looks them up.
    pub litter: BTreeSet<Place>,
    /// Routes that a call may have left in the table of a selector that goes on: prefix and next hop. They
    /// go with whatever is done next, unless somebody wants them.
    pub stale: BTreeMap<Selector, BTreeSet<(IpNet, Option<IpAddr>)>>,
    /// Whether IPv6 sockets have still to be made to look again after routes that were written.
    pub probe_owed: bool,
    /// The interfaces of the claims, by index, and whether each was up when they were last read.
    pub devs: BTreeMap<u32, bool>,
    /// What has been said and still holds.
    pub reported: BTreeSet<Report>,
    /// How the namespace stands, for the figures.
    pub standing: Standing,
    /// Whether the memory has been given up: whoever waited for it looks for another.
    pub retired: bool,
}

impl Space {
    /// Whether the namespace has to be held.
    pub fn is_idle(&self) -> bool {
        self.claims.is_empty() && self.leftovers.is_idle() && !self.is_in_debt()
    }

    /// Whether something is to be removed that a call that failed has left.
    pub fn is_in_debt(&self) -> bool {
        !(self.owed.is_empty()
            && self.stray.is_empty()
            && self.litter.is_empty()
            && self.stale.is_empty())
    }

    /// Takes note of a route that may stand and should not. `tables` is where selectors sit.
    pub fn left(&mut self, route: &Route, tables: &BTreeMap<Selector, TableId>) {
        let place = (route.family(), route.table);
        self.litter.insert(place);
        let via = route.hop.and_then(|hop| hop.via);
        let at_place = tables
            .iter()
            .filter(|(selector, table)| (selector.family, table.get()) == place);
        for (selector, _) in at_place {
            let stale = self.stale.entry(selector.clone()).or_default();
            stale.insert((route.prefix, via));
        }
    }

    /// Takes note of what a call that failed may have left. `tables` is where selectors sit.
    pub fn owe(&mut self, added: Op, tables: &BTreeMap<Selector, TableId>) {
        match added {
            Op::AddRule(rule) => {
                self.stray.insert(rule);
            }
            Op::AddRoute(route, _) => self.left(&route, tables),
            Op::DelRule(_) | Op::DelRoute(_) => {}
        }
    }

    /// What nobody asks for any more: since this turn, or since one that could not remove it.
    pub fn ended(&self, turn: &Turn) -> BTreeMap<Selector, BTreeSet<(IpNet, Option<IpAddr>)>> {
        let mut ended = turn.ended.clone();
        for (selector, routes) in &self.stale {
            ended.entry(selector.clone()).or_default().extend(routes);
        }
        ended
    }

    /// Takes over the claims of a turn and where they sit. Tables that have been emptied or taken
    /// into use wait for nothing any more.
    pub fn take_over(
        &mut self,
        claims: Claims,
        seated: BTreeMap<Selector, TableId>,
        emptied: BTreeSet<Place>,
    ) {
        self.claims = claims;
        self.claims.remember(seated);
        for place in emptied.into_iter().chain(self.claims.seats()) {
            self.leftovers.forget_orphan(place);
        }
    }

    /// Says what has not been said yet, and forgets what no longer holds.
    pub fn report(&mut self, reports: BTreeSet<Report>) {
        for report in reports.difference(&self.reported) {
            tracing::warn!("{report}");
        }
        self.reported = reports;
    }
}

/// What has happened to the claims of a namespace.
#[derive(Debug, Clone)]
pub enum Change {
    /// A connection wants these policies by this interface.
    Request {
        /// Whose request it is.
        connection: ConnectionId,
        /// The interface.
        interface: String,
        /// What the answer says.
        wants: Vec<Want>,
        /// What the request itself still said.
        asked: Vec<Want>,
    },
    /// A connection ends, or wants nothing here any more.
    Close {
        /// Which connection.
        connection: ConnectionId,
        /// What it says that it had. It matters when it has no claim: its rules get a grace.
        had: Vec<Want>,
    },
    /// Nothing: a left-over's time has come.
    Timer,
    /// Nothing: somebody else has changed what stands.
    Drift,
}

/// The claims after a change, and what the change has ended.
#[derive(Debug)]
pub struct Turn {
    /// The claims as they are to be.
    pub claims: Claims,
    /// The connection whose request it is.
    pub own: Option<ConnectionId>,
    /// The interface of that connection.
    pub interface: Option<String>,
    /// Selectors that were given up here and that nobody claims: their rules go.
    pub dropped: BTreeSet<Selector>,
    /// Prefixes and next hops that were given up or are asked for no more.
    pub ended: BTreeMap<Selector, BTreeSet<(IpNet, Option<IpAddr>)>>,
    /// Selectors that the request named and nobody claims.
    pub unanswered: BTreeSet<Selector>,
    /// Selectors that a connection without a claim has named in its close.
    pub named: BTreeSet<Selector>,
    /// Whether the connection at hand wants what it wanted before.
    pub unchanged: bool,
}

impl Turn {
    /// Works out what a change means.
    pub fn new(space: &Space, change: &Change) -> Self {
        let mut turn = Self {
            claims: space.claims.clone(),
            own: None,
            interface: None,
            dropped: BTreeSet::new(),
            ended: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            named: BTreeSet::new(),
            unchanged: false,
        };
        match change {
            Change::Request {
                connection,
                interface,
                wants,
                asked,
            } => {
                let former = turn.claims.get(connection).cloned();
                turn.unchanged = former.as_ref().is_some_and(|former| former.wants == *wants);
                turn.interface = Some(interface.clone());
                if wants.is_empty() {
                    turn.claims.end(connection);
                } else {
                    turn.claims
                        .set(connection.clone(), interface.clone(), wants.clone());
                    turn.own = Some(connection.clone());
                }
                turn.give_up(former.as_ref());
                turn.ended_by(asked);
                turn.unanswered = turn.unclaimed(asked);
            }
            Change::Close { connection, had } => match turn.claims.end(connection) {
                Some(former) => {
                    turn.interface = Some(former.interface.clone());
                    turn.give_up(Some(&former));
                }
                None => turn.named = turn.unclaimed(had),
            },
            Change::Timer | Change::Drift => {}
        }
        let claimed = turn.claims.selectors();
        let owed = space
            .owed
            .iter()
            .filter(|selector| !claimed.contains(selector));
        turn.dropped.extend(owed.cloned());
        turn
    }

    fn give_up(&mut self, former: Option<&Claim>) {
        let Some(former) = former else { return };
        self.dropped = self.unclaimed(&former.wants);
        self.ended_by(&former.wants);
    }

    fn unclaimed(&self, wants: &[Want]) -> BTreeSet<Selector> {
        let claimed = self.claims.selectors();
        let selectors = wants.iter().map(|want| &want.selector);
        selectors
            .filter(|selector| !claimed.contains(selector))
            .cloned()
            .collect()
    }

    fn ended_by(&mut self, wants: &[Want]) {
        for want in wants {
            let routes = want.routes.iter().map(|(prefix, via)| (*prefix, *via));
            self.ended
                .entry(want.selector.clone())
                .or_default()
                .extend(routes);
        }
    }
}
