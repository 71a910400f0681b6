//! One connection, of either kind.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

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
        }
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
