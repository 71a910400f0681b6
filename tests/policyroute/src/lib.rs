//! What the cases of the suite are written with.
//!
//! A case gets a [`Pod`], a network namespace on the fake or on the real kernel, and does there what
//! the rest of the world does. It starts the element as a [`Process`], several one after the other
//! where the process is restarted, and asks it for [`connection`]s with [`policy`]s.

#![allow(
    clippy::unwrap_used,
    reason = "a case that cannot be set up has failed"
)]

mod fake;
mod machine;
mod messages;
mod picture;
mod pod;
mod process;
mod real;
mod trial;
mod warnings;
mod watch;

pub use fake::Fake;
pub use machine::Machine;
pub use messages::{Draft, PolicyDraft, connection, policy};
pub use picture::Snapshot;
pub use pod::{OWNER, Place, Pod, rule};
pub use process::{Process, assert_fails, close, config, request};
pub use real::{Real, listeners, replace_route};
pub use trial::trial;
pub use warnings::warnings;
pub use watch::{Watch, Watched};
