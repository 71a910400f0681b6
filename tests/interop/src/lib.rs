//! What the Go implementation has written, for the tests and the command that records it again.

#![cfg(target_os = "linux")]

pub mod golden;
