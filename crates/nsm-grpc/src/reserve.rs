//! Descriptors that are kept back for the work on what stands.
//!
//! A process that runs out of descriptors by taking connections can do nothing any more for those
//! that it has taken: to refresh one needs descriptors, too. So a server holds some in reserve. As
//! long as it holds them it takes whoever comes. When it cannot, they are given up, the work has room
//! with them, and whoever comes is told why he is not served.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Whether this process, or the machine, has too many files open (open(2), accept(2)).
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

/// Descriptors that stand for others that may be needed: one file, however many they are.
#[derive(Debug)]
pub(crate) struct Reserve {
    size: usize,
    held: Vec<OwnedFd>,
}

impl Reserve {
    pub(crate) fn new(size: usize) -> Self {
        let held = Vec::with_capacity(size);
        Self { size, held }
    }

    /// Holds the whole reserve, or none of it. Tells which.
    pub(crate) fn hold(&mut self) -> bool {
        while self.held.len() < self.size {
            match self.another() {
                Ok(another) => self.held.push(another),
                Err(_) => {
                    self.release();
                    return false;
                }
            }
        }
        true
    }

    /// Whether it is held.
    pub(crate) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Gives it up.
    pub(crate) fn release(&mut self) {
        self.held.clear();
    }

    fn another(&self) -> Result<OwnedFd, Errno> {
        match self.held.first() {
            Some(first) => fcntl_dupfd_cloexec(first, 0),
            // A socket needs no file that might not be there.
            None => socket_with(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            ),
        }
    }
}
