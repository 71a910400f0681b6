//! What the element does alone.

use super::Flow;
use crate::Error;
use crate::element::connection;
use crate::stage::Stage;
use crate::stream::{Stream, default, idle_policy, narrower_prefix};
use crate::world::{Hop, Link};
use nsm_api::connection::Connection;
use nsm_api::connectioncontext::{PolicyRoute, Route};
use nsm_netlink::Family;

/// The connection that all streams are under.
pub fn covering(hop: Hop) -> Connection {
    connection("c1", Link::Nsm0, covering_policies(Link::Nsm0, hop))
}

/// A policy for each stream.
pub fn covering_policies(link: Link, hop: Hop) -> impl Iterator<Item = PolicyRoute> {
    Stream::ALL
        .into_iter()
        .map(move |stream| stream.policy(link, hop))
}

/// Another connection, with policies of its own.
pub fn idle(link: Link) -> Connection {
    connection("c2", link, idle_policies(link))
}

/// A policy in each family that nobody sends under.
pub fn idle_policies(link: Link) -> [PolicyRoute; 2] {
    Family::ALL.map(|family| idle_policy(family, 0, link))
}

/// See [`Name::Refresh`](super::Name::Refresh).
#[derive(Debug)]
pub struct Refresh(Connection);

impl Refresh {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        let connection = covering(Hop::A);
        stage.element.request(&connection)?;
        Ok(Self(connection))
    }
}

impl Flow for Refresh {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        stage.element.request(&self.0)
    }
}

/// See [`Name::Restart`](super::Name::Restart).
#[derive(Debug)]
pub struct Restart([Connection; 2]);

impl Restart {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        let connections = [covering(Hop::A), idle(Link::Nsm1)];
        stage.element.request_all(&connections)?;
        Ok(Self(connections))
    }
}

impl Flow for Restart {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        stage.element.restart(&stage.world)?;
        // They return in another order each time.
        self.0.reverse();
        stage.element.request_all(&self.0)
    }
}

/// See [`Name::Reconnect`](super::Name::Reconnect).
#[derive(Debug)]
pub struct Reconnect(Connection);

impl Reconnect {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        let connection = covering(Hop::A);
        stage.element.request(&connection)?;
        Ok(Self(connection))
    }
}

impl Flow for Reconnect {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        stage.element.close(&self.0)?;
        stage.element.request(&self.0)
    }
}

/// See [`Name::NextHop`](super::Name::NextHop).
#[derive(Debug)]
pub struct NextHop(Hop);

impl NextHop {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        stage.element.request(&covering(Hop::A))?;
        Ok(Self(Hop::A))
    }
}

impl Flow for NextHop {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        self.0 = self.0.other();
        stage.element.request(&covering(self.0))
    }
}

/// A connection that takes one shape after the other.
#[derive(Debug)]
struct Shapes {
    shapes: Vec<Connection>,
    at: usize,
}

impl Shapes {
    fn begin(
        stage: &mut Stage,
        shapes: impl IntoIterator<Item = Connection>,
    ) -> Result<Self, Error> {
        let shapes = Self {
            shapes: shapes.into_iter().collect(),
            at: 0,
        };
        stage.element.request(&shapes.shapes[0])?;
        Ok(shapes)
    }

    fn next(&mut self, stage: &mut Stage) -> Result<(), Error> {
        self.at = (self.at + 1) % self.shapes.len();
        stage.element.request(&self.shapes[self.at])
    }
}

/// The connection with more routes in each policy.
fn with_routes(more: impl Fn(Family) -> Vec<Route>) -> Connection {
    let mut connection = covering(Hop::A);
    for (stream, policy) in Stream::ALL
        .iter()
        .zip(&mut connection.ip_context_mut().policies)
    {
        policy.routes.extend(more(stream.family));
    }
    connection
}

fn route(family: Family, prefixes: [&str; 2], hop: Hop) -> Route {
    let [v4, v6] = prefixes;
    Route {
        prefix: if family == Family::V4 { v4 } else { v6 }.to_owned(),
        ..default(family, Link::Nsm0, hop)
    }
}

/// See [`Name::RoutesBeside`](super::Name::RoutesBeside).
#[derive(Debug)]
pub struct RoutesBeside(Shapes);

impl RoutesBeside {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        let one = |family| route(family, ["192.0.2.0/24", "2001:db8:1::/48"], Hop::A);
        let two = |family| route(family, ["203.0.113.0/24", "2001:db8:2::/48"], Hop::B);
        let shapes = [
            covering(Hop::A),
            with_routes(|family| vec![one(family)]),
            with_routes(|family| vec![two(family), one(family)]),
            with_routes(|family| vec![two(family)]),
        ];
        Ok(Self(Shapes::begin(stage, shapes)?))
    }
}

impl Flow for RoutesBeside {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        self.0.next(stage)
    }
}

/// See [`Name::NarrowerRoute`](super::Name::NarrowerRoute).
#[derive(Debug)]
pub struct NarrowerRoute(Shapes);

impl NarrowerRoute {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        let narrower = |family| {
            let prefix = narrower_prefix(family).to_string();
            vec![Route {
                prefix,
                ..default(family, Link::Nsm0, Hop::B)
            }]
        };
        let shapes = [covering(Hop::A), with_routes(narrower)];
        Ok(Self(Shapes::begin(stage, shapes)?))
    }
}

impl Flow for NarrowerRoute {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        self.0.next(stage)
    }
}

/// See [`Name::PoliciesBeside`](super::Name::PoliciesBeside).
#[derive(Debug)]
pub struct PoliciesBeside(Shapes);

impl PoliciesBeside {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        let idle = |number| Family::ALL.map(|family| idle_policy(family, number, Link::Nsm0));
        let covering = || covering_policies(Link::Nsm0, Hop::A);
        let shapes = [
            connection("c1", Link::Nsm0, covering()),
            connection("c1", Link::Nsm0, idle(1).into_iter().chain(covering())),
            connection("c1", Link::Nsm0, covering().chain(idle(2)).chain(idle(1))),
            connection(
                "c1",
                Link::Nsm0,
                idle(2).into_iter().chain(covering()).chain(idle(3)),
            ),
        ];
        Ok(Self(Shapes::begin(stage, shapes)?))
    }
}

impl Flow for PoliciesBeside {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        self.0.next(stage)
    }
}
