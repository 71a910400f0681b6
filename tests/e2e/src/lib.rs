//! Clients, a forwarder and endpoints as processes, each in a network namespace, for the suite.
//!
//! The suite executes itself under the programs' names, for cargo builds no other package's
//! binaries for a test; what runs in each process is the program, from its first line to its last.

#![cfg(target_os = "linux")]
// It is for tests: what fails here fails one, and tells on standard error.
#![allow(clippy::expect_used, clippy::print_stderr, clippy::unwrap_used)]

mod caller;
mod clock;
mod gated;
mod mesh;
mod pool;
mod process;
mod raw_peer;
mod standing;
mod told;
mod traffic;
mod usage;
mod watched;

pub use caller::{Caller, Listening};
pub use clock::{Clock, last_stamp_is_off};
pub use gated::{Gate, GatedEndpoint, Seen, Way};
pub use mesh::{Mesh, source};
pub use pool::free_addresses;
pub use process::{Process, called_as, until};
pub use raw_peer::{
    CLOSE, RAW_LIFE, REQUEST, RawPeer, Sent, assert_status, first_request, mechanism_of,
};
pub use standing::Standing;
pub use traffic::who_answers;
pub use usage::{Descriptor, descriptors};
pub use watched::while_served;
