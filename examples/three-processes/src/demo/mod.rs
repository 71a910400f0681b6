//! `run` is the story. `setting` says who there is and with which settings, `world` makes their
//! namespaces, `programs` starts and ends them. `traffic` asks the same address from the source of
//! every policy and sees who answers, `events` hears of rules, `state` reads what stands, `report`
//! prints.

mod cli;
mod events;
mod interrupt;
mod programs;
mod report;
mod run;
mod setting;
mod state;
mod traffic;
mod world;

use clap::Parser;
use cli::Arguments;
use interrupt::{InVain, Interrupted};
use nsm_chain::ErrorChain;
use nsm_netlink::sandbox;
use programs::NotWell;
use std::io::{self, Write};
use std::process::ExitCode;

/// Parses, runs, prints, and gives the exit status; or is one of the programs.
pub fn main() -> ExitCode {
    if let Some(program) = programs::called_as() {
        return program();
    }
    let arguments = Arguments::parse();
    // Before there is a second thread: such a process cannot enter a user namespace.
    if let Err(missing) = sandbox::enter() {
        return cannot_run(&missing.explain());
    }
    match run::run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) if error.is::<Interrupted>() => {
            complain(&error.to_string());
            ExitCode::from(interrupt::STATUS)
        }
        Err(error) => {
            let why = ErrorChain(error.as_ref()).to_string();
            if error.is::<InVain>() || error.is::<NotWell>() {
                complain(&why);
                return ExitCode::from(1);
            }
            cannot_run(&why)
        }
    }
}

fn cannot_run(why: &str) -> ExitCode {
    complain(why);
    ExitCode::from(2)
}

/// What cannot be written is lost: there is nobody else to tell.
fn complain(what: &str) {
    writeln!(io::stderr(), "three-processes: {what}").ok();
}
