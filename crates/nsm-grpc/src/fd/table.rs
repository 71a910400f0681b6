//! What a peer has sent, until somebody asks for it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, timeout_at};

use super::Inode;

/// How long a descriptor is kept that nobody asks for.
///
/// It comes right before the message that names it, or right behind, so this is the time that a
/// message may have to wait for its turn. It bounds how long a descriptor pins a network
/// namespace whose message was refused.
pub(super) const UNCLAIMED: Duration = Duration::from_secs(60);

/// How many files a peer may have descriptors of in the table. It is far more than calls that
/// are on their way at once, and less than what a process may have open.
pub(super) const CAPACITY: usize = 512;

/// Why a descriptor is not there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The peer has not sent it in time.
    #[error("the peer has sent no descriptor {inode} in time")]
    NotSent {
        /// The file that was waited for.
        inode: Inode,
    },
    /// The peer has sent descriptors that this process had no room for.
    #[error("no descriptor {inode} has come, and {lost} were lost: this process has too many open")]
    Lost {
        /// The file that was waited for.
        inode: Inode,
        /// How many messages came without theirs while it was waited.
        lost: u64,
    },
    /// The connection to the peer has ended, and with it what the peer has sent.
    #[error("the connection that descriptor {inode} was to come over has ended")]
    Closed {
        /// The file that was waited for.
        inode: Inode,
    },
    /// The descriptor is there, and there is no room for another.
    #[error("cannot duplicate the descriptor {inode}")]
    Duplicate {
        /// The file that was waited for.
        inode: Inode,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
}

/// The peer has sent descriptors of more files than [`CAPACITY`], and nobody asks for them.
#[derive(Debug, Error)]
#[error("the peer has sent {CAPACITY} descriptors that nobody has asked for, and one more")]
pub(super) struct Flood;

/// The descriptors of one connection, by file.
///
/// Each arrival of a file's descriptor is good for one call that asks for it: senders send it
/// again with every call. One descriptor is held for each file however often it arrives, and
/// none when as many calls have asked as it came.
#[derive(Debug, Default)]
pub(super) struct Table {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Inode, Entry>,
    /// How often something came without its descriptors, because this process had no room.
    lost: u64,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    fd: OwnedFd,
    arrivals: u64,
    until: Instant,
}

