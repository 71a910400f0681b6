//! Beside the Go implementation: `cargo xtask interop`.

#![cfg(target_os = "linux")]

mod go;
mod kernel;

use clap::{Parser, Subcommand};
use std::error::Error;
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
enum Part {
    Kernel(kernel::Arguments),
}

fn main() -> ExitCode {
    let Cli { part } = Cli::parse();
    match run(part) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all of it holds.
fn run(part: Option<Part>) -> Result<bool, Box<dyn Error + Send + Sync>> {
    let programs = go::build()?;
    match part {
        Some(Part::Kernel(arguments)) => kernel::run(&arguments, &programs),
        None => kernel::run(&kernel::Arguments::default(), &programs),
    }
}
