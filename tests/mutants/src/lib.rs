//! Breaks the element and the programs on purpose, patch by patch, and tells which test notices.

mod error;
mod patch;
mod scratch;
mod tell;
mod test_command;

use clap::Args;
use error::Error;
use patch::Patch;
use scratch::Scratch;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tell::{Teller, Verdict};
use test_command::{Outcome, TestCommand};

/// The commands that a mutant of the element has to get by that names none, the fast ones first.
const TESTS: [&str; 6] = [
    "-p nsm-policyroute --lib",
    "-p policyroute-suite",
    "-p histories",
    "-p matrix",
    "-p scenarios",
    "-p kernel-suite",
];

/// What to run, and how to tell of it.
#[derive(Debug, Args)]
pub struct Options {
    /// Only the mutants whose name contains this
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the mutants and run none
    #[arg(long)]
    list: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// Go on after a mutant that survives or cannot be run
    #[arg(long)]
    keep_going: bool,
    /// Where sources are copied to and built
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// Exit status 0 when all were killed, 1 when one survives, 2 when one could not be run.
pub fn main(options: &Options) -> ExitCode {
    let mut teller = Teller::new(options.json);
    match run(options, &mut teller) {
        Ok(()) => teller.exit_code(),
        Err(error) => {
            teller.fail(&error);
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options, teller: &mut Teller) -> Result<(), Error> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wanted = |patch: &Patch| {
        let mut only = options.only.iter();
        options.only.is_empty() || only.any(|part| patch.name.contains(part.as_str()))
    };
    let mut patches = patch::all(&root.join("patches"))?;
    patches.retain(wanted);
    if patches.is_empty() {
        return Err(Error::NoSuchMutant);
    }
    if options.list {
        patches.iter().for_each(|patch| teller.list(patch));
        return Ok(());
    }
    let workspace = root.ancestors().nth(2).unwrap_or(root);
    let at = options.scratch.clone();
    let at = at.unwrap_or_else(|| workspace.join("target/mutants"));
    let scratch = Scratch::copy(workspace, &at)?;
    // A patch that no longer applies is told before the first minute is spent.
    for patch in &patches {
        scratch.check(patch)?;
    }
    let clean = clean(&scratch, &patches, teller)?;
    for patch in &patches {
        let start = Instant::now();
        let former = scratch.apply(patch)?;
        let verdict = judge(&scratch, patch, &clean);
        former.restore()?;
        let killed = matches!(verdict, Verdict::Killed { .. });
        teller.judged(patch, verdict, start.elapsed());
        if !killed && !options.keep_going {
            break;
        }
    }
    teller.sum_up(patches.len());
    Ok(())
}

/// How long each command takes where nothing is broken. A test that fails there kills nothing.
fn clean(
    scratch: &Scratch,
    patches: &[Patch],
    teller: &Teller,
) -> Result<BTreeMap<TestCommand, Duration>, Error> {
    let mut clean = BTreeMap::new();
    for command in patches.iter().flat_map(commands) {
        if clean.contains_key(&command) {
            continue;
        }
        teller.progress(&format!("clean tree: cargo test {command}"));
        command.build(scratch)?;
        let start = Instant::now();
        match command.run(scratch, None)? {
            Outcome::Passed => clean.insert(command, start.elapsed()),
            Outcome::Failed(by) => return Err(Error::NotClean { by }),
        };
    }
    Ok(clean)
}

fn judge(scratch: &Scratch, patch: &Patch, clean: &BTreeMap<TestCommand, Duration>) -> Verdict {
    let killer = || {
        for command in commands(patch) {
            command.build(scratch)?;
            if let Outcome::Failed(by) = command.run(scratch, clean.get(&command).copied())? {
                return Ok(Some(by));
            }
        }
        Ok(None)
    };
    match killer() {
        Ok(Some(by)) => Verdict::Killed { by },
        Ok(None) => Verdict::Survived,
        Err(error) => Verdict::NotRun(error),
    }
}

/// The commands that a patch names, or those of the element.
fn commands(patch: &Patch) -> Vec<TestCommand> {
    if patch.tests.is_empty() {
        return TESTS.map(TestCommand::new).to_vec();
    }
    patch.tests.clone()
}
