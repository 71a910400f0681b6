//! The kernel itself: rtnetlink(7) on a socket of our own.

mod address;
mod answer;
mod interface;
mod interface_monitor;
mod link;
mod listener;
mod monitor;
mod neighbour;
mod notifications;
mod route;
pub(crate) mod rule;
mod setup;
mod socket;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use crate::{Dump, Family, Kernel, KernelError, Link, Op, OpKind, Refusal, Route, Rule};
use answer::{NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN, verdict};
pub use interface_monitor::{InterfaceEvent, InterfaceMonitor, InterfaceSubject};
pub use monitor::Monitor;
use nix::errno::Errno;
use nix::libc;
pub use notifications::RtnlNotifications;
pub use setup::{DuplicateDetection, LinkState, SetupError, SetupFailure, VethEnd};
use socket::Socket;
pub(crate) use socket::in_this_namespace as socket_here;
use std::io;
use std::ops::RangeInclusive;
use wire::{Malformed, Messages, Requests};

/// A read of a dump that is no longer than this ended because there was no more. The kernel fills a
/// page at least (`NLMSG_GOODSIZE` less its bookkeeping), and no rule takes what is left of it.
const NOT_CUT: usize = 3072;
/// How often a dump that the kernel marks as inconsistent is tried.
const DUMP_TRIES: u32 = 5;

/// The kernel of one network namespace, through a socket that was made in it.
///
/// It stays in its namespace, whatever thread uses it, and pins it.
#[derive(Debug)]
pub struct Rtnl {
    socket: Socket,
    requests: Requests,
    /// Whether something was read, so that the kernel knows how large a read may be.
    warm: bool,
}

impl Rtnl {
    /// On a socket from [`socket_here`].
    pub(crate) fn on(socket: netlink_sys::Socket) -> io::Result<Self> {
        Ok(Self {
            socket: Socket::configure(socket)?,
            requests: Requests::default(),
            warm: false,
        })
    }

    /// Sends the requests that were built and gives what became of each.
    fn transact(&mut self) -> Result<Vec<Result<(), Refusal>>, KernelError> {
        if self.requests.is_overlong() {
            return Err(KernelError::Send(io::Error::from(Errno::EMSGSIZE)));
        }
        let mut results = vec![Ok(()); self.requests.count()];
        if results.is_empty() {
            return Ok(results);
        }
        let room = self.socket.make_room(&self.requests)?;
        let mut next = self.requests.first_chunk(room.bytes, room.messages);
        let mut rest = results.as_mut_slice();
        let all = rest.len();
        while let Some(chunk) = next {
            match self.socket.send(self.requests.acknowledged(&chunk)) {
                // What went before is done, so that it must not look as if nothing were.
                Err(KernelError::Send(error)) if rest.len() < all => {
                    return Err(KernelError::Receive(error));
                }
                sent => sent?,
            }
            let (answered, behind) = rest.split_at_mut(chunk.count as usize);
            self.collect(chunk.first, answered)?;
            rest = behind;
            next = self.requests.chunk_after(&chunk, room.bytes, room.messages);
        }
        Ok(results)
    }

    /// Reads the answers to the messages from `first` on, up to that to the last.
    fn collect(
        &mut self,
        first: u32,
        results: &mut [Result<(), Refusal>],
    ) -> Result<(), KernelError> {
        let last = results.len() - 1;
        loop {
            for message in Messages(self.socket.receive()?) {
                let message = message?;
                match message.kind {
                    NLMSG_ERROR => {}
                    NLMSG_OVERRUN => return Err(KernelError::AnswersLost),
                    _ => continue,
                }
                // An answer to what was asked before, by a call that failed, is none to this.
                let index = message.sequence.wrapping_sub(first) as usize;
                let Some(result) = results.get_mut(index) else {
                    continue;
                };
                *result = verdict(&message)?;
                if index == last {
                    self.warm = true;
                    return Ok(());
                }
            }
        }
    }

    /// Asks for objects and hands each to `read`, which puts it behind the items.
    fn dump<T>(
        &mut self,
        op: OpKind,
        kind: u16,
        ask: impl Fn(&mut Requests) -> u32,
        read: impl Fn(&[u8], &mut Vec<T>) -> Result<(), Malformed>,
    ) -> Result<Dump<T>, KernelError> {
        self.warm_up()?;
        let mut items = Vec::new();
        for _ in 0..DUMP_TRIES {
            items.clear();
            self.requests.clear();
            let sequence = ask(&mut self.requests);
            self.socket.send(self.requests.bytes())?;
            let end = self.read_dump(kind, sequence, |payload| read(payload, &mut items))?;
            end.verdict
                .map_err(|source| KernelError::Refused { op, source })?;
            if !end.interrupted {
                tracing::trace!(%op, items = items.len(), reads = end.reads, "dumped");
                return Ok(Dump {
                    items,
                    reads: end.reads,
                });
            }
        }
        Err(KernelError::Interrupted(op))
    }

