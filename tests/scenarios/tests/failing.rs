//! The runner must be able to fail: each file in `failing/` is wrong in one way, and says in its
//! first line where and how: `# fails at STEP: MESSAGE`.

use libtest_mimic::{Arguments, Failed, Trial};
use scenarios::{FAILING, Kernel, Scenario, Verdict, play};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = FAILING
        .iter()
        .map(|&(file, text)| {
            let stem = file
                .trim_start_matches("failing/")
                .trim_end_matches(".yaml");
            Trial::test(stem, move || fails_as_it_says(file, text))
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn fails_as_it_says(file: &str, text: &str) -> Result<(), Failed> {
    let first = text.lines().next().unwrap_or_default();
    let (step, message) = first
        .strip_prefix("# fails at ")
        .and_then(|rest| rest.split_once(": "))
        .ok_or("the first line does not say how the file fails")?;
    let scenario = Scenario::parse(file, text)?;
    let outcome = play(file, text, &scenario, Kernel::Fake, 1)?;
    let Verdict::Failed(failure) = outcome.verdict else {
        return Err("it does not fail".into());
    };
    let told = |problem: &scenarios::Problem| {
        let lines = problem.expected.iter().flatten().chain(&problem.found);
        std::iter::once(&problem.what)
            .chain(lines)
            .any(|line| line.contains(message))
    };
    if failure.step == step && failure.problems.iter().any(told) {
        return Ok(());
    }
    Err(format!("it fails otherwise: {failure:#?}").into())
}
