//! The recorded bytes: `golden/`, made by `go/golden`.

mod difference;
mod framing;
mod index;
mod message;

pub use difference::differences;
pub use framing::{Descriptor, Frame, frames};
pub use index::{By, Call, Connection, Golden, GoldenError, Side};
pub use message::{Kind, Message};

use std::path::{Path, PathBuf};

/// Where the recorded bytes are kept.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}
