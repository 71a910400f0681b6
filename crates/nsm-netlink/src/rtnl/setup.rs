//! Interfaces and what stands on them: made and taken away.
//!
//! Policies need none of it. Tests, examples and a forwarder do, who make what policies route by.

use super::wire::Requests;
use super::{Rtnl, address, link, neighbour, route};
use crate::{Kernel, KernelError, Placement, Refusal, Route};
use ipnet::IpNet;
use nix::errno::Errno;
use nix::libc;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use thiserror::Error;

/// `RT_TABLE_MAIN`.
const MAIN: u32 = libc::RT_TABLE_MAIN as u32;
/// `RTPROT_STATIC`: the administrator's.
const STATIC: u8 = 4;

/// One end of a veth pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VethEnd<'a> {
    /// Its name, at most 15 bytes.
    pub name: &'a str,
    /// Its hardware address; the kernel picks one where there is none.
    pub mac: Option<[u8; 6]>,
    /// Its MTU in bytes; 1500 where there is none.
    pub mtu: Option<u32>,
    /// The group that it is born in. (It cannot be born with an alias.)
    pub group: u32,
}

impl<'a> VethEnd<'a> {
    /// An end of which only the name matters.
    pub const fn named(name: &'a str) -> Self {
        Self {
            name,
            mac: None,
            mtu: None,
            group: 0,
        }
    }
}

/// Whether an interface is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It is (`IFF_UP`).
    Up,
    /// It is not: its routes go.
    Down,
}

/// What is done before an IPv6 address is used. In IPv4 nothing is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuplicateDetection {
    /// The neighbours are asked, for about a second in which the address is no source.
    Run,
    /// Nothing: who gives the addresses knows that nobody else has it (`IFA_F_NODAD`).
    Skip,
}

/// That something could not be set up.
#[derive(Debug, Error)]
#[error("cannot {operation} {subject}")]
pub struct SetupError {
    /// What was to be done.
    pub operation: &'static str,
    /// To what.
    pub subject: String,
    /// Why not.
    #[source]
    pub source: SetupFailure,
}

/// Why something could not be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetupFailure {
    /// The kernel does not want to. Nothing was done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The kernel could not be asked, or did not answer.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl SetupError {
    /// The kernel's reason, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match &self.source {
            SetupFailure::Refused(refusal) => Some(refusal.errno),
            SetupFailure::Kernel(error) => error.errno(),
        }
    }
}

