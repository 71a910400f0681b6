//! The least that a change of the route which a stream takes can leak in IPv6: what shall come is
//! appended, what shall go is deleted, sockets that keep their route are made to look again, and
//! nothing else is done.

use super::Name;
use crate::Error;
use crate::stage::Stage;
use crate::world::{Hop, Link};
use nsm_netlink::{Action, Family, Op, Route, Rule, Selector};
use std::thread;
use std::time::{Duration, Instant};

/// In front of the main table's rule, behind all others.
const PRIORITY: u32 = 32765;

/// The change that a flow makes, by bare netlink in the table that the element has filled.
#[derive(Debug)]
pub struct KernelsBest {
    /// What stands in one state; without it, the other one only comes and goes.
    one: Option<Route>,
    /// What stands in the other.
    other: Route,
    is_other: bool,
    pace: Duration,
    due: Instant,
}

impl KernelsBest {
    /// Begins where the flow has come to. From one change to the next it takes as long as the element.
    ///
    /// # Errors
    /// When the stream's rule is not there.
    pub fn begin(flow: Name, pace: Duration, stage: &mut Stage) -> Result<Self, Error> {
        let table = stage.rule()?.table;
        let default = |link, hop| stage.default_route(table, link, hop);
        let (one, other) = match flow {
            Name::NextHop => (
                Some(default(Link::Nsm0, Hop::A)),
                default(Link::Nsm0, Hop::B),
            ),
            Name::NarrowerRoute => (None, stage.narrower_route(table)),
            _ => (
                Some(default(Link::Nsm0, Hop::A)),
                default(Link::Nsm1, Hop::A),
            ),
        };
        let is_other = stage.has(&other)?;
        Ok(Self {
            one,
            other,
            is_other,
            pace,
            due: Instant::now(),
        })
    }

    /// Changes there and back: two changes.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn there_and_back(&mut self, stage: &mut Stage) -> Result<(), Error> {
        for _ in 0..2 {
            let routes = (self.one.as_ref(), Some(&self.other));
            let (goes, comes) = if self.is_other {
                (routes.1, routes.0)
            } else {
                routes
            };
            if let Some(route) = comes {
                stage.append(route)?;
            }
            if let Some(route) = goes {
                stage.write(&[Op::DelRoute(route.clone())])?;
            }
            look_again(stage)?;
            self.is_other = !self.is_other;
            self.due += self.pace;
            thread::sleep(self.due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }
}

/// Makes IPv6 sockets look their route up again.
fn look_again(stage: &mut Stage) -> Result<(), Error> {
    let nothing = Rule {
        action: Action::Nop,
        ..Rule::lookup(PRIORITY, Selector::any(Family::V6), 0, 0)
    };
    stage.write(&[Op::AddRule(nothing.clone()), Op::DelRule(nothing)])
}
