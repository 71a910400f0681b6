//! Where a server takes connections.

mod socket_file;
mod tcp;

use std::fmt;
use std::io;

use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::{Duration, Interval, MissedTickBehavior, interval};

use crate::Address;
use crate::socket::Socket;
pub use socket_file::SocketFileError;
use socket_file::{SocketFile, State};

/// How often it is looked whether the socket file is still there.
const LOOK: Duration = Duration::from_secs(1);

/// Takes connections at an [`Address`].
///
/// A unix socket's file gets the mode 0777, as in the mesh's Go components: who may reach it is a
/// question of the folder. The folder is made if it is not there. What stands in the way is
/// replaced when it is a socket that nobody listens at, and nothing else is; of two that start at
/// the same time one wins. A file that is removed while the listener lives is made anew within a
/// second. Dropping the listener removes the file if it is still its own.
pub struct Listener {
    address: Address,
    kind: Kind,
}

enum Kind {
    Unix {
        listener: UnixListener,
        file: SocketFile,
        look: Interval,
        /// What is wrong with the file is said once.
        lost: bool,
    },
    Tcp(TcpListener),
}

/// Why a server cannot listen.
#[derive(Debug, Error)]
#[error("cannot listen at {address}")]
pub struct ListenError {
    address: Address,
    source: Cause,
}

impl ListenError {
    /// Whether somebody else listens there, and lives.
    pub fn is_in_use(&self) -> bool {
        match &self.source {
            Cause::File(error) => matches!(error, SocketFileError::InUse { .. }),
            Cause::Tcp(error) => error.kind() == io::ErrorKind::AddrInUse,
        }
    }
}

#[derive(Debug, Error)]
enum Cause {
    #[error(transparent)]
    File(#[from] SocketFileError),
    #[error(transparent)]
    Tcp(#[from] io::Error),
}

impl Listener {
    /// Listens. Has to be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// When a live server listens there, something else than a socket is in the way, or the system
    /// refuses. Nothing is changed then.
    pub async fn bind(address: &Address) -> Result<Self, ListenError> {
        let failed = |source: Cause| ListenError {
            address: address.clone(),
            source,
        };
        let kind = match address {
            Address::Unix(path) => {
                let (file, listener) = SocketFile::bind(path)
                    .await
                    .map_err(|error| failed(error.into()))?;
                let mut look = interval(LOOK);
                look.set_missed_tick_behavior(MissedTickBehavior::Delay);
                Kind::Unix {
                    listener,
                    file,
                    look,
                    lost: false,
                }
            }
            Address::Tcp(host_and_port) => {
                let listener = tcp::bind(host_and_port).await;
                Kind::Tcp(listener.map_err(|error| failed(error.into()))?)
            }
        };
        Ok(Self {
            address: address.clone(),
            kind,
        })
    }

    /// Where it listens. A TCP port that was left to the system, by asking for port 0, is named.
    pub fn address(&self) -> Address {
        match &self.kind {
            Kind::Unix { .. } => self.address.clone(),
            Kind::Tcp(listener) => match listener.local_addr() {
                Ok(local) => Address::Tcp(local.to_string()),
                Err(_) => self.address.clone(),
            },
        }
    }

    /// Waits for the next connection. Dropping the future loses none.
    pub(crate) async fn accept(&mut self) -> io::Result<Socket> {
        match &mut self.kind {
            Kind::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                Socket::tcp(stream)
            }
            Kind::Unix {
                listener,
                file,
                look,
                lost,
            } => loop {
                tokio::select! {
                    accepted = listener.accept() => return Ok(Socket::unix(accepted?.0)),
                    _ = look.tick() => look_after(file, listener, lost).await,
                }
            },
        }
    }
}

/// Makes the socket's file anew if it is gone.
async fn look_after(file: &mut SocketFile, listener: &mut UnixListener, lost: &mut bool) {
    match file.state() {
        State::Ours => *lost = false,
        State::Gone => match SocketFile::bind(file.path()).await {
            Ok((anew, listens)) => {
                tracing::warn!(path = %file.path().display(), "the socket file was gone and is made anew");
                *file = anew;
                *listener = listens;
            }
            Err(error) if !*lost => {
                *lost = true;
                let error = nsm_chain::ErrorChain(&error);
                tracing::warn!(path = %file.path().display(), %error, "the socket file is gone");
            }
            Err(_) => {}
        },
        State::Foreign if !*lost => {
            *lost = true;
            tracing::warn!(
                path = %file.path().display(),
                "another file has taken the place of the socket: new connections do not come here"
            );
        }
        State::Foreign => {}
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
