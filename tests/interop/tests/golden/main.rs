//! The bytes of the Go implementation, and what ours makes of them.

#![cfg(target_os = "linux")]
// What fails here fails a test.
#![allow(clippy::unwrap_used)]

mod content;
mod descriptors;
mod headers;
mod meanings;
mod messages;
mod socket;

use interop::golden::{Golden, folder};

fn golden() -> Golden {
    Golden::load(&folder()).unwrap()
}
