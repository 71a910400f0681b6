//! Side by side: the Go element and ours, each in pods of its own, in the same situations.
//!
//! Read it so: a `situation` says what happens, on a `stage`, which has `calls` to one of the two
//! elements; `pod` and `connection` are what it happens to, `picture` what stands, `figure` what is
//! counted; `table` is what `docs/compared-with-go.md` tells of the outcome.

mod busy;
mod calls;
mod connection;
mod figure;
mod picture;
mod pod;
mod situations;
mod stage;
mod table;

use crate::driver::Program;
use crate::page::Page;
use crate::programs::{self, Profile};
use clap::Args;
use figure::Figures;
use nsm_netlink::sandbox;
use serde::Serialize;
use situations::Situation;
use stage::Stage;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Plays situations to the Go element `iprule` and to `policyroute`, and compares what they leave
/// in the kernel.
///
/// What is counted must be right for ours, and is told for the Go one.
#[derive(Debug, Default, Args)]
pub(crate) struct Arguments {
    /// Only situations whose name or row (G-12) has this in it
    filter: Option<String>,

    /// Write all figures, and what stood in the end, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write what the Go element leaves into docs/compared-with-go.md
    #[arg(long, conflicts_with = "filter")]
    write: bool,
}

/// What came of a situation.
#[derive(Debug, Serialize)]
struct Outcome {
    situation: &'static str,
    rows: &'static [u8],
    go: Figures,
    here: Figures,
}

/// Whether all is right on our side.
pub(crate) fn run(arguments: &Arguments, programs: &Path) -> Result<bool, Error> {
    let chosen: Vec<&Situation> = situations::all()
        .filter(|situation| arguments.filter.as_ref().is_none_or(|f| situation.is(f)))
        .collect();
    if chosen.is_empty() {
        return Err("no situation has this in its name".into());
    }
    let go = Program::go(programs.join("drive"));
    let here = Program::ours(programs::ours(Profile::Debug)?);
    // What is written belongs to the user who asks, so it is opened before the sandbox is entered.
    let json = arguments.json.as_ref().map(File::create).transpose()?;
    let page = arguments.write.then(|| Page::open(table::MARKS));
    let page = page.transpose()?;
    sandbox::enter().map_err(|missing| missing.explain())?;

    let mut out = io::stdout();
    let mut outcomes = Vec::new();
    for situation in chosen {
        let outcome = Outcome {
            situation: situation.name,
            rows: situation.rows,
            go: play(situation, &go)?,
            here: play(situation, &here)?,
        };
        outcome.tell(&mut out)?;
        outcomes.push(outcome);
    }
    if let Some(json) = json {
        serde_json::to_writer_pretty(json, &outcomes)?;
    }
    if let Some(page) = page {
        page.rewrite(|between| table::rewritten(between, &outcomes))?;
    }
    Ok(outcomes.iter().all(|outcome| outcome.here.are_right()))
}

fn play(situation: &Situation, program: &Program) -> Result<Figures, Error> {
    let mut figures = Figures::default();
    for _ in 0..situation.rounds {
        let mut stage = Stage::new(program)?;
        (situation.play)(&mut stage).map_err(|error| format!("{}: {error}", situation.name))?;
        figures.merge(stage.finish());
    }
    Ok(figures)
}

impl Outcome {
    fn tell(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.situation)?;
        writeln!(out, "    Go    {}", self.go)?;
        for error in &self.go.errors {
            writeln!(out, "          {error}")?;
        }
        match self.here.are_right() {
            true => writeln!(out, "    here  right"),
            false => {
                writeln!(out, "    here  WRONG  {}", self.here)?;
                let more = self.here.errors.iter().chain(&self.here.stood);
                more.into_iter()
                    .try_for_each(|line| writeln!(out, "          {line}"))
            }
        }
    }
}
