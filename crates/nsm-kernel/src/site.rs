//! One end of a pair in its namespace: reads, and writes what the plans say.

use crate::error::Error;
use crate::mark::{Ours, Side};
use crate::time::Time;
use crate::wanted::End;
use crate::{address, neighbour, ready, route};
use ipnet::IpNet;
use nsm_netlink::{
    Errno, Family, Interface, InterfaceChange, Kernel, KernelError, Namespace, Netns, Op,
    Placement, Route, Rtnl, SetupError, SetupFailure,
};
use std::fs;

/// How often a plan is made anew when somebody else changes the same things.
const ATTEMPTS: usize = 4;

/// A namespace that one end is in, opened for one piece of work.
#[derive(Debug)]
pub struct Site<'a> {
    pub side: Side,
    pub netns: &'a Netns,
    pub kernel: Rtnl,
}

impl<'a> Site<'a> {
    /// Opens a namespace.
    pub fn open(side: Side, netns: &'a Netns) -> Result<Self, Error> {
        let kernel = netns.open().map_err(|source| Error::Kernel {
            side,
            netns: netns.id(),
            source,
        })?;
        Ok(Self {
            side,
            netns,
            kernel,
        })
    }

    /// The interfaces of the namespace.
    pub fn interfaces(&mut self) -> Result<Vec<Interface>, Error> {
        let interfaces = self.kernel.interfaces();
        interfaces.map_err(|source| self.unread(source))
    }

    /// Whether an interface sends and hears: see [`ready`].
    pub fn is_ready(&mut self, interface: &Interface) -> Result<bool, Error> {
        let ready = ready::is_ready(&mut self.kernel, interface.index);
        ready.map_err(|source| self.unread(source))
    }

    /// Removes an interface, if it is there.
    pub fn remove(&mut self, index: u32) -> Result<(), Error> {
        match self.kernel.delete_link(index) {
            Err(error) if error.errno() != Some(Errno::ENODEV) => Err(self.refused(error)),
            _ => Ok(()),
        }
    }

    /// Changes an interface, if there is anything to change.
    pub fn change(&mut self, index: u32, change: &InterfaceChange<'_>) -> Result<(), Error> {
        if change.is_empty() {
            return Ok(());
        }
        let changed = self.kernel.change_interface(index, change);
        changed.map_err(|source| self.refused(source))
    }

    /// Gives and takes addresses until they are as they are wanted. Whether any was given.
    pub fn set_addresses(
        &mut self,
        interface: &Interface,
        wanted: &[IpNet],
        ours: Ours,
    ) -> Result<bool, Error> {
        let mut given = false;
        for _ in 0..ATTEMPTS {
            let standing = self.kernel.interface_addresses();
            let mut standing = standing.map_err(|source| self.unread(source))?;
            standing.retain(|standing| standing.index == interface.index);
            let steps = address::plan(wanted, ours, &standing);
            for step in &steps {
                given |= matches!(step, address::Step::Add(_));
                self.set_address(interface, *step, ours)?;
            }
            // With the first address of a network the kernel takes the others of it.
            if !steps
                .iter()
                .any(|step| matches!(step, address::Step::Remove(_)))
            {
                return Ok(given);
            }
        }
        Err(Error::Contended(self.netns.id()))
    }

    fn set_address(
        &mut self,
        interface: &Interface,
        step: address::Step,
        ours: Ours,
    ) -> Result<(), Error> {
        let index = interface.index;
        let done = match step {
            address::Step::Remove(net) => self.kernel.delete_address(index, net),
            address::Step::Add(net) => {
                let protocol = ours.protocol();
                let added = self.kernel.add_marked_address(index, net, protocol);
                match &added {
                    Err(error)
                        if error.errno() == Some(Errno::EACCES)
                            && Family::of_net(&net) == Family::V6
                            && self.clear_ipv6(interface, "disable_ipv6") =>
                    {
                        self.kernel.add_marked_address(index, net, protocol)
                    }
                    _ => added,
                }
            }
        };
        match done {
            Err(error) if !is_folded(&error) => Err(self.refused(error)),
            _ => Ok(()),
        }
    }

    /// Sets an interface up, and changes what else there is to be changed.
    pub fn set_up(
        &mut self,
        interface: &Interface,
        change: &InterfaceChange<'_>,
    ) -> Result<(), Error> {
        if change.state.is_some() {
            // The link-local address, too, is used at once: whoever asks for a neighbour on behalf of
            // others does so by it, and both ends of a pair are ours.
            self.clear_ipv6(interface, "accept_dad");
        }
        self.change(interface.index, change)
    }

