//! Sends one stream at full rate from a thread of its own.

use crate::Error;
use crate::stream::{Sending, Stream};
use crate::world::World;
use nix::sys::socket::sockopt::SndBuf;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket,
};
use nsm_netlink::Family;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What each datagram carries, and how much is written at once to a connection.
const PAYLOAD: [u8; 8] = *b"policies";
/// A connection that takes nothing for so long has an error.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much of a connection may be under way: little, so that many segments go.
const UNDER_WAY: usize = 4096;

/// The sockets of a stream in the pod.
#[derive(Debug)]
pub enum Socket {
    /// Not connected.
    Free(UdpSocket, SocketAddr),
    /// Connected.
    Connected(UdpSocket),
    /// A connection to the far end.
    Connection(TcpStream),
}

impl Socket {
    /// Opens the socket of a stream, bound to the stream's source.
    ///
    /// # Errors
    /// When the kernel does not want to, or nobody answers at the far end.
    pub fn open(world: &World, stream: Stream) -> Result<Self, Error> {
        let to = Stream::destination(stream.family);
        let from = SocketAddr::new(stream.source(), 0);
        let datagrams = || Ok::<_, Error>(world.pod().enter(|| UdpSocket::bind(from))??);
        Ok(match stream.sending {
            Sending::Udp => Self::Free(datagrams()?, to),
            Sending::ConnectedUdp => {
                let socket = datagrams()?;
                socket.connect(to)?;
                Self::Connected(socket)
            }
            Sending::Tcp => {
                let family = match stream.family {
                    Family::V4 => AddressFamily::Inet,
                    Family::V6 => AddressFamily::Inet6,
                };
                let flags = SockFlag::SOCK_CLOEXEC;
                let open = || socket(family, SockType::Stream, flags, None);
                let socket = world.pod().enter(open)??;
                setsockopt(&socket, SndBuf, &UNDER_WAY)?;
                bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
                connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
                let connection = TcpStream::from(socket);
                connection.set_nodelay(true)?;
                connection.set_write_timeout(Some(PATIENCE))?;
                Self::Connection(connection)
            }
        })
    }

    /// Sends once.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn send(&mut self) -> io::Result<()> {
        match self {
            Self::Free(socket, to) => socket.send_to(&PAYLOAD, *to).map(drop),
            Self::Connected(socket) => socket.send(&PAYLOAD).map(drop),
            Self::Connection(connection) => connection.write_all(&PAYLOAD),
        }
    }
}

/// How often it has been sent so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// How often the kernel has taken it.
    pub sent: u64,
    /// How often it has not.
    pub errors: u64,
}

/// The thread that sends.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
    thread: JoinHandle<(Socket, Option<io::Error>)>,
}

/// What is left of a sender.
#[derive(Debug)]
pub struct Stopped {
    /// Its socket.
    pub socket: Socket,
    /// The first error that there was.
    pub error: Option<io::Error>,
    /// All that was sent.
    pub tally: Tally,
}

#[derive(Debug, Default)]
struct Shared {
    sent: AtomicU64,
    errors: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    fn tally(&self) -> Tally {
        Tally {
            sent: self.sent.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
        }
    }
}

impl Sender {
    /// Begins to send.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(mut socket: Socket) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        let thread = thread::Builder::new().name("sender".to_owned());
        let thread = thread.spawn(move || {
            let mut first = None;
            while !ours.stop.load(Ordering::Relaxed) {
                match socket.send() {
                    Ok(()) => ours.sent.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        first.get_or_insert(error);
                        ours.errors.fetch_add(1, Ordering::Relaxed)
                    }
                };
            }
            (socket, first)
        })?;
        Ok(Self { shared, thread })
    }

    /// How often it has been sent so far.
    pub fn tally(&self) -> Tally {
        self.shared.tally()
    }

    /// Ends it.
    pub fn stop(self) -> Stopped {
        self.shared.stop.store(true, Ordering::Relaxed);
        let (socket, error) = self
            .thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Stopped {
            socket,
            error,
            tally: self.shared.tally(),
        }
    }
}