impl Table {
    /// Takes in a descriptor. A second one of a file is closed.
    pub(super) fn arrived(&self, inode: Inode, fd: OwnedFd) -> Result<(), Flood> {
        let mut state = self.lock();
        if state.closed {
            return Ok(());
        }
        let until = Instant::now() + UNCLAIMED;
        if let Some(entry) = state.entries.get_mut(&inode) {
            entry.arrivals = entry.arrivals.saturating_add(1);
            entry.until = until;
        } else {
            if state.entries.len() >= CAPACITY {
                return Err(Flood);
            }
            state.entries.insert(
                inode,
                Entry {
                    fd,
                    arrivals: 1,
                    until,
                },
            );
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Something came without its descriptors.
    pub(super) fn lost(&self) {
        self.lock().lost += 1;
    }

    /// Waits for a file's descriptor until the deadline.
    ///
    /// Dropping the future takes nothing.
    pub(super) async fn take(
        &self,
        inode: Inode,
        deadline: Instant,
    ) -> Result<OwnedFd, DescriptorError> {
        let lost_before = self.lock().lost;
        let arrival = async {
            loop {
                let changed = self.changed.notified();
                if let Some(fd) = self.try_take(inode)? {
                    return Ok(fd);
                }
                changed.await;
            }
        };
        match timeout_at(deadline, arrival).await {
            Ok(taken) => taken,
            Err(_) => Err(match self.lock().lost - lost_before {
                0 => DescriptorError::NotSent { inode },
                lost => DescriptorError::Lost { inode, lost },
            }),
        }
    }

    /// Uses up one arrival of a file's descriptor, if there is one.
    pub(super) fn try_take(&self, inode: Inode) -> Result<Option<OwnedFd>, DescriptorError> {
        let mut state = self.lock();
        if state.closed {
            return Err(DescriptorError::Closed { inode });
        }
        let Some(entry) = state.entries.get_mut(&inode) else {
            return Ok(None);
        };
        if entry.arrivals > 1 {
            let fd = entry.fd.try_clone();
            let fd = fd.map_err(|source| DescriptorError::Duplicate { inode, source })?;
            entry.arrivals -= 1;
            return Ok(Some(fd));
        }
        Ok(state.entries.remove(&inode).map(|entry| entry.fd))
    }

    /// Closes what nobody has asked for in time, and tells when to look again.
    pub(super) fn expire(&self) -> Option<Instant> {
        let mut state = self.lock();
        let now = Instant::now();
        state.entries.retain(|_, entry| entry.until > now);
        state.entries.values().map(|entry| entry.until).min()
    }

    /// Closes everything. Nothing is taken in from here on, and nobody waits any longer.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.entries = HashMap::new();
        drop(state);
        self.changed.notify_waiters();
    }

    /// How many descriptors are held.
    pub(super) fn held(&self) -> usize {
        self.lock().entries.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::sync::Arc;
    use tokio::time::advance;

    fn some_fd() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    fn inode(ino: u64) -> Inode {
        Inode { dev: 1, ino }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_descriptor_is_waited_for_until_the_deadline() {
        let table = Arc::new(Table::default());
        let waiting = Arc::clone(&table);
        let waiter = tokio::spawn(async move { waiting.take(inode(1), soon()).await });
        tokio::task::yield_now().await;

        table.arrived(inode(1), some_fd()).unwrap();

        assert!(waiter.await.unwrap().is_ok());
        let late = table.take(inode(1), soon()).await;
        assert!(matches!(late, Err(DescriptorError::NotSent { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn each_arrival_is_good_for_one_call_and_one_descriptor_is_held() {
        let table = Table::default();
        for _ in 0..3 {
            table.arrived(inode(1), some_fd()).unwrap();
        }
        assert_eq!(table.held(), 1);

        for left in [1, 1, 0] {
            table.take(inode(1), soon()).await.unwrap();
            assert_eq!(table.held(), left);
        }
        assert!(table.take(inode(1), soon()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_asks_for_is_closed_after_a_while() {
        let table = Table::default();
        table.arrived(inode(1), some_fd()).unwrap();
        advance(UNCLAIMED / 2).await;
        table.arrived(inode(2), some_fd()).unwrap();
        assert!(table.expire().is_some());
        assert_eq!(table.held(), 2);

        advance(UNCLAIMED / 2).await;
        assert!(table.expire().is_some());
        assert_eq!(table.held(), 1);

        advance(UNCLAIMED).await;
        assert_eq!(table.expire(), None);
        assert_eq!(table.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_descriptors_is_bounded() {
        let table = Table::default();
        for ino in 0..CAPACITY as u64 {
            table.arrived(inode(ino), some_fd()).unwrap();
        }
        assert!(table.arrived(inode(0), some_fd()).is_ok());
        assert!(table.arrived(inode(u64::MAX), some_fd()).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_that_is_closed_holds_nothing_and_lets_nobody_wait() {
        let table = Arc::new(Table::default());
        table.arrived(inode(1), some_fd()).unwrap();
        let waiting = Arc::clone(&table);
        let waiter = tokio::spawn(async move { waiting.take(inode(2), soon()).await });
        tokio::task::yield_now().await;

        table.close();

        let closed = waiter.await.unwrap();
        assert!(matches!(closed, Err(DescriptorError::Closed { .. })));
        assert_eq!(table.held(), 0);
        table.arrived(inode(3), some_fd()).unwrap();
        assert_eq!(table.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_descriptor_that_this_process_had_no_room_for_is_told_from_one_that_was_not_sent() {
        let table = Arc::new(Table::default());
        let waiting = Arc::clone(&table);
        let waiter = tokio::spawn(async move { waiting.take(inode(1), soon()).await });
        tokio::task::yield_now().await;

        table.lost();

        let lost = waiter.await.unwrap();
        assert!(matches!(lost, Err(DescriptorError::Lost { lost: 1, .. })));
    }
}
