//! What the kernel tells of directories: inotify(7).

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::way::Way;

/// All that can make a path lead elsewhere, or a file another one.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// What ends the writing of a file, or puts another one in its place.
const OTHERWISE: ReadFlags = ReadFlags::CLOSE_WRITE
    .union(ReadFlags::DELETE)
    .union(ReadFlags::MOVED_FROM)
    .union(ReadFlags::MOVED_TO);

/// A file that somebody seems to have open for writing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// When he was heard of last.
    pub(super) since: Instant,
    /// Whether he has changed it. He may only have made it, or given one another name, which no
    /// close follows.
    pub(super) is_changed: bool,
}

/// How much is read at once, in bytes: a hundred events or more.
const BUFFER: usize = 4096;
/// How often in a row: somebody else may work as fast in a directory as events are read.
const READS: usize = 64;

/// Tells that something has changed on the way to a file.
#[derive(Debug)]
pub(super) struct Notices {
    queue: Arc<AsyncFd<OwnedFd>>,
    /// The names that matter in each directory that is watched.
    watched: HashMap<i32, BTreeSet<OsString>>,
    /// The file itself: its directory and its name.
    file: Option<(i32, OsString)>,
    open: Option<Open>,
}

impl Notices {
    /// Nothing is watched yet. Has to be called within a tokio runtime.
    pub(super) fn new() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self {
            queue: Arc::new(register(queue)?),
            watched: HashMap::new(),
            file: None,
            open: None,
        })
    }

    /// Who is writing the file: it was made or changed, and not closed since.
    pub(super) fn open(&self) -> Option<Open> {
        self.open
    }

    /// Watches the directories of a way, and no others any more. It may block as long as the file
    /// system does.
    ///
    /// # Errors
    ///
    /// The first directory that cannot be watched, unless it is not there any more. All others are.
    pub(super) fn follow(&mut self, way: &Way) -> io::Result<()> {
        let mut watched: HashMap<i32, BTreeSet<OsString>> = HashMap::new();
        let mut refused = Ok(());
        let mut file = None;
        for (directory, names) in &way.names {
            match inotify::add_watch(&*self.queue, directory, CHANGES) {
                Ok(watch) => {
                    watched
                        .entry(watch)
                        .or_default()
                        .extend(names.iter().cloned());
                    if let Some((at, name)) = &way.file
                        && at == directory
                    {
                        file = Some((watch, name.clone()));
                    }
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => refused = refused.and(Err(error.into())),
            }
        }
        for gone in self.watched.keys().filter(|it| !watched.contains_key(it)) {
            // It has ended by itself if the directory is gone.
            inotify::remove_watch(&*self.queue, *gone).ok();
        }
        if file != self.file {
            self.open = None;
        }
        (self.watched, self.file) = (watched, file);
        refused
    }

    /// Waits for a change that matters.
    ///
    /// # Errors
    ///
    /// When the queue cannot be read.
    ///
    /// # Cancellation
    ///
    /// The future may be dropped at any time.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        loop {
            let queue = Arc::clone(&self.queue);
            let mut ready = queue.readable().await?;
            let read = self.read(&queue)?;
            if read.is_all {
                ready.clear_ready();
            }
            drop(ready);
            if read.matters {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    fn read(&mut self, queue: &AsyncFd<OwnedFd>) -> io::Result<Read> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut events = Reader::new(queue, &mut buffer);
        let mut read = Read::default();
        let mut reads = 0;
        loop {
            reads += usize::from(events.is_buffer_empty());
            if reads > READS {
                return Ok(read);
            }
            match events.next() {
                Ok(event) => read.matters |= self.matters(&event),
                Err(Errno::AGAIN) => {
                    read.is_all = true;
                    return Ok(read);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn matters(&mut self, event: &Event<'_>) -> bool {
        // Without a name it is about a directory itself, or tells that events are lost.
        let Some(name) = event.file_name() else {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                self.open = None;
            }
            return true;
        };
        let name = OsStr::from_bytes(name.to_bytes());
        let of_file = self.file.as_ref();
        if of_file.is_some_and(|(watch, file)| (*watch, file.as_os_str()) == (event.wd(), name)) {
            let events = event.events();
            if events.intersects(ReadFlags::MODIFY.union(ReadFlags::CREATE)) {
                self.open = Some(Open {
                    since: Instant::now(),
                    is_changed: events.contains(ReadFlags::MODIFY),
                });
            } else if events.intersects(OTHERWISE) {
                self.open = None;
            }
        }
        let names = self.watched.get(&event.wd());
        names.is_some_and(|names| names.contains(name))
    }
}

#[allow(unsafe_code)]
fn register(queue: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: what is owned is the same open descriptor until it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(queue, Interest::READABLE) }?)
}

/// What was read.
#[derive(Default)]
struct Read {
    matters: bool,
    /// Whether there is nothing left to read.
    is_all: bool,
}
