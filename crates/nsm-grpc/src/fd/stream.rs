//! A unix socket that carries descriptors beside its bytes.
//!
//! The way of the mesh's Go components: each queued descriptor rides on one byte of the stream,
//! as SCM_RIGHTS (unix(7)); the receiver takes any number with any bytes, and knows them by the
//! files that they stand for.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Sleep, sleep_until};

use super::table::Table;
use super::{Inode, Peer};

/// As many descriptors as the kernel takes in one message (SCM_MAX_FD). A peer may send them all
/// with one byte, and what there is no room for would be lost.
const MOST_IN_A_MESSAGE: usize = 253;

/// How many descriptors one write carries at most, as in the mesh's Go components.
const MOST_IN_A_WRITE: usize = 64;

/// How many descriptors may wait for bytes to ride on. The bytes of the call follow at once, so
/// more means that the peer does not read.
const QUEUE: usize = 1024;

/// A unix socket that carries descriptors beside its bytes, as [`AsyncRead`] and [`AsyncWrite`].
///
/// Descriptors are queued and received through its [`peer`](Self::peer). They do not change the
/// bytes: nothing is reordered, added or lost.
///
/// When the stream is dropped, all descriptors that it has received and nobody has taken are
/// closed.
pub struct FdStream {
    stream: UnixStream,
    shared: Arc<Shared>,
    /// When to look for descriptors that nobody asks for.
    expiry: Option<Pin<Box<Sleep>>>,
}

/// What a stream and those who pass descriptors over it have in common.
#[derive(Default)]
pub(super) struct Shared {
    outgoing: Mutex<VecDeque<OwnedFd>>,
    pub(super) received: Table,
}

/// Why a descriptor cannot be sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SendError {
    /// Too many wait already.
    #[error("{QUEUE} descriptors wait to be sent: the peer does not read")]
    Full,
}

impl Shared {
    /// Queues descriptors, to ride on the bytes that are written next.
    pub(super) fn queue(&self, fds: impl IntoIterator<Item = OwnedFd>) -> Result<(), SendError> {
        let mut outgoing = self.outgoing();
        for fd in fds {
            if outgoing.len() >= QUEUE {
                return Err(SendError::Full);
            }
            outgoing.push_back(fd);
        }
        Ok(())
    }

    fn outgoing(&self) -> MutexGuard<'_, VecDeque<OwnedFd>> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the descriptors of a message.
    fn take_in(&self, control: &mut RecvAncillaryBuffer<'_>) -> io::Result<()> {
        for message in control.drain() {
            let RecvAncillaryMessage::ScmRights(fds) = message else {
                continue;
            };
            for fd in fds {
                let inode = Inode::of(&fd)?;
                self.received
                    .arrived(inode, fd)
                    .map_err(|flood| io::Error::new(io::ErrorKind::QuotaExceeded, flood))?;
            }
        }
        Ok(())
    }
}

impl FdStream {
    /// Carries descriptors over a unix socket.
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            shared: Arc::default(),
            expiry: None,
        }
    }

    /// The other end, for those who pass descriptors.
    pub fn peer(&self) -> Peer {
        Peer::new(Arc::clone(&self.shared))
    }

    /// Reads into `buffer`, and takes in the descriptors that come along.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_IN_A_MESSAGE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [IoSliceMut::new(buffer)];
        // Close-on-exec from the first moment on: a child that is started right now gets none.
        let message = recvmsg(
            &self.stream,
            &mut bytes,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        if message.flags.contains(ReturnFlags::CTRUNC) {
            // There is room for all that a message can carry, so the process has none.
            self.shared.received.lost();
            tracing::warn!("a descriptor is lost: this process has too many open");
        }
        self.shared.take_in(&mut control)?;
        Ok(message.bytes)
    }

    /// Closes the descriptors that nobody has asked for in time.
    fn poll_expiry(&mut self, cx: &mut Context<'_>) {
        loop {
            let Some(expiry) = &mut self.expiry else {
                match self.shared.received.expire() {
                    Some(at) => self.expiry = Some(Box::pin(sleep_until(at))),
                    None => return,
                }
                continue;
            };
            if expiry.as_mut().poll(cx).is_pending() {
                return;
            }
            self.expiry = None;
        }
    }

    /// Writes a byte for each queued descriptor that there is a byte for. The count is 0 if none
    /// is queued.
    fn poll_descriptors(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut outgoing = self.shared.outgoing();
        let mut written = 0;
        while written < bytes.len().min(MOST_IN_A_WRITE) {
            let Some(fd) = outgoing.front() else { break };
            match self.poll_send_with(cx, bytes[written], fd) {
                Poll::Ready(Ok(())) => {
                    outgoing.pop_front();
                    written += 1;
                }
                // What is written is written, and has to be told before anything else.
                Poll::Pending | Poll::Ready(Err(_)) if written > 0 => break,
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(written))
    }

    fn poll_send_with(&self, cx: &mut Context<'_>, byte: u8, fd: &OwnedFd) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            let sent = self.stream.try_io(Interest::WRITABLE, || {
                let fds = [fd.as_fd()];
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
                    return Err(io::Error::other("no room for a control message"));
                }
                let bytes = [byte];
                let bytes = [IoSlice::new(&bytes)];
                Ok(sendmsg(
                    &self.stream,
                    &bytes,
                    &mut control,
                    SendFlags::NOSIGNAL,
                )?)
            });
            match sent {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if is_momentary(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// The attempt is to be repeated: the socket was not ready after all, or a signal came.
fn is_momentary(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl AsFd for FdStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsyncRead for FdStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            self.poll_expiry(cx);
            ready!(self.stream.poll_read_ready(cx))?;
            let unfilled = buffer.initialize_unfilled();
            match self
                .stream
                .try_io(Interest::READABLE, || self.receive(unfilled))
            {
                Ok(count) => {
                    self.poll_expiry(cx);
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if is_momentary(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for FdStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match ready!(self.poll_descriptors(cx, bytes))? {
            0 => Pin::new(&mut self.stream).poll_write(cx, bytes),
            written => Poll::Ready(Ok(written)),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty());
        match ready!(self.poll_descriptors(cx, first.map_or(&[], |slice| slice)))? {
            0 => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
            written => Poll::Ready(Ok(written)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Drop for FdStream {
    fn drop(&mut self) {
        self.shared.received.close();
        self.shared.outgoing().clear();
    }
}

impl fmt::Debug for FdStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FdStream")
            .field("stream", &self.stream)
            .field("received", &self.shared.received.held())
            .finish_non_exhaustive()
    }
}
