//! Every scenario file of the project is a test of its own name: on the real kernel, and on the
//! fake one where no step needs a shell.

use kernel_suite::sandbox;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use scenarios::{FILES, Kernel, Scenario, Style, Verdict, play};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // Before the first thread.
    let sandbox = match sandbox::enter_or_skip("scenarios on the real kernel") {
        Ok(sandbox) => sandbox,
        Err(missing) => {
            #[allow(clippy::print_stderr)] // It is for whoever runs the tests, and no log.
            {
                eprintln!("no sandbox for the real kernel: {}", missing.explain());
            }
            return ExitCode::FAILURE;
        }
    };
    let trials = FILES
        .iter()
        .flat_map(|&(file, text)| trials(file, text, sandbox))
        .collect();
    let conclusion: Conclusion = libtest_mimic::run(&arguments, trials);
    conclusion.exit_code()
}

fn trials(file: &'static str, text: &'static str, sandbox: bool) -> Vec<Trial> {
    let stem = file.trim_start_matches("files/").trim_end_matches(".yaml");
    let on_fake = Scenario::parse(file, text).is_ok_and(|scenario| !scenario.needs_shell());
    let real = Trial::test(format!("kernel::{stem}"), move || {
        run(file, text, Kernel::Real)
    })
    .with_ignored_flag(!sandbox);
    let fake = Trial::test(format!("fake::{stem}"), move || {
        run(file, text, Kernel::Fake)
    });
    std::iter::once(real)
        .chain(on_fake.then_some(fake))
        .collect()
}

fn run(file: &str, text: &str, kernel: Kernel) -> Result<(), Failed> {
    let scenario = Scenario::parse(file, text)?;
    let outcome = play(file, text, &scenario, kernel, fastrand::u64(..))?;
    match outcome.verdict {
        Verdict::Held => Ok(()),
        _ => Err(outcome.text(Style::Plain).into()),
    }
}
