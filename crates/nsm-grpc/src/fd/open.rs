//! Opens what a `file://` URL names, to be sent.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nsm_api::connection::Mechanism;
use nsm_api::mechanism::NETNS_URL;
use rustix::fs::{Mode, OFlags, open};
use thiserror::Error;

use super::Inode;
use crate::reserve::is_exhausted;
use crate::url_path;

/// Why what a `file://` URL names cannot be sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no file.
    #[error("{url:?} names no file: file:///path is expected")]
    Url {
        /// The URL.
        url: String,
    },
    /// It cannot be opened.
    #[error("cannot open {}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The open descriptor tells nothing about itself.
    #[error("cannot tell what {} stands for", .path.display())]
    Inspect {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
}

impl OpenError {
    /// Whether this process, or the machine, has too many open.
    pub(super) fn is_for_want_of_descriptors(&self) -> bool {
        match self {
            Self::Url { .. } => false,
            Self::Open { source, .. } | Self::Inspect { source, .. } => is_exhausted(source),
        }
    }
}

/// The file that a mechanism's namespace parameter names by `file://`, if it names any so.
pub(super) fn file_of(mechanism: &Mechanism) -> Result<Option<PathBuf>, OpenError> {
    let url = url_of(mechanism).unwrap_or_default();
    let Some(path) = url.strip_prefix("file://") else {
        return Ok(None);
    };
    match url_path::decode(path) {
        Some(path) => Ok(Some(path)),
        None => Err(OpenError::Url {
            url: url.to_owned(),
        }),
    }
}

/// Opens a file for nothing but to pass it on (O_PATH), so that a FIFO does not block and a device
/// does not act. The name is that of the descriptor itself, whatever the path names by then.
pub(super) fn open_to_pass(path: &Path) -> Result<(Inode, OwnedFd), OpenError> {
    let failed = |source| OpenError::Open {
        path: path.to_owned(),
        source,
    };
    let fd = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| failed(errno.into()))?;
    let inode = Inode::of(&fd).map_err(|source| OpenError::Inspect {
        path: path.to_owned(),
        source,
    })?;
    Ok((inode, fd))
}

/// Replaces a mechanism's namespace parameter.
pub(super) fn set_url(mechanism: &mut Mechanism, url: impl Into<String>) {
    mechanism
        .parameters
        .insert(NETNS_URL.to_owned(), url.into());
}

/// A mechanism's namespace parameter.
pub(super) fn url_of(mechanism: &Mechanism) -> Option<&str> {
    mechanism.parameters.get(NETNS_URL).map(String::as_str)
}
