//! Random histories on the fake and on the real kernel.
//!
//! `NSM_HISTORIES=N` sets how many, `NSM_SEED=N` which ones, `NSM_HISTORY_FILE=PATH` where one that
//! does not hold is written to.

use histories::{Census, Extent, run};
use kernel_suite::sandbox::{self, Missing};
use libtest_mimic::{Arguments, Failed, Trial};
use policyroute_suite::{Fake, Real};
use std::path::Path;
use std::process::ExitCode;

const ON_THE_FAKE: Extent = Extent {
    histories: 1500,
    steps: 32,
    shrinks: 20_000,
};
const ON_THE_REAL: Extent = Extent {
    histories: 60,
    steps: 16,
    shrinks: 400,
};

fn main() -> Result<ExitCode, Missing> {
    let sandboxed = sandbox::enter_or_skip("random histories on the real kernel")?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut trials = vec![Trial::test(
        "fake::histories_hold_and_cover_the_contract",
        move || covers(&run::<Fake>(ON_THE_FAKE, folder)?),
    )];
    if sandboxed {
        trials.push(Trial::test("kernel::histories_hold", move || {
            run::<Real>(ON_THE_REAL, folder)?;
            Ok(())
        }));
    }
    Ok(libtest_mimic::run(&Arguments::from_args(), trials).exit_code())
}

/// A history that nothing happens in proves nothing.
fn covers(census: &Census) -> Result<(), Failed> {
    const ONE_IN: usize = 50;
    match census.rare(ONE_IN) {
        rare if rare.is_empty() => Ok(()),
        rare => Err(format!("too rare:\n  {}\n{census}", rare.join("\n  ")).into()),
    }
}