    /// Whether an IPv6 setting of an interface could be switched off.
    fn clear_ipv6(&self, interface: &Interface, setting: &str) -> bool {
        let file = format!("/proc/sys/net/ipv6/conf/{}/{setting}", interface.name);
        let written = self.netns.enter(|| fs::write(&file, "0"));
        match written.and_then(|written| written) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(file, %error, "an IPv6 setting stays");
                false
            }
        }
    }

    /// Adds and removes routes until they are as they are wanted.
    pub fn set_routes(&mut self, index: u32, end: &End, ours: Ours) -> Result<(), Error> {
        'attempt: for _ in 0..ATTEMPTS {
            let standing = self.main_table()?;
            let steps = route::plan(&end.routes, index, ours, &standing);
            let steps = steps.map_err(|route::Hidden(prefix)| Error::Hidden {
                prefix,
                dev: index,
                netns: self.netns.id(),
            })?;
            for step in &steps {
                if let Err(error) = self.set_route(step) {
                    match error.errno() {
                        // Somebody else was faster: another place is found.
                        Some(Errno::EEXIST) => continue 'attempt,
                        Some(Errno::ESRCH) if matches!(step, route::Step::Remove(_)) => {}
                        _ => return Err(self.refused(error)),
                    }
                }
            }
            return Ok(());
        }
        Err(Error::Contended(self.netns.id()))
    }

    fn main_table(&mut self) -> Result<Vec<Route>, Error> {
        let mut routes = Vec::new();
        for family in Family::ALL {
            let dump = self.kernel.routes(family, route::MAIN..=route::MAIN);
            routes.extend(dump.map_err(|source| self.unread(source))?.items);
        }
        Ok(routes)
    }

    fn set_route(&mut self, step: &route::Step) -> Result<(), SetupError> {
        let (operation, op) = match step {
            route::Step::AddInFront(route) => return self.kernel.add_route_in_front(route),
            route::Step::Add(route) => (
                "add route",
                Op::AddRoute(route.clone(), Placement::Exclusive),
            ),
            route::Step::Remove(route) => ("delete route", Op::DelRoute(route.clone())),
        };
        let done = self.kernel.execute(std::slice::from_ref(&op));
        let source = match done {
            Ok(results) => match results.into_iter().find_map(Result::err) {
                None => return Ok(()),
                Some(refusal) => SetupFailure::Refused(refusal),
            },
            Err(error) => SetupFailure::Kernel(error),
        };
        Err(SetupError {
            operation,
            subject: op.subject().to_string(),
            source,
        })
    }

    /// Tells and forgets neighbours until they are as they are wanted.
    pub fn set_neighbours(
        &mut self,
        index: u32,
        end: &End,
        other: &Interface,
        ours: Ours,
    ) -> Result<(), Error> {
        let standing = self.kernel.neighbours(index);
        let standing = standing.map_err(|source| self.unread(source))?;
        let wanted = end.neighbours(other.mac);
        for step in neighbour::plan(&wanted, ours, &standing) {
            let done = match step {
                neighbour::Step::Set(to, mac) => {
                    let protocol = ours.protocol();
                    self.kernel.set_marked_neighbour(index, to, mac, protocol)
                }
                neighbour::Step::Forget(to) => self.kernel.delete_neighbour(index, to),
            };
            match done {
                Err(error) if !is_folded(&error) => return Err(self.refused(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// An error of a write.
    pub fn refused(&self, source: SetupError) -> Error {
        Error::SetUp {
            side: self.side,
            netns: self.netns.id(),
            source,
        }
    }

    /// An error of a read.
    pub fn unread(&self, source: KernelError) -> Error {
        Error::Kernel {
            side: self.side,
            netns: self.netns.id(),
            source,
        }
    }
}

/// Both ends' addresses, neighbours and routes, each kind at both ends before the next. With the
/// routes packets come, which may have waited for them: so they are last.
pub fn furnish(
    ends: [(&mut Site<'_>, &Interface, &End); 2],
    ours: Ours,
    time: Time,
) -> Result<(), Error> {
    let [(near, here, near_end), (far, there, far_end)] = ends;
    let mut given = near.set_addresses(here, &near_end.addresses, ours)?;
    given |= far.set_addresses(there, &far_end.addresses, ours)?;
    time.check()?;
    if given {
        ready::wait([(near, here), (far, there)], time)?;
    }
    near.set_neighbours(here.index, near_end, there, ours)?;
    far.set_neighbours(there.index, far_end, here, ours)?;
    time.check()?;
    // The client is mostly the one that begins, and its packets need a way back: a strict endpoint
    // (`rp_filter`) takes none without.
    far.set_routes(there.index, far_end, ours)?;
    near.set_routes(here.index, near_end, ours)
}

/// Whether somebody else did what was to be done.
fn is_folded(error: &SetupError) -> bool {
    matches!(
        error.errno(),
        Some(Errno::EEXIST | Errno::EADDRNOTAVAIL | Errno::ENOENT)
    )
}
