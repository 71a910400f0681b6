//! The demo: a client, a forwarder and two endpoints as processes of their own, and traffic by
//! policy.
//!
//! `cargo run -p three-processes` shows it, with `-- --keep` behind it it goes on until Ctrl-C, and
//! `-- --help` tells what else it can do.

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
