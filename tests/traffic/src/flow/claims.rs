//! Where several connections meet.

use super::Flow;
use super::element::{covering, covering_policies, idle, idle_policies};
use crate::Error;
use crate::element::connection;
use crate::stage::Stage;
use crate::world::{Hop, Link};
use nsm_api::connection::Connection;
use std::io::Write;
use std::process::{Command, Stdio};

/// A second connection that comes and goes while the first one stands.
#[derive(Debug)]
pub struct Other {
    other: Connection,
    /// Where the stream goes while the other one is there.
    takes: Link,
    is_there: bool,
}

impl Other {
    /// See [`Name::ConnectionBeside`](super::Name::ConnectionBeside).
    pub fn beside(stage: &mut Stage) -> Result<Self, Error> {
        Self::begin(stage, idle(Link::Nsm1), Link::Nsm0)
    }

    /// See [`Name::Ghost`](super::Name::Ghost).
    pub fn ghost(stage: &mut Stage) -> Result<Self, Error> {
        let policies = covering_policies(Link::Nsm0, Hop::A);
        let ghost = connection("ghost", Link::Nsm0, policies);
        Self::begin(stage, ghost, Link::Nsm0)
    }

    /// See [`Name::HandOver`](super::Name::HandOver).
    pub fn hand_over(stage: &mut Stage) -> Result<Self, Error> {
        let policies = covering_policies(Link::Nsm1, Hop::A);
        let other = connection("c2", Link::Nsm1, policies);
        Self::begin(stage, other, Link::Nsm1)
    }

    fn begin(stage: &mut Stage, other: Connection, takes: Link) -> Result<Self, Error> {
        stage.element.request(&covering(Hop::A))?;
        Ok(Self {
            other,
            takes,
            is_there: false,
        })
    }
}

impl Flow for Other {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        if self.is_there {
            stage.element.close(&self.other)?;
        } else {
            stage.element.request(&self.other)?;
        }
        self.is_there = !self.is_there;
        Ok(())
    }

    fn home(&self) -> Link {
        if self.is_there {
            self.takes
        } else {
            Link::Nsm0
        }
    }
}

/// See [`Name::NameSwap`](super::Name::NameSwap).
#[derive(Debug)]
pub struct NameSwap {
    swapped: bool,
}

impl NameSwap {
    pub fn begin(stage: &mut Stage) -> Result<Self, Error> {
        stage
            .element
            .request_all(&[covering(Hop::A), idle(Link::Nsm1)])?;
        Ok(Self { swapped: false })
    }

    /// What is behind `nsm-0`, and what is behind `nsm-1`.
    fn links(&self) -> (Link, Link) {
        if self.swapped {
            (Link::Nsm1, Link::Nsm0)
        } else {
            (Link::Nsm0, Link::Nsm1)
        }
    }
}

impl Flow for NameSwap {
    fn change(&mut self, stage: &mut Stage) -> Result<(), Error> {
        swap_names(stage)?;
        self.swapped = !self.swapped;
        // They keep their names, and get the next hops of the links behind.
        let (first, second) = self.links();
        let one = connection("c1", Link::Nsm0, covering_policies(first, Hop::A));
        let two = connection("c2", Link::Nsm1, idle_policies(second));
        stage.element.request_all(&[one, two])
    }

    fn home(&self) -> Link {
        self.links().0
    }
}

/// Swaps the names of the two interfaces, while they are up (Linux 6.2).
fn swap_names(stage: &Stage) -> Result<(), Error> {
    let script = "link set nsm-0 name swap\nlink set nsm-1 name nsm-0\nlink set swap name nsm-1\n";
    let ip = || {
        Command::new("ip")
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
    };
    let mut ip = stage
        .world
        .pod()
        .enter(ip)?
        .map_err(|error| format!("cannot run ip: {error}"))?;
    if let Some(mut input) = ip.stdin.take() {
        input.write_all(script.as_bytes())?;
    }
    match ip.wait()? {
        status if status.success() => Ok(()),
        status => Err(format!("ip could not swap the interfaces' names: {status}").into()),
    }
}
