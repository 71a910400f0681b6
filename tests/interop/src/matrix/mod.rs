//! {Go, Rust} client x {Go, Rust} forwarder x {Go, Rust} endpoint.

// What fails here fails a trial, and tells on standard error.
#![allow(clippy::unwrap_used)]

mod behaviour;
mod cell;
mod monitor;
mod pod;
mod report;
mod runner;
mod sandbox;
mod stage;

use behaviour::Behaviour;
use cell::Cell;
use clap::Args;
use std::error::Error;
use std::path::Path;

/// Runs every combination of a client, a forwarder and an endpoint of both, in all behaviours
///
/// Needs root.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What of the matrix: names that have this in them, as
    /// go_client_rust_forwarder_go_endpoint::endpoint_killed
    filter: Option<String>,

    /// Print one JSON object in place of the table
    #[arg(long)]
    json: bool,

    /// Print the names only
    #[arg(long)]
    list: bool,

    /// How many run at once: with more of them, answers come late
    #[arg(long, value_name = "N", default_value = "4")]
    jobs: usize,
}

/// One behaviour of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trial {
    cell: Cell,
    behaviour: Behaviour,
}

impl Trial {
    fn name(self) -> String {
        format!("{}::{}", self.cell.name(), self.behaviour.name())
    }
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// It holds.
    Holds,
    /// It cannot hold, as was shown, for this reason.
    Impossible(&'static str),
    /// It does not hold, and this is what was seen.
    Failed(String),
}

/// Runs it, and tells whether all holds that can.
pub(crate) fn run(
    arguments: &Arguments,
    programs: &Path,
) -> Result<bool, Box<dyn Error + Send + Sync>> {
    let all = Cell::all().into_iter().flat_map(|cell| {
        let behaviours = Behaviour::ALL.into_iter();
        behaviours.map(move |behaviour| Trial { cell, behaviour })
    });
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let trials: Vec<_> = all.filter(|it| it.name().contains(filter)).collect();
    if trials.is_empty() {
        return Err(format!("nothing of the matrix has {filter:?} in its name").into());
    }
    let mut out = std::io::stdout();
    if arguments.list {
        report::list(&mut out, &trials)?;
        return Ok(true);
    }
    // Before the first thread.
    sandbox::enter()?;
    let results = runner::run(programs, &trials, arguments.jobs);
    match arguments.json {
        true => report::json(&mut out, &results)?,
        false => report::table(&mut out, &results)?,
    }
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
    Ok(!results.iter().any(|it| failed(&it.outcome)))
}
