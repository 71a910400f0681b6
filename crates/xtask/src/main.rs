//! The project's own tools: `cargo xtask`.

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The project's own tools.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// Breaks the element on purpose, and tells which test notices.
    Mutants(mutants::Options),
}

fn main() -> ExitCode {
    match Cli::parse().tool {
        Tool::Mutants(options) => mutants::main(&options),
    }
}