    fn read_dump(
        &mut self,
        kind: u16,
        sequence: u32,
        mut read: impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<DumpEnd, KernelError> {
        let mut reads = 0;
        let mut interrupted = false;
        let mut may_be_cut = false;
        loop {
            let mut carried = false;
            let bytes = self.socket.receive()?;
            let len = bytes.len();
            for message in Messages(bytes) {
                let message = message?;
                if message.sequence != sequence {
                    continue;
                }
                interrupted |= message.flags & libc::NLM_F_DUMP_INTR as u16 != 0;
                match message.kind {
                    NLMSG_ERROR | NLMSG_DONE => {
                        // The end alone may be all that is left behind a read that was cut, when
                        // objects in front of it went meanwhile. (Before Linux 6.10 it always comes
                        // alone.)
                        let reads = reads + u32::from(carried || may_be_cut);
                        return Ok(DumpEnd {
                            verdict: verdict(&message)?,
                            reads,
                            interrupted,
                        });
                    }
                    NLMSG_OVERRUN => return Err(KernelError::AnswersLost),
                    other if other == kind => {
                        read(message.payload)?;
                        carried = true;
                    }
                    _ => {}
                }
            }
            reads += u32::from(carried);
            may_be_cut = carried && len > NOT_CUT;
        }
    }

    /// Lets the kernel see one read before the first dump. It begins a dump while the request is
    /// sent, and fills as much as the largest read so far would have taken, of a new socket only a
    /// page (`netlink_dump`, net/netlink/af_netlink.c): rules of most pods then take one read.
    fn warm_up(&mut self) -> Result<(), KernelError> {
        if !self.warm {
            self.requests.clear();
            self.requests.message(NLMSG_NOOP, 0, |_| {});
            self.transact()?;
        }
        Ok(())
    }
}

/// How a dump ended.
struct DumpEnd {
    verdict: Result<(), Refusal>,
    reads: u32,
    interrupted: bool,
}

/// The dump of what does not exist.
fn nothing<T>() -> Dump<T> {
    Dump {
        items: Vec::new(),
        reads: 0,
    }
}

/// Where the kernel has no IPv6, there are no rules and routes of it.
fn nothing_without<T>(
    family: Family,
    dump: Result<Dump<T>, KernelError>,
) -> Result<Dump<T>, KernelError> {
    match dump {
        Err(error) if family == Family::V6 && is_family_missing(&error) => Ok(nothing()),
        other => other,
    }
}

/// Whether the kernel says that it has no such family.
fn is_family_missing(error: &KernelError) -> bool {
    matches!(
        error.errno(),
        Some(Errno::EAFNOSUPPORT | Errno::EPFNOSUPPORT | Errno::EOPNOTSUPP)
    )
}

impl Kernel for Rtnl {
    fn execute(&mut self, burst: &[Op]) -> Result<Vec<Result<(), Refusal>>, KernelError> {
        self.requests.clear();
        for op in burst {
            match op {
                Op::AddRule(rule) => rule::add(&mut self.requests, rule),
                Op::DelRule(rule) => rule::delete(&mut self.requests, rule),
                Op::AddRoute(route, placement) => {
                    route::add(&mut self.requests, route, *placement);
                }
                Op::DelRoute(route) => route::delete(&mut self.requests, route),
            }
        }
        let results = self.transact()?;
        // Asked once for all, so that a large burst is not put into words for nobody.
        if tracing::enabled!(tracing::Level::DEBUG) {
            for (op, result) in burst.iter().zip(&results) {
                let refused = result.as_ref().err().map(tracing::field::display);
                tracing::debug!(operation = %op.kind(), subject = %op.subject(), refused, "write");
            }
        }
        Ok(results)
    }

    fn rules(&mut self, family: Family) -> Result<Dump<Rule>, KernelError> {
        let dump = self.dump(
            OpKind::DumpRules,
            libc::RTM_NEWRULE,
            |requests| rule::dump(requests, family),
            |payload, rules| {
                rules.extend(rule::decode(payload, family)?);
                Ok(())
            },
        );
        nothing_without(family, dump)
    }

    fn routes(
        &mut self,
        family: Family,
        tables: RangeInclusive<u32>,
    ) -> Result<Dump<Route>, KernelError> {
        let table = Some(*tables.start()).filter(|table| table == tables.end());
        let dump = self.dump(
            OpKind::DumpRoutes,
            libc::RTM_NEWROUTE,
            |requests| route::dump(requests, family, table),
            |payload, routes| route::decode(payload, family, &tables, routes),
        );
        match nothing_without(family, dump) {
            // Asked for one table, IPv4 refuses where it does not exist.
            Err(error) if table.is_some() && error.errno() == Some(Errno::ENOENT) => Ok(nothing()),
            other => other,
        }
    }

    fn links(&mut self) -> Result<Vec<Link>, KernelError> {
        let dump = self.dump(
            OpKind::DumpLinks,
            libc::RTM_NEWLINK,
            link::dump,
            |payload, links| {
                links.push(link::decode(payload)?);
                Ok(())
            },
        )?;
        Ok(dump.items)
    }

    fn port(&self) -> u32 {
        self.socket.port
    }
}
