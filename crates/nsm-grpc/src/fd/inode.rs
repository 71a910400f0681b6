//! How a descriptor is named in a message.

use std::fmt;
use std::os::fd::AsFd;
use std::str::FromStr;

use thiserror::Error;

const SCHEME: &str = "inode://";

/// The file that a descriptor stands for, by which a message names a descriptor that travels
/// beside it: `inode://<device>/<inode>`, both in decimal, as `stat(2)` gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
}

impl Inode {
    /// The file of an open descriptor. One that was opened with `O_PATH` will do.
    ///
    /// # Errors
    ///
    /// Those of `fstat(2)`.
    pub fn of(fd: impl AsFd) -> std::io::Result<Self> {
        let stat = rustix::fs::fstat(fd)?;
        Ok(Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
        })
    }
}

/// The text is no `inode://<device>/<inode>`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} names no descriptor: inode://<device>/<inode> is expected")]
pub struct InodeError {
    text: String,
}

impl FromStr for Inode {
    type Err = InodeError;

    fn from_str(text: &str) -> Result<Self, InodeError> {
        let number = |digits: &str| {
            let decimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            decimal.then(|| digits.parse().ok()).flatten()
        };
        let parse = || {
            let (dev, ino) = text.strip_prefix(SCHEME)?.split_once('/')?;
            Some(Self {
                dev: number(dev)?,
                ino: number(ino)?,
            })
        };
        parse().ok_or_else(|| InodeError {
            // It is a peer's text, and ends in an error message.
            text: text.chars().take(64).collect(),
        })
    }
}

impl fmt::Display for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.dev, self.ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_reads_what_it_displays() {
        let inode = Inode {
            dev: 4,
            ino: 4_026_532_581,
        };

        assert_eq!(inode.to_string(), "inode://4/4026532581");
        assert_eq!(inode.to_string().parse(), Ok(inode));
    }

    #[test]
    fn nothing_else_is_an_inode() {
        for text in [
            "",
            "inode://",
            "inode://4",
            "inode://4/",
            "inode:///5",
            "inode://4/5/6",
            "inode://-4/5",
            "inode://+4/5",
            "inode://4/18446744073709551616",
            "file:///proc/1/ns/net",
            "INODE://4/5",
        ] {
            assert!(text.parse::<Inode>().is_err(), "{text:?}");
        }
    }
}
