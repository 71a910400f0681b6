//! Beside the Go implementation: `cargo xtask interop`.

#![cfg(target_os = "linux")]

mod go;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Runs the Rust programs and the Go programs together, and compares what they leave.
///
/// Needs Go 1.24 or later, and the right to make network namespaces. Without a part, all of them
/// are run.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask interop")]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {}

fn main() -> ExitCode {
    let Cli { part } = Cli::parse();
    let _ = (part, go::build());
    ExitCode::SUCCESS
}
