//! One scenario from its beginning to its end, in a runtime of its own with a clock of its own.

use crate::engine::Engine;
use crate::model::Scenario;
use crate::report::{Failure, Outcome, Verdict};
use crate::warnings::Warnings;
use crate::world::{FakePod, Pod, RealPod};
use std::io;
use std::time::Instant;
use tokio::runtime::Builder;

/// The kernel that scenarios run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The one of this machine.
    Real,
    /// The one in memory.
    Fake,
}

impl Kernel {
    fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Fake => "fake",
        }
    }
}

/// Plays a scenario. `source` is the text that it was read from, `seed` decides how branches that
/// run at the same time interleave.
///
/// # Errors
/// When the system gives no runtime.
pub fn play(
    file: &str,
    source: &str,
    scenario: &Scenario,
    kernel: Kernel,
    seed: u64,
) -> io::Result<Outcome> {
    let begun = Instant::now();
    let verdict = match kernel {
        Kernel::Fake if scenario.needs_shell() => {
            Verdict::Skipped("a step needs a shell, which the fake kernel has not".to_owned())
        }
        Kernel::Fake => verdict(play_on::<FakePod>(source, scenario, seed)?),
        Kernel::Real => verdict(play_on::<RealPod>(source, scenario, seed)?),
    };
    Ok(Outcome {
        file: file.to_owned(),
        name: scenario.name.clone(),
        kernel: kernel.name(),
        seed,
        elapsed: begun.elapsed(),
        verdict,
    })
}

fn verdict(result: Result<(), Failure>) -> Verdict {
    result.map_or_else(
        |failure| Verdict::Failed(Box::new(failure)),
        |()| Verdict::Held,
    )
}

fn play_on<P: Pod>(
    source: &str,
    scenario: &Scenario,
    seed: u64,
) -> io::Result<Result<(), Failure>> {
    let warnings = Warnings::default();
    let collector = warnings.collector();
    let for_threads = collector.clone();
    // The clock is paused: it jumps to the next timer when nobody has anything to do, so that time
    // costs no time, and it stands while the kernel is worked on.
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_start(move || {
            // For the thread's whole life, which the runtime ends.
            std::mem::forget(tracing::dispatcher::set_default(&for_threads));
        })
        .build()?;
    Ok(tracing::dispatcher::with_default(&collector, || {
        runtime.block_on(async {
            let engine = Engine::<P>::new(scenario, source, warnings, seed)?;
            engine.play().await
        })
    }))
}