impl Rtnl {
    /// Makes a pair of interfaces, both down: `near` in this namespace, `far` in another, where it
    /// is born. (To move an interface takes a hundred times as long.)
    ///
    /// # Errors
    /// When a name is taken (EEXIST), too long (ERANGE), or the other namespace is not ours to
    /// change (EPERM). Neither end is there then.
    pub fn add_veth(
        &mut self,
        near: &VethEnd<'_>,
        far: &VethEnd<'_>,
        far_netns: impl AsFd,
    ) -> Result<(), SetupError> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        let far_netns = far_netns.as_fd().as_raw_fd();
        self.set_up(
            "add veth pair",
            format_args!("{} and {}", near.name, far.name),
            |requests| {
                requests.message(libc::RTM_NEWLINK, flags, |requests| {
                    link::veth(requests, near, far, far_netns as u32);
                });
            },
        )
    }

    /// Deletes an interface, and with it the other end of a pair.
    ///
    /// # Errors
    /// When there is no such interface (ENODEV).
    pub fn delete_link(&mut self, index: u32) -> Result<(), SetupError> {
        self.set_up("delete interface", index, |requests| {
            requests.message(libc::RTM_DELLINK, 0, |requests| {
                link::head(requests, index, None);
            });
        })
    }

    /// Sets an interface up or down.
    ///
    /// # Errors
    /// When there is no such interface (ENODEV).
    pub fn set_link(&mut self, index: u32, state: LinkState) -> Result<(), SetupError> {
        let operation = match state {
            LinkState::Up => "set up interface",
            LinkState::Down => "set down interface",
        };
        self.set_up(operation, index, |requests| {
            requests.message(libc::RTM_NEWLINK, 0, |requests| {
                link::head(requests, index, Some(state));
            });
        })
    }

    /// Puts an address on an interface, with the route to its neighbours.
    ///
    /// # Errors
    /// When it is there already (EEXIST), or there is no such interface (ENODEV).
    pub fn add_address(
        &mut self,
        index: u32,
        address: IpNet,
        detection: DuplicateDetection,
    ) -> Result<(), SetupError> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        let detection = match detection {
            DuplicateDetection::Run => 0,
            DuplicateDetection::Skip => libc::IFA_F_NODAD as u8,
        };
        self.set_up(
            "add address",
            format_args!("{address} to interface {index}"),
            |requests| {
                requests.message(libc::RTM_NEWADDR, flags, |requests| {
                    address::put(requests, index, address, detection);
                });
            },
        )
    }

    /// Takes an address from an interface.
    ///
    /// # Errors
    /// When it is not there (EADDRNOTAVAIL), or there is no such interface (ENODEV).
    pub fn delete_address(&mut self, index: u32, address: IpNet) -> Result<(), SetupError> {
        let subject = format_args!("{address} of interface {index}");
        self.set_up("delete address", subject, |requests| {
            requests.message(libc::RTM_DELADDR, 0, |requests| {
                address::put(requests, index, address, 0);
            });
        })
    }

    /// Makes a neighbour known for good, in place of what was known of it.
    ///
    /// # Errors
    /// When there is no such interface (ENODEV).
    pub fn set_neighbour(
        &mut self,
        index: u32,
        to: IpAddr,
        mac: [u8; 6],
    ) -> Result<(), SetupError> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        let subject = format_args!("{to} of interface {index}");
        self.set_up("set neighbour", subject, |requests| {
            requests.message(libc::RTM_NEWNEIGH, flags, |requests| {
                neighbour::put(requests, index, to, mac);
            });
        })
    }

    /// Adds a route to the main table, as an administrator does (`proto static`).
    ///
    /// # Errors
    /// When one of that prefix is there (EEXIST), the interface is down (ENETDOWN), or the next hop
    /// is not reached by it (ENETUNREACH, in IPv6 EHOSTUNREACH).
    pub fn add_main_route(
        &mut self,
        prefix: IpNet,
        dev: u32,
        via: Option<IpAddr>,
    ) -> Result<(), SetupError> {
        let route = Route {
            onlink: false,
            ..Route::unicast(MAIN, prefix, dev, via, STATIC)
        };
        let subject = format_args!("to {prefix} by interface {dev}");
        self.set_up("add route", subject, |requests| {
            route::add(requests, &route, Placement::Exclusive);
        })
    }

    /// Adds a route in front of those of its prefix and metric (`NLM_F_CREATE` alone): in IPv4 it
    /// is taken, and the ones behind it again when it is gone. (IPv6 would make one multipath route
    /// of them.)
    ///
    /// # Errors
    /// When an equal one is there (EEXIST), and as [`add_main_route`](Self::add_main_route).
    pub fn add_route_in_front(&mut self, route: &Route) -> Result<(), SetupError> {
        self.set_up("add route", route.display(|_| None), |requests| {
            route::add_with(requests, route, libc::NLM_F_CREATE as u16);
        })
    }

    /// The index of the interface of a name.
    ///
    /// # Errors
    /// When there is none (ENODEV).
    pub fn index_of(&mut self, name: &str) -> Result<u32, SetupError> {
        let found = self.links().map_err(SetupFailure::from).and_then(|links| {
            let link = links.into_iter().find(|link| link.name == name);
            Ok(link.ok_or(Refusal::from(Errno::ENODEV))?.index)
        });
        found.map_err(|source| failed("find interface", name, source))
    }

    /// All addresses of the namespace, each with the index of its interface. An address has its
    /// own bits and the length of the network that it is in.
    ///
    /// # Errors
    /// When the dump is refused, is cut short, or can't be read.
    pub fn addresses(&mut self) -> Result<Vec<(u32, IpNet)>, KernelError> {
        let addresses = self.interface_addresses()?;
        let found = addresses.into_iter().map(|found| (found.index, found.net));
        Ok(found.collect())
    }

    pub(super) fn set_up(
        &mut self,
        operation: &'static str,
        subject: impl fmt::Display,
        build: impl FnOnce(&mut Requests),
    ) -> Result<(), SetupError> {
        self.requests.clear();
        build(&mut self.requests);
        let done = self.transact().map_err(SetupFailure::from);
        let done = done.and_then(|results| Ok(results.into_iter().collect::<Result<(), _>>()?));
        let refused = done.as_ref().err().map(tracing::field::display);
        tracing::debug!(operation, %subject, refused, "write");
        done.map_err(|source| failed(operation, subject, source))
    }
}

fn failed(operation: &'static str, subject: impl fmt::Display, source: SetupFailure) -> SetupError {
    SetupError {
        operation,
        subject: subject.to_string(),
        source,
    }
}
