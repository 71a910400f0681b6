//! One connection, of either kind.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{oneshot, watch};

use crate::fd::{FdStream, Peer};

/// How long data may stay unacknowledged before a TCP connection counts as broken, in
/// milliseconds. The kernel's own time is a quarter of an hour.
const TCP_USER_TIMEOUT: u32 = 20_000;

/// One connection. It tells when the other end has said its first word: until then it may be one
/// that nobody has taken yet, in the queue of a process that hangs.
pub(crate) struct Socket {
    stream: Stream,
    has_spoken: bool,
    spoken: watch::Sender<bool>,
    cut: Option<oneshot::Receiver<io::Error>>,
    /// The descriptor of those who look whether the other end has hung up.
    watched: Option<Arc<OwnedFd>>,
}

/// Whether the other end of a connection has hung up. The kernel knows it before the task does
/// that serves the connection.
#[derive(Clone)]
pub(crate) struct HangUp(Weak<OwnedFd>);

impl HangUp {
    pub(crate) fn has_happened(&self) -> bool {
        let Some(socket) = self.0.upgrade() else {
            return true;
        };
        let mut asked = [PollFd::new(&socket, PollFlags::RDHUP)];
        // Whoever cannot be told goes on, and hears it as an error of the connection.
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|told| told > 0)
    }
}

enum Stream {
    Unix(FdStream),
    Tcp(TcpStream),
}

impl Socket {
    pub(crate) fn unix(stream: UnixStream) -> Self {
        Self::new(Stream::Unix(FdStream::new(stream)))
    }

    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_user_timeout(&stream, TCP_USER_TIMEOUT)?;
        Ok(Self::new(Stream::Tcp(stream)))
    }

    fn new(stream: Stream) -> Self {
        Self {
            stream,
            has_spoken: false,
            spoken: watch::Sender::new(false),
            cut: None,
            watched: None,
        }
    }

    /// Tells, from now on, whether the other end has hung up.
    pub(crate) fn hang_up(&mut self) -> io::Result<HangUp> {
        let socket = match &self.stream {
            Stream::Unix(stream) => stream.as_fd().try_clone_to_owned()?,
            Stream::Tcp(stream) => stream.as_fd().try_clone_to_owned()?,
        };
        let socket = self.watched.insert(Arc::new(socket));
        Ok(HangUp(Arc::downgrade(socket)))
    }

    /// The other end as far as descriptors go. A TCP connection carries none.
    pub(crate) fn peer(&self) -> Option<Peer> {
        match &self.stream {
            Stream::Unix(stream) => Some(stream.peer()),
            Stream::Tcp(_) => None,
        }
    }

    /// Cuts the connection off, when an error is sent: whoever reads gets it. The other end may be
    /// one that never closes it.
    pub(crate) fn cut(&mut self) -> oneshot::Sender<io::Error> {
        let (cut, receiver) = oneshot::channel();
        self.cut = Some(receiver);
        cut
    }

    /// Whether the other end has said anything.
    pub(crate) fn spoken(&self) -> watch::Receiver<bool> {
        self.spoken.subscribe()
    }
}

macro_rules! delegate {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.get_mut().stream {
            Stream::Unix(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            Stream::Tcp(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(cut) = &mut this.cut
            && let Poll::Ready(cut) = Pin::new(cut).poll(cx)
        {
            this.cut = None;
            if let Ok(error) = cut {
                return Poll::Ready(Err(error));
            }
        }
        let before = buffer.filled().len();
        ready!(match &mut this.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
        })?;
        if !this.has_spoken && buffer.filled().len() > before {
            this.has_spoken = true;
            this.spoken.send_replace(true);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_shutdown(cx))
    }
}
