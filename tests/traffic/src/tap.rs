//! A packet socket at the far end of a link. It counts what of a stream comes out there, and nothing
//! of what a kernel says on its own.
//!
//! Nobody reads while it is measured, so it costs nothing where nothing leaks. What no longer fits
//! into its buffer has leaked too: only a stream at full rate can fill it.

use crate::Error;
use crate::stream::Stream;
use crate::world::{Link, World};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use nix::sys::socket::{
    AddressFamily, GetSockOpt, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, bind, recv,
    setsockopt, socket,
};
use nix::{getsockopt_impl, sockopt_impl};
use std::os::fd::{AsRawFd, OwnedFd};

/// Room for some thousand packets.
const RECEIVE_BUFFER: usize = 8 * 1024 * 1024;
/// As much of a packet as tells whose it is.
const HEADER: usize = 64;

sockopt_impl!(
    /// What came, and what of it was dropped, since it was asked last (packet(7)).
    PacketStatistics,
    GetOnly,
    libc::SOL_PACKET,
    libc::PACKET_STATISTICS,
    libc::tpacket_stats
);

/// The far end of a link, watched.
#[derive(Debug)]
pub struct Tap {
    link: Link,
    stream: Stream,
    socket: OwnedFd,
}

impl Tap {
    /// Begins to watch for a stream.
    ///
    /// # Errors
    /// When there are no packet sockets.
    pub fn open(world: &World, link: Link, stream: Stream) -> Result<Self, Error> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        // Without a protocol it hears nothing until it is bound to its link.
        let open = || socket(AddressFamily::Packet, SockType::Datagram, flags, None);
        let socket = world
            .far()
            .enter(open)?
            .map_err(|errno| format!("no packet sockets, load the module af_packet: {errno}"))?;
        if setsockopt(&socket, RcvBufForce, &RECEIVE_BUFFER).is_err() {
            setsockopt(&socket, RcvBuf, &RECEIVE_BUFFER)?;
        }
        bind(socket.as_raw_fd(), &everything_on(world.far_end(link))?)?;
        Ok(Self {
            link,
            stream,
            socket,
        })
    }

    /// The link.
    pub fn link(&self) -> Link {
        self.link
    }

    /// How many packets of the stream have come out since the last call.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn count(&self) -> Result<u64, Error> {
        let mut packet = [0; HEADER];
        let mut count = 0;
        loop {
            match recv(self.socket.as_raw_fd(), &mut packet, MsgFlags::empty()) {
                Ok(len) => count += u64::from(self.stream.sent(&packet[..len])),
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let dropped = PacketStatistics.get(&self.socket)?.tp_drops;
        Ok(count + u64::from(dropped))
    }
}

/// All protocols on one interface (packet(7)).
#[allow(unsafe_code)]
fn everything_on(index: u32) -> Result<LinkAddr, Error> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is a whole `sockaddr_ll` of that length, and it is copied.
    let address = unsafe { LinkAddr::from_raw((&raw const address).cast(), Some(len)) };
    Ok(address.ok_or("invalid address of a link")?)
}
