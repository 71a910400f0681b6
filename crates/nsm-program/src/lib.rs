//! What the mesh's programs share: [settings] and the [command line](command),
//! [logging], [telemetry], and an orderly [end](shutdown).
//!
//! A program is a type with its settings that says what it does:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use nsm_program::shutdown::Shutdown;
//! use nsm_program::{Observability, Program};
//!
//! /// Waits until it is told to end.
//! #[derive(Debug, clap::Parser)]
//! #[command(name = "waiter", version)]
//! struct Waiter {
//!     /// The name of this waiter
//!     #[arg(long, env = "NSM_NAME", default_value = "waiter")]
//!     name: String,
//!
//!     #[command(flatten)]
//!     observability: Observability,
//! }
//!
//! impl Program for Waiter {
//!     type Error = std::io::Error;
//!
//!     fn name(&self) -> &str {
//!         &self.name
//!     }
//!
//!     fn observability(&self) -> &Observability {
//!         &self.observability
//!     }
//!
//!     async fn run(self, shutdown: Shutdown) -> Result<(), Self::Error> {
//!         shutdown.requested().await;
//!         Ok(())
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     nsm_program::main::<Waiter>()
//! }
//! ```

mod calls;
pub mod command;
mod descriptors;
pub mod logging;
mod program;
pub mod settings;
pub mod shutdown;
pub mod telemetry;
pub mod trace_context;
mod variables;

pub use calls::{Calls, PolicyRules};
pub use program::{Observability, Program, main};
pub use trace_context::TraceContextLayer;
pub use variables::{UnknownVariable, WithoutEffect};
