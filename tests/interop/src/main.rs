//! Beside the Go implementation: `cargo xtask interop`.

#![cfg(target_os = "linux")]

mod driver;
mod kernel;
mod matrix;
mod page;
mod programs;
mod record;
mod time;

use clap::{Parser, Subcommand};
use std::env;
use std::error::Error;
use std::process::{Command, ExitCode};

/// Runs the Rust programs and the Go programs together, and compares what they leave.
///
/// Needs Go 1.24 or later, and the right to make network namespaces. Without a part, all of them
/// are run.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask interop", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,

    /// Show only that time and memory can be measured
    #[arg(long)]
    quick: bool,

    /// Write docs/compared-with-go.md anew
    #[arg(long, conflicts_with = "quick")]
    write: bool,
}

#[derive(Debug, Subcommand)]
enum Part {
    Golden(record::Arguments),
    Kernel(kernel::Arguments),
    Matrix(matrix::Arguments),
    Time(time::Arguments),
}

fn main() -> ExitCode {
    if let Some(program) = e2e::called_as() {
        return program();
    }
    match run(Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            tell(&*error);
            ExitCode::from(2)
        }
    }
}

/// What went wrong, and why.
fn tell(error: &(dyn Error + 'static)) {
    eprint!("{error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprint!(": {error}");
        cause = error.source();
    }
    eprintln!();
}

/// Whether all of it holds.
fn run(cli: Cli) -> Result<bool, Box<dyn Error + Send + Sync>> {
    // Outside of any namespace: modules are fetched.
    let programs = programs::go()?;
    match cli.part {
        Some(Part::Golden(arguments)) => record::run(&arguments, &programs),
        Some(Part::Kernel(arguments)) => kernel::run(&arguments, &programs),
        Some(Part::Matrix(arguments)) => matrix::run(&arguments, &programs),
        Some(Part::Time(arguments)) => time::run(&arguments, &programs),
        None => all(cli.quick, cli.write),
    }
}

/// Runs every part in a process of its own, for each has a sandbox of its own. One that fails
/// keeps no other from being run.
fn all(quick: bool, write: bool) -> Result<bool, Box<dyn Error + Send + Sync>> {
    let mut holds = true;
    // The bytes are kept elsewhere than on the page, and nobody means them in passing.
    for (part, measures, has_a_page) in [
        ("golden", false, false),
        ("kernel", false, true),
        ("matrix", false, false),
        ("time", true, true),
    ] {
        eprintln!("== {part}");
        let mut run = Command::new(env::current_exe()?);
        run.arg(part);
        run.args((quick && measures).then_some("--quick"));
        run.args((write && has_a_page).then_some("--write"));
        holds &= run.status()?.success();
    }
    Ok(holds)
}
