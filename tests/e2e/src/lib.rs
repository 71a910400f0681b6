//! A client, a forwarder and an endpoint as processes, each in a network namespace, for the suite.
//!
//! The suite executes itself under the programs' names, for cargo builds no other package's
//! binaries for a test; what runs in each process is the program, from its first line to its last.

#![cfg(target_os = "linux")]
// It is for tests: what fails here fails one.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod mesh;
mod process;

pub use mesh::Mesh;
pub use process::{Process, called_as};
