//! The other end of a connection, as far as descriptors go.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::stream::Shared;
use super::{DescriptorError, Inode, SendError};

/// The other end of the unix socket that a call travels over: it sends descriptors, and gets some.
///
/// The server puts one into the extensions of each call that comes over a unix socket. Clones
/// belong to the same call. What a call has taken stays with the call's peer, so that asking
/// again, also for the close that undoes the call, gives the same descriptor.
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
    taken: Arc<Mutex<HashMap<Inode, Arc<OwnedFd>>>>,
}

impl Peer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            taken: Arc::default(),
        }
    }

    /// The same end, for another call.
    pub(crate) fn for_call(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }

    /// Waits until the peer has sent a descriptor of that file. The order in which it and the
    /// message arrive that names it does not matter.
    ///
    /// Each descriptor that arrives is good for one call. Dropping the future takes none.
    ///
    /// # Errors
    ///
    /// See [`DescriptorError`].
    pub async fn descriptor(
        &self,
        inode: Inode,
        deadline: Instant,
    ) -> Result<Arc<OwnedFd>, DescriptorError> {
        if let Some(fd) = self.taken().get(&inode) {
            return Ok(Arc::clone(fd));
        }
        let fd = Arc::new(self.shared.received.take(inode, deadline).await?);
        self.taken().insert(inode, Arc::clone(&fd));
        Ok(fd)
    }

    /// Gives up a descriptor that has arrived with the call and is not wanted.
    pub fn discard(&self, inode: Inode) {
        // Nothing has arrived, or nothing will: both are as wanted.
        drop(self.shared.received.try_take(inode));
    }

    /// Sends a descriptor, with the bytes that are written next. It is closed once it is sent, or
    /// when the connection ends before.
    ///
    /// # Errors
    ///
    /// When too many wait already.
    pub fn send(&self, fd: OwnedFd) -> Result<(), SendError> {
        self.shared.queue([fd])
    }

    /// How many descriptors the peer has sent and nobody has asked for yet.
    pub fn unclaimed(&self) -> usize {
        self.shared.received.held()
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Inode, Arc<OwnedFd>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("unclaimed", &self.unclaimed())
            .finish_non_exhaustive()
    }
}
