//! Many histories, and the shortest of those that do not hold.

use crate::play::{Failure, History, play};
use crate::strategy::histories;
use crate::tally::Census;
use policyroute_suite::Machine;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// How many histories are played, and how long they are.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// How many, where `NSM_HISTORIES` does not say otherwise.
    pub histories: u32,
    /// The most steps of one.
    pub steps: usize,
    /// How many shorter ones are tried once one does not hold.
    pub shrinks: u32,
}

/// Plays histories that the seed `NSM_SEED` gives (1, if it is not set): the same ones each time.
///
/// # Errors
/// When one does not hold: what does not, and where the shortest such history has been written,
/// which is in `folder` where `NSM_HISTORY_FILE` does not say otherwise.
pub fn run<M: Machine>(extent: Extent, folder: &Path) -> Result<Census, String> {
    let seed = number("NSM_SEED")?.unwrap_or(1);
    let asked = number("NSM_HISTORIES")?.map(|asked| u32::try_from(asked).unwrap_or(u32::MAX));
    let config = Config {
        cases: asked.unwrap_or(extent.histories),
        failure_persistence: None,
        max_shrink_iters: extent.shrinks,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let (census, last) = (RefCell::new(Census::default()), RefCell::new(String::new()));
    let outcome = runner.run(&histories(extent.steps), |history| {
        let tally = play::<M>(&history).map_err(|failure| {
            last.replace(failure.scenario);
            TestCaseError::fail("it does not hold")
        })?;
        census.borrow_mut().add(&tally);
        Ok(())
    });
    match outcome {
        Ok(()) => Ok(census.into_inner()),
        Err(TestError::Fail(_, history)) => {
            let place = folder.join(format!("history-{}-{seed}.yaml", M::NAME));
            Err(shortest::<M>(history).map_or_else(
                || {
                    format!(
                        "it does not hold, and holds when it is played again:\n{}",
                        last.take()
                    )
                },
                |failure| tell(&place, &failure),
            ))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Leaves out every single step that need not be there. The runner tries each once only, and some
/// can be left out when others have been.
fn shortest<M: Machine>(mut history: History) -> Option<Failure> {
    let mut failure = play::<M>(&history).err()?;
    let mut at = history.steps.len();
    while let Some(before) = at.checked_sub(1) {
        at = before;
        let mut shorter = history.clone();
        shorter.steps.remove(at);
        if let Err(found) = play::<M>(&shorter) {
            failure = found;
            history = shorter;
            at = history.steps.len();
        }
    }
    Some(failure)
}

fn number(name: &str) -> Result<Option<u64>, String> {
    let read = |text: String| {
        text.parse()
            .map_err(|error| format!("{name}={text}: {error}"))
    };
    env::var(name).ok().map(read).transpose()
}

/// Writes the history down.
fn tell(place: &Path, failure: &Failure) -> String {
    let place = env::var_os("NSM_HISTORY_FILE").map_or_else(|| place.to_owned(), PathBuf::from);
    let written = match fs::write(&place, &failure.scenario) {
        Ok(()) => format!("the shortest history is in {}", place.display()),
        Err(error) => format!("{} cannot be written: {error}", place.display()),
    };
    format!("{written}\n{}", failure.scenario)
}
