//! What is done beside the element, by hand, and what it then puts right.

use super::Flow;
use super::element::{covering, covering_policies};
use crate::Error;
use crate::element::{TABLES, connection};
use crate::stage::Stage;
use crate::stream::idle_policy;
use crate::world::{Hop, Link};
use ipnet::IpNet;
use nsm_api::connection::Connection;
use nsm_netlink::{Op, Rule, Selector};

/// See [`Name::PriorityMove`](super::Name::PriorityMove).
#[derive(Debug)]
pub struct PriorityMove {
    connection: Connection,
    rule: Rule,
    before: bool,
}

impl PriorityMove {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        let connection = covering(Hop::A);
        stage.element.request(&connection)?;
        let rule = stage.rule()?;
        Ok(Self {
            connection,
            rule,
            before: false,
        })
    }
}

impl Flow for PriorityMove {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        // Once in front of where it belongs, once behind.
        self.before = !self.before;
        let right = self.rule.priority;
        let priority = if self.before { right - 5 } else { right + 5 };
        let moved = Rule {
            priority,
            ..self.rule.clone()
        };
        stage.swap_rule(&self.rule, &moved)?;
        stage.element.request(&self.connection)?;
        if stage.rule()? != self.rule {
            return Err("the stream's rule has not been moved back".into());
        }
        Ok(())
    }
}

/// See [`Name::Duplicates`](super::Name::Duplicates).
#[derive(Debug)]
pub struct Duplicates {
    connection: Connection,
    before: bool,
}

impl Duplicates {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        let connection = covering(Hop::A);
        stage.element.request(&connection)?;
        Ok(Self {
            connection,
            before: false,
        })
    }
}

impl Flow for Duplicates {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        // Once the duplicate serves the stream, once it stands behind.
        self.before = !self.before;
        let rule = stage.rule()?;
        let priority = rule.priority - u32::from(self.before);
        let duplicate = Rule {
            priority,
            table: TABLES[1],
            ..rule
        };
        stage.append(&stage.default_route(TABLES[1], Link::Nsm0, Hop::B))?;
        stage.write(&[Op::AddRule(duplicate)])?;
        stage.element.request(&self.connection)
    }
}

/// See [`Name::SharedTable`](super::Name::SharedTable).
#[derive(Debug)]
pub struct SharedTable {
    connection: Connection,
    other: Selector,
}

impl SharedTable {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        let family = stage.stream.family;
        let idle = idle_policy(family, 0, Link::Nsm0);
        let from: IpNet = idle.from.parse()?;
        let other = Selector {
            from: Some(from),
            ..Selector::any(family)
        };
        // The first of two that share a table keeps it, so it is the stream's rule that moves.
        let policies = std::iter::once(idle).chain(covering_policies(Link::Nsm0, Hop::A));
        let connection = connection("c1", Link::Nsm0, policies);
        stage.element.request(&connection)?;
        Ok(Self { connection, other })
    }
}

impl Flow for SharedTable {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        let (rule, other) = (stage.rule()?, stage.rule_of(&self.other)?);
        let shares = Rule {
            table: rule.table,
            ..other.clone()
        };
        stage.swap_rule(&other, &shares)?;
        let lonely = stage.default_route(other.table, Link::Nsm0, Hop::A);
        stage.write(&[Op::DelRoute(lonely)])?;
        stage.element.request(&self.connection)?;
        if stage.rule()?.table == rule.table {
            return Err("the stream's rule has not moved to another table".into());
        }
        Ok(())
    }
}

/// See [`Name::LostRoute`](super::Name::LostRoute).
#[derive(Debug)]
pub struct LostRoute(Connection);

impl LostRoute {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        let connection = covering(Hop::A);
        stage.element.request(&connection)?;
        Ok(Self(connection))
    }
}

impl Flow for LostRoute {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        let table = stage.rule()?.table;
        let route = stage.default_route(table, Link::Nsm0, Hop::A);
        stage.write(&[Op::DelRoute(route)])?;
        stage.element.request(&self.0)
    }
}
