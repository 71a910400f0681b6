//! The demo: rules keep their tables while the forwarding side dies and returns.
//!
//! `cargo run -p forwarder-restart` shows it, with `-- --recreate` behind it how it went before, and
//! with `-- --help` what else it can do.

#[cfg(target_os = "linux")]
mod demo;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    demo::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!(
        "policy routing exists on Linux only: run it there, in a virtual machine or a container"
    );
    ExitCode::from(2)
}
