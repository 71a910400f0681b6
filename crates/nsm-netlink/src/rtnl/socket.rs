//! One rtnetlink socket: its options, its buffers, and the errors of the system's calls.

use super::wire::Requests;
use crate::KernelError;
use netlink_sys::{SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, ReceiveTimeout, SndBuf, SndBufForce};
use nix::sys::socket::{GetSockOpt, SetSockOpt, getsockopt, setsockopt};
use nix::sys::time::TimeVal;
use std::io;

/// How long an answer may take, in seconds. The request has run to its end before the answer is
/// read, so it is there at once; this bounds the wait for one that was lost.
const ANSWER_TIMEOUT: i64 = 2;
/// What one read holds at most. The kernel fills up to 32 KiB (`netlink_recvmsg` and `netlink_dump`
/// in net/netlink/af_netlink.c).
const READ_BUFFER: usize = 64 * 1024;
/// What one refusal costs of the receive buffer: the kernel counts its own bookkeeping too, 832
/// bytes for an answer without text, and the next size of slab for a long text.
const ANSWER_COST: usize = 1280;
/// What `netlink_sendmsg` keeps of the send buffer.
const SEND_OVERHEAD: usize = 32;

/// A socket that talks with the kernel of the namespace in which it was made.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: netlink_sys::Socket,
    buffer: Vec<u8>,
    /// What may go out at once, as far as is known.
    room: Room,
    /// The port that the kernel has given it.
    pub(crate) port: u32,
}

/// What may go out at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bytes that the send buffer takes.
    pub(crate) bytes: usize,
    /// Messages whose refusals the receive buffer holds.
    pub(crate) messages: usize,
}

/// A socket of the calling thread's namespace. It stays there, whoever uses it.
pub(crate) fn in_this_namespace() -> io::Result<netlink_sys::Socket> {
    netlink_sys::Socket::new(NETLINK_ROUTE)
}

impl Socket {
    /// Sets a socket's options and connects it to the kernel, so that nobody else's messages reach
    /// it.
    pub(crate) fn configure(inner: netlink_sys::Socket) -> io::Result<Self> {
        inner.set_ext_ack(true)?;
        inner.set_cap_ack(true)?;
        // Without it, before Linux 4.20, a dump cannot be narrowed, and more is read and left out.
        match inner.set_netlink_get_strict_chk(true) {
            Err(error) if error.raw_os_error() != Some(libc::ENOPROTOOPT) => return Err(error),
            _ => {}
        }
        setsockopt(&inner, ReceiveTimeout, &TimeVal::new(ANSWER_TIMEOUT, 0))?;
        inner.connect(&SocketAddr::new(0, 0))?;
        let mut address = SocketAddr::new(0, 0);
        inner.get_address(&mut address)?;
        Ok(Self {
            inner,
            buffer: Vec::new(),
            room: Room {
                bytes: 0,
                messages: 0,
            },
            port: address.port_number(),
        })
    }

    /// Makes room for messages, as far as the system allows, and tells how much there is.
    pub(crate) fn make_room(&mut self, requests: &Requests) -> Result<Room, KernelError> {
        let (bytes, messages) = (requests.len(), requests.count());
        if bytes > self.room.bytes {
            let size = grow(&self.inner, SndBuf, SndBufForce, bytes + SEND_OVERHEAD);
            self.room.bytes = size.map_err(cannot_send)?.saturating_sub(SEND_OVERHEAD);
        }
        if messages > self.room.messages {
            let size = grow(&self.inner, RcvBuf, RcvBufForce, messages * ANSWER_COST);
            self.room.messages = size.map_err(cannot_send)? / ANSWER_COST;
        }
        Ok(self.room)
    }

    /// Sends messages with one call. The kernel works through all of them before it returns.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), KernelError> {
        loop {
            match self.inner.send(bytes, 0) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(KernelError::Send(error)),
            }
        }
    }

    /// What the kernel sends next.
    pub(crate) fn receive(&mut self) -> Result<&[u8], KernelError> {
        receive(&self.inner, &mut self.buffer)?;
        Ok(&self.buffer)
    }
}

/// Reads what the kernel sends next, into a buffer that is used again.
pub(crate) fn receive(
    socket: &netlink_sys::Socket,
    buffer: &mut Vec<u8>,
) -> Result<(), KernelError> {
    loop {
        buffer.clear();
        buffer.reserve_exact(READ_BUFFER);
        // With MSG_TRUNC the length is the message's own, even where it does not fit.
        match socket.recv_from(buffer, libc::MSG_TRUNC) {
            Ok((_, sender)) if sender.port_number() != 0 => {}
            Ok((len, _)) if len > buffer.len() => {
                return Err(KernelError::Malformed("it does not fit the buffer"));
            }
            Ok(_) => return Ok(()),
            Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EINTR) => {}
                Some(Errno::EAGAIN) => return Err(KernelError::TimedOut),
                Some(Errno::ENOBUFS) => return Err(KernelError::AnswersLost),
                _ => return Err(KernelError::Receive(error)),
            },
        }
    }
}

/// Makes a buffer of a socket at least so large, if the system allows it, and tells how large it
/// is.
///
/// The kernel doubles what it is given, up to a limit that CAP_NET_ADMIN in the first user namespace
/// lifts (socket(7)). To be refused that is no error.
pub(crate) fn grow<O, F>(
    socket: &netlink_sys::Socket,
    option: O,
    force: F,
    need: usize,
) -> nix::Result<usize>
where
    O: GetSockOpt<Val = usize> + SetSockOpt<Val = usize> + Copy,
    F: SetSockOpt<Val = usize>,
{
    let half = need.div_ceil(2);
    let size = getsockopt(socket, option)?;
    if size >= need {
        return Ok(size);
    }
    setsockopt(socket, option, &half)?;
    if getsockopt(socket, option)? < need {
        match setsockopt(socket, force, &half) {
            Ok(()) | Err(Errno::EPERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    getsockopt(socket, option)
}

fn cannot_send(errno: Errno) -> KernelError {
    KernelError::Send(errno.into())
}
