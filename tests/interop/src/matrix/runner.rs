//! Runs trials beside one another: most of one is to wait for others.

use super::behaviour;
use super::{Outcome, Trial};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// What became of a trial.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(super) trial: Trial,
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
}

/// Runs all, so many at once, and gives their results in the same order.
pub(super) fn run(programs: &Path, trials: &[Trial], jobs: usize) -> Vec<Ended> {
    let waiting = Mutex::new(trials.iter().copied().enumerate());
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, trials.len()) {
            scope.spawn(|| {
                // The lock is held for a moment only.
                let next = || waiting.lock().unwrap().next();
                while let Some((number, trial)) = next() {
                    let ended = run_one(programs, trial);
                    eprintln!("{}", told(&ended));
                    results.lock().unwrap().push((number, ended));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, ended)| ended).collect()
}

fn run_one(programs: &Path, trial: Trial) -> Ended {
    let start = Instant::now();
    // A trial that fails panics, as tests do.
    let result = catch_unwind(AssertUnwindSafe(|| behaviour::run(programs, trial)));
    Ended {
        trial,
        outcome: result.unwrap_or_else(|fault| Outcome::Failed(message(&*fault))),
        took: start.elapsed(),
    }
}

fn message(fault: &(dyn Any + Send)) -> String {
    let text = fault.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| fault.downcast_ref::<&str>().copied());
    text.unwrap_or("it has panicked").to_owned()
}

fn told(ended: &Ended) -> String {
    let outcome = match ended.outcome {
        Outcome::Holds => "ok",
        Outcome::Impossible(_) => "impossible",
        Outcome::Failed(_) => "FAILED",
    };
    let name = ended.trial.name();
    format!("{name} ... {outcome} ({:.1} s)", ended.took.as_secs_f64())
}
