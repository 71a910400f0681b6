//! How long each of the two elements takes, and how much memory, side by side in one run.

mod calls;
mod fleet;
mod measure;
mod row;
mod table;

use crate::driver::Program;
use crate::page::Page;
use crate::programs::{self, Profile};
use clap::Args;
use measure::{Sides, idle, of_one_connection, restart};
use nsm_netlink::sandbox;
use row::Row;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Measures the Go element `iprule` and `policyroute` in turn: how long each takes, and how much
/// memory.
///
/// It takes about ten minutes, and tells little on a machine that does something else meanwhile.
#[derive(Debug, Default, Args)]
pub(crate) struct Arguments {
    /// Measure fewer rounds, no more than 100 policies or namespaces, and a debug build of ours: this
    /// shows that it can be measured, and no figure of it counts
    #[arg(long)]
    quick: bool,

    /// Write the rows, with the figure of each round, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the table into docs/compared-with-go.md
    #[arg(long, conflicts_with = "quick")]
    write: bool,
}

/// Whether all that ours was asked for stands: a time of what went wrong tells nothing.
pub(crate) fn run(arguments: &Arguments, programs: &Path) -> Result<bool, Error> {
    let profile = match arguments.quick {
        true => Profile::Debug,
        false => Profile::Release,
    };
    let sides = Sides {
        go: Program::go(programs.join("drive")),
        ours: Program::ours(programs::ours(profile)?),
    };
    // What is written belongs to the user who asks, so it is opened before the sandbox is entered.
    let json = arguments.json.as_ref().map(File::create).transpose()?;
    let page = arguments.write.then(|| Page::open(table::MARKS));
    let page = page.transpose()?;
    sandbox::enter().map_err(|missing| missing.explain())?;
    allow_descriptors()?;

    let rows = measured(&sides, arguments.quick)?;
    let table = table::of(&rows)?;
    writeln!(io::stdout(), "{table}")?;
    if arguments.quick {
        writeln!(
            io::stdout(),
            "Ours is a debug build here: none of these figures counts."
        )?;
    }
    if let Some(json) = json {
        serde_json::to_writer_pretty(json, &rows)?;
    }
    if let Some(page) = page {
        page.rewrite(|_| Ok(format!("\n\n{table}\n")))?;
    }
    Ok(rows.iter().all(Row::is_right))
}

fn measured(sides: &Sides, quick: bool) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (policies, rounds) in [(1, 60), (4, 60), (100, 20), (1000, 3)] {
        if quick && policies > 100 {
            continue;
        }
        let rounds = if quick { rounds / 6 } else { rounds };
        eprintln!("a connection of {policies}: {rounds} rounds");
        rows.extend(of_one_connection(sides, policies, rounds)?);
    }
    for (namespaces, rounds) in [(100, 12), (1000, 5)] {
        if quick && namespaces > 100 {
            continue;
        }
        let (firsts, rounds) = if quick { (1, 3) } else { (3, rounds) };
        eprintln!("a restart beside {namespaces} namespaces: {rounds} rounds");
        rows.extend(restart(sides, namespaces, firsts, rounds)?);
    }
    rows.push(idle(sides, if quick { 3 } else { 12 })?);
    Ok(rows)
}

/// The Go element keeps descriptors, and each namespace is one of ours.
fn allow_descriptors() -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    Ok(setrlimit(Resource::Nofile, most)?)
}
