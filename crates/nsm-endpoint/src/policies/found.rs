//! What is found at the path of a policy file.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::file::{Place, PolicyFileError};
use super::list::PolicyList;

/// How large a file may be, in bytes: that of a ConfigMap cannot be larger.
const LIMIT: usize = 1 << 20;

/// What is found at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// A file that can be read.
    Content(Vec<u8>),
    /// Something that cannot be read.
    Unreadable(io::ErrorKind, String),
}

impl Found {
    /// Looks. It may block as long as the file system does.
    pub(super) fn at(path: &Path) -> Self {
        match read(path) {
            Ok(content) => Self::Content(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Nothing,
            Err(error) => Self::Unreadable(error.kind(), error.to_string()),
        }
    }

    /// The policies of what was found at that path.
    pub(super) fn list(&self, path: &Path) -> Result<Option<PolicyList>, PolicyFileError> {
        let file = path.display().to_string();
        match self {
            Self::Nothing => Ok(None),
            Self::Content(content) => match str::from_utf8(content) {
                Ok(text) => PolicyList::parse(&file, text).map(Some),
                Err(error) => Err(PolicyFileError::Malformed {
                    file,
                    place: behind(&content[..error.valid_up_to()]),
                    message: "this is no text in UTF-8".to_owned(),
                }),
            },
            Self::Unreadable(kind, message) => Err(PolicyFileError::Unreadable {
                file,
                source: io::Error::new(*kind, message.clone()),
            }),
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe without a writer would be waited for.
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(LIMIT as u64 + 1).read_to_end(&mut content)?;
    if content.len() > LIMIT {
        let reason = format!("it has more than {LIMIT} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(content)
}

/// The place behind a text.
fn behind(text: &[u8]) -> Place {
    let line = text.split(|byte| *byte == b'\n').count();
    let last = text
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    Place {
        line: line as u64,
        column: String::from_utf8_lossy(last).chars().count() as u64 + 1,
    }
}
