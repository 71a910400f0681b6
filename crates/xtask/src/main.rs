//! The project's own tools: `cargo xtask`.

use clap::{Parser, Subcommand};
use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

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
    /// Runs everything beside the Go implementation. Needs Go. `interop --help` tells more.
    #[command(disable_help_flag = true)]
    Interop {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match Cli::parse().tool {
        Tool::Mutants(options) => mutants::main(&options),
        Tool::Interop { arguments } => run("interop", &arguments),
    }
}

/// Runs a tool that is a program of its own, so that the others are built without it.
fn run(package: &str, arguments: &[OsString]) -> ExitCode {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut tool = Command::new(cargo);
    tool.args(["run", "-q", "-p", package, "--"])
        .args(arguments);
    match tool.status() {
        // As a shell does: a program that a signal has ended has no code.
        Ok(status) => ExitCode::from(status.code().unwrap_or(128) as u8),
        Err(error) => {
            eprintln!("cannot run {tool:?}: {error}");
            ExitCode::FAILURE
        }
    }
}
