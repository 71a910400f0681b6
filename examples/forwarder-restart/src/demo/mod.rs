//! `run` is the story. `topology` says what is set up, `world` makes the namespaces and links,
//! `foreign` puts rules of others beside ours. `forwarder` is the chain with the middleware,
//! `recreate` what it is held against. `traffic` sends `datagram`s and sees where they come out,
//! `events` hears of rules, `state` reads what stands. `course`, `tally` and `verdict` judge, `report`
//! prints.

mod cli;
mod course;
mod datagram;
mod events;
mod foreign;
mod forwarder;
mod interrupt;
mod progress;
mod recreate;
mod report;
mod run;
mod state;
mod tally;
mod topology;
mod traffic;
mod verdict;
mod world;

use clap::{ColorChoice, Parser};
use cli::Arguments;
use nsm_chain::ErrorChain;
use nsm_netlink::sandbox;
use progress::Progress;
use run::{Interrupted, Outcome};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Parses, runs, prints, and gives the exit status.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Before there is a second thread: such a process cannot enter a user namespace.
    if let Err(missing) = sandbox::enter() {
        return cannot_run(&missing.explain());
    }
    match shown(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) if error.is::<Interrupted>() => {
            complain(&error.to_string());
            ExitCode::from(interrupt::STATUS)
        }
        Err(error) => cannot_run(&ErrorChain(error.as_ref()).to_string()),
    }
}

/// Runs the demo, prints what it found, and tells whether all is well.
fn shown(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let interrupted = interrupt::watch()?;
    let mut progress = Progress::of(arguments.restarts);
    let outcome = run::run(arguments, &interrupted, &mut progress)?;
    drop(progress);
    print(arguments, &outcome)?;
    Ok(outcome.findings.faults().is_empty())
}

fn print(arguments: &Arguments, outcome: &Outcome) -> io::Result<()> {
    let choice = match arguments.color {
        ColorChoice::Auto => anstream::AutoStream::choice(&io::stdout()),
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    let mut stdout = anstream::AutoStream::new(io::stdout().lock(), choice);
    if arguments.json {
        report::json(&mut stdout, outcome)?;
    } else {
        report::text(&mut stdout, outcome)?;
    }
    stdout.flush()
}

fn cannot_run(why: &str) -> ExitCode {
    complain(why);
    ExitCode::from(2)
}

/// What cannot be written is lost: there is nobody else to tell.
fn complain(what: &str) {
    writeln!(io::stderr(), "forwarder-restart: {what}").ok();
}
