//! Runs scenario files.

use clap::{Parser, ValueEnum};
use kernel_suite::sandbox;
use scenarios::{FILES, Kernel, Scenario, Style, Unreadable, Verdict, play, unreadable_json};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs scenario files: what happens to a pod, and what must stand afterwards.
///
/// Exit status: 0 all held, 1 some did not, 2 a file could not be read.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Scenario files, or folders of them (*.yaml, also in folders within); none runs the
    /// project's own, which are built in.
    #[arg(value_name = "FILE_OR_FOLDER")]
    paths: Vec<PathBuf>,

    /// Say what each file shows, and run none.
    #[arg(long)]
    list: bool,

    /// Print one JSON object per file.
    #[arg(long)]
    json: bool,

    /// The kernel to run on. The fake one has no shell: files with a `run` are skipped there.
    #[arg(long, value_enum, default_value_t = KernelName::Real)]
    kernel: KernelName,

    /// Interleave branches that run at the same time as in a run that printed this number.
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KernelName {
    Real,
    Fake,
}

/// A file and what is in it.
type File = Result<(String, String, Scenario), Unreadable>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // What is read belongs to the user who asks, so it is read before the sandbox is entered.
    match run(&arguments, &files(&arguments.paths)) {
        Ok(status) => status,
        // The reader has gone away, as with `| head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string()),
    }
}

fn run(arguments: &Arguments, files: &[File]) -> io::Result<ExitCode> {
    let mut out = io::stdout();
    let coloured = out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let style = if coloured {
        Style::Coloured
    } else {
        Style::Plain
    };
    let kernel = match arguments.kernel {
        KernelName::Real => Kernel::Real,
        KernelName::Fake => Kernel::Fake,
    };
    let runs_any = files.iter().any(Result::is_ok) && !arguments.list;
    if kernel == Kernel::Real && runs_any {
        // Before the first thread: a process with threads cannot enter a user namespace.
        if let Err(missing) = sandbox::enter() {
            let missing = missing.explain();
            return Ok(complain(&format!(
                "no sandbox for the real kernel: {missing}"
            )));
        }
    }
    let (mut unreadable, mut failed) = (false, false);
    for file in files {
        let (name, text, scenario) = match file {
            Ok(file) => file,
            Err(error) => {
                unreadable = true;
                if arguments.json {
                    writeln!(out, "{}", unreadable_json(error))?;
                } else {
                    complain(&error.to_string());
                }
                continue;
            }
        };
        if arguments.list {
            writeln!(out, "{name}: {}", scenario.name)?;
            continue;
        }
        let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
        let outcome = play(name, text, scenario, kernel, seed)?;
        failed |= matches!(outcome.verdict, Verdict::Failed(_));
        if arguments.json {
            writeln!(out, "{}", outcome.json())?;
        } else {
            write!(out, "{}", outcome.text(style))?;
        }
    }
    Ok(ExitCode::from(match (unreadable, failed) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    }))
}

fn complain(message: &str) -> ExitCode {
    #[allow(clippy::print_stderr)] // It is for whoever calls the program, and no log.
    {
        eprintln!("{message}");
    }
    ExitCode::FAILURE
}

fn files(paths: &[PathBuf]) -> Vec<File> {
    if paths.is_empty() {
        let read = |&(name, text): &(&str, &str)| {
            Scenario::parse(name, text).map(|scenario| (name.to_owned(), text.to_owned(), scenario))
        };
        return FILES.iter().map(read).collect();
    }
    paths.iter().flat_map(|path| files_of(path)).collect()
}

fn files_of(path: &Path) -> Vec<File> {
    let mut found = Vec::new();
    let looked = if path.is_dir() {
        collect(path, &mut found)
    } else {
        Ok(())
    };
    let unreadable = |message: String| Unreadable {
        file: path.display().to_string(),
        place: None,
        message,
    };
    match looked {
        Err(error) => vec![Err(unreadable(error.to_string()))],
        Ok(()) if !path.is_dir() => vec![read(path)],
        Ok(()) if found.is_empty() => vec![Err(unreadable("no *.yaml in it".to_owned()))],
        Ok(()) => found.iter().map(|path| read(path)).collect(),
    }
}

fn read(path: &Path) -> File {
    Scenario::read(path).map(|(text, scenario)| (path.display().to_string(), text, scenario))
}

/// The scenario files in a folder and in the folders within, by name.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, found)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            found.push(path);
        }
    }
    Ok(())
}
