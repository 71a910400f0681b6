//! The file of a unix socket: made, looked after, and removed, without taking anybody else's.
//!
//! A socket file outlives its process, so a server has to remove the one of a predecessor that was
//! killed. To look whether anybody listens and then to remove the file are two steps, and between
//! them another server may have started. So both happen under a lock on the folder (flock(2)),
//! which leaves nothing behind and which every one of us takes.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::time::{Duration, Instant, sleep};

/// `sun_path` has 108 bytes, the last of them a zero (unix(7)).
const LONGEST: usize = 107;

/// Everybody may connect; the folder decides who gets there. As in the mesh's Go components.
const MODE: u32 = 0o777;

/// How long another one may hold the folder's lock. What happens under it takes no time.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How often the lock is tried for the removal, a millisecond apart.
const LAST_TRIES: u32 = 50;

/// Why a socket file cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SocketFileError {
    /// The path does not fit into a socket's address.
    #[error("the path has {length} bytes, and a unix socket's has {LONGEST} at most")]
    TooLong {
        /// How long it is.
        length: usize,
    },
    /// A live server listens there.
    #[error("another process listens there: stop it first, or choose another path")]
    InUse {
        /// Its file.
        path: PathBuf,
    },
    /// Something that is no socket is in the way.
    #[error("something that is no socket is in the way, and is left alone")]
    NotASocket {
        /// What it is.
        path: PathBuf,
    },
    /// Somebody holds the folder's lock.
    #[error("another process has held the lock on the folder {} for too long", .folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// The system refuses.
    #[error("cannot {action} {}", .path.display())]
    System {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// Says what was to be done when the system refuses.
fn cannot<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> SocketFileError + use<'a> {
    move |source| SocketFileError::System {
        action,
        path: path.to_owned(),
        source,
    }
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ours,
    Gone,
    Foreign,
}

/// A socket file of ours. Dropping it removes the file, if it is still ours.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

/// Which file it is. A file system may give the inode of a removed file to the next one, so the
/// time of its making, which nobody can set, belongs to it where the file system knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    dev: u64,
    ino: u64,
    made: Option<SystemTime>,
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let file = fs::symlink_metadata(path)?;
        Ok(Self {
            dev: file.dev(),
            ino: file.ino(),
            made: file.created().ok(),
        })
    }
}

impl SocketFile {
    pub(super) async fn bind(path: &Path) -> Result<(Self, UnixListener), SocketFileError> {
        let length = path.as_os_str().len();
        if length > LONGEST {
            return Err(SocketFileError::TooLong { length });
        }
        let folder = folder_of(path);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)
            .map_err(cannot("make the folder", folder))?;
        let _lock = lock(folder).await?;
        make_way(path)?;

        let listener = StdUnixListener::bind(path).map_err(cannot("bind", path))?;
        let set_up = || {
            fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
            listener.set_nonblocking(true)?;
            Identity::of(path)
        };
        let identity = set_up().map_err(|error| {
            // Ours for certain: the lock is still held.
            fs::remove_file(path).ok();
            cannot("set up", path)(error)
        })?;
        let file = Self {
            path: path.to_owned(),
            identity,
        };
        let listener = UnixListener::from_std(listener).map_err(cannot("watch", path))?;
        Ok((file, listener))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn state(&self) -> State {
        match Identity::of(&self.path) {
            Ok(identity) if identity == self.identity => State::Ours,
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::Gone,
            Ok(_) | Err(_) => State::Foreign,
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.state() != State::Ours {
            return;
        }
        // Whoever holds the lock does so for moments. If it is about to bind here, it finds this
        // file and nobody who listens, and replaces the file by itself.
        let folder = folder_of(&self.path);
        let mut locks = (0..LAST_TRIES).map(|_| {
            try_lock(folder).inspect_err(|_| std::thread::sleep(Duration::from_millis(1)))
        });
        let Some(_lock) = locks.find_map(Result::ok) else {
            return;
        };
        if self.state() == State::Ours {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Removes a socket that nobody listens at.
fn make_way(path: &Path) -> Result<(), SocketFileError> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(cannot("look at", path))?,
    };
    if !found.file_type().is_socket() {
        return Err(SocketFileError::NotASocket {
            path: path.to_owned(),
        });
    }
    match probe(path) {
        Err(Errno::CONNREFUSED) => {
            fs::remove_file(path).map_err(cannot("remove the stale socket", path))
        }
        // A server whose queue is full, or whose socket has another type, is a live one.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(SocketFileError::InUse {
            path: path.to_owned(),
        }),
        Err(errno) => Err(cannot("connect to", path)(errno.into())),
    }
}

/// Connects without waiting.
fn probe(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)
}

async fn lock(folder: &Path) -> Result<OwnedFd, SocketFileError> {
    let until = Instant::now() + LOCK_WAIT;
    loop {
        match try_lock(folder) {
            Ok(lock) => return Ok(lock),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                sleep(Duration::from_millis(5)).await;
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(SocketFileError::Locked {
                    folder: folder.to_owned(),
                });
            }
            Err(errno) => return Err(cannot("lock the folder", folder)(errno.into())),
        }
    }
}

/// The lock ends with the descriptor.
fn try_lock(folder: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty())?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}
