//! One attempt to connect.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Duration;
use tonic::body::Body;

use crate::socket::{HangUp, Socket};
use crate::{Address, Peer};

/// How large the headers of an answer may be.
const HEADERS: u32 = 64 << 10;

/// How much may lie unread, in bytes: of one answer or stream, and of all over a connection. Streams
/// that nobody reads must not keep the answers to calls back.
const WINDOWS: (u32, u32) = (256 << 10, 1 << 30);

/// How many streams that were cancelled at once are remembered, until what the other side sends for
/// them has come. What comes for one that is forgotten counts as a fault of the other side's.
const CANCELLED: usize = 16 << 10;

/// Why an attempt to connect has failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DialError {
    /// Nobody is reached.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// What is reached does not speak HTTP/2.
    #[error("the other side does not speak gRPC")]
    Handshake(#[source] hyper::Error),
    /// The connection was closed before a word was said.
    #[error("the other side has closed the connection at once")]
    Closed,
    /// There was no connection, or no word, in time.
    #[error("the other side has not answered within {0:?}")]
    TimedOut(Duration),
}

/// A connection over which the other end has spoken.
pub(super) struct Dialled {
    pub(super) sender: SendRequest<Body>,
    pub(super) peer: Option<Peer>,
    pub(super) hang_up: HangUp,
    /// Ends when the connection does. The connection ends by itself when the last sender is
    /// dropped and its last call has ended.
    pub(super) connection: JoinHandle<hyper::Result<()>>,
    /// How many calls and streams the other side takes at once.
    pub(super) room: Arc<AtomicUsize>,
    /// Cuts the connection off, with an error for all that goes over it.
    pub(super) cut: oneshot::Sender<io::Error>,
}

/// Connects, and waits for the first word of the other side: the queue of a listener takes
/// connections also when nobody serves them.
pub(super) async fn dial(address: &Address) -> Result<Dialled, DialError> {
    let mut socket = connect(address).await.map_err(DialError::Connect)?;
    let peer = socket.peer();
    let cut = socket.cut();
    let hang_up = socket.hang_up().map_err(DialError::Connect)?;
    let mut spoken = socket.spoken();
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_header_list_size(HEADERS)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        // Until the other side says how many it takes, which is its first word.
        .initial_max_send_streams(usize::MAX)
        .max_concurrent_reset_streams(CANCELLED);
    let (sender, connection) = http
        .handshake(TokioIo::new(socket))
        .await
        .map_err(DialError::Handshake)?;
    let room = Arc::new(AtomicUsize::new(usize::MAX));
    let mut connection = tokio::spawn({
        let room = Arc::clone(&room);
        async move {
            let mut connection = pin!(connection);
            poll_fn(|cx| {
                let ended = connection.as_mut().poll(cx);
                // The other side may change it at any time (RFC 9113, 6.5.2).
                room.store(connection.current_max_send_streams(), Relaxed);
                ended
            })
            .await
        }
    });
    tokio::select! {
        biased;
        Ok(_) = spoken.wait_for(|spoken| *spoken) => Ok(Dialled {
            sender,
            peer,
            hang_up,
            connection,
            room,
            cut,
        }),
        ended = &mut connection => Err(match ended {
            Ok(Err(error)) => DialError::Handshake(error),
            Ok(Ok(())) | Err(_) => DialError::Closed,
        }),
    }
}

async fn connect(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Unix(path) => Ok(Socket::unix(UnixStream::connect(path).await?)),
        Address::Tcp(host_and_port) => {
            let stream = match host_and_port.strip_prefix(':') {
                Some(port) => TcpStream::connect(format!("localhost:{port}")).await?,
                None => TcpStream::connect(host_and_port).await?,
            };
            Socket::tcp(stream)
        }
    }
}
