//! Test commands, run until the first test fails.

use super::error::Error;
use super::scratch::Scratch;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What is given to `cargo test`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestCommand(String);

/// What a test command has come to.
#[derive(Debug)]
pub enum Outcome {
    /// All tests are green.
    Passed,
    /// The first test that is not, or what went wrong otherwise.
    Failed(String),
}

impl TestCommand {
    pub fn new(args: &str) -> Self {
        Self(args.to_owned())
    }

    /// Builds the tests. A mutant that does not compile has not been killed by any.
    pub fn build(&self, scratch: &Scratch) -> Result<(), Error> {
        let output = self
            .cargo(scratch, &["--no-run", "--quiet"])
            .output()
            .map_err(Error::program("cargo"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Compile {
            command: self.to_string(),
            reason: first_error(&String::from_utf8_lossy(&output.stderr)),
        })
    }

    /// Runs the tests. `clean` is how long they take where nothing is broken.
    pub fn run(&self, scratch: &Scratch, clean: Option<Duration>) -> Result<Outcome, Error> {
        let mut child = self
            .cargo(scratch, &[])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(Error::program("cargo"))?;
        let by = first_failure(&mut child, clean.map(patience));
        if let Some(by) = by {
            end(&mut child)?;
            return Ok(Outcome::Failed(by));
        }
        let status = child.wait().map_err(Error::program("cargo"))?;
        Ok(if status.success() {
            Outcome::Passed
        } else {
            Outcome::Failed(format!("a crash of {self}"))
        })
    }

    /// `flags` are cargo's: what the command itself has behind `--` is the tests'.
    fn cargo(&self, scratch: &Scratch, flags: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .arg("test")
            .args(flags)
            .args(self.0.split_whitespace())
            .current_dir(&scratch.source)
            .env("CARGO_TARGET_DIR", &scratch.target)
            // Where the real kernel's half is skipped a mutant would survive that it kills.
            .env("NSM_REQUIRE_NETNS", "1")
            // A mutant may leave something unused, which is no error here.
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTFLAGS");
        command
    }
}

impl fmt::Display for TestCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A mutant may make a test wait for ever; a busy machine makes all of them slow.
fn patience(clean: Duration) -> Duration {
    clean * 5 + Duration::from_secs(60)
}

/// Reads what the tests say until one has failed or they end.
fn first_failure(child: &mut Child, patience: Option<Duration>) -> Option<String> {
    let stdout = BufReader::new(child.stdout.take()?);
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = stdout.lines().map_while(Result::ok);
        lines.try_for_each(|line| sender.send(line))
    });
    let start = Instant::now();
    loop {
        let line = match patience {
            Some(patience) => lines.recv_timeout(patience.saturating_sub(start.elapsed())),
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match line {
            Ok(line) => {
                if let Some(test) = failed(&line) {
                    return Some(test.to_owned());
                }
            }
            Err(RecvTimeoutError::Timeout) => return Some("a test that does not end".to_owned()),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// The first of what the compiler complains about.
fn first_error(stderr: &str) -> String {
    let lines = stderr.lines().skip_while(|line| !line.starts_with("error"));
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        stderr.to_owned()
    } else {
        lines.join("\n")
    }
}

/// The test that a line says has failed.
fn failed(line: &str) -> Option<&str> {
    let test = line.strip_prefix("test ")?;
    let (test, result) = test.rsplit_once(" ... ")?;
    result.starts_with("FAILED").then(|| test.trim())
}

/// Ends the tests with all processes that they have started.
fn end(child: &mut Child) -> Result<(), Error> {
    let group = format!("-{}", child.id());
    let kill = Command::new("kill")
        .args(["-KILL", "--", &group])
        .stderr(Stdio::null())
        .status();
    kill.map_err(Error::program("kill"))?;
    child.wait().map_err(Error::program("cargo"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_fails_is_known_by_its_line() {
        assert_eq!(failed("test a::b ... FAILED"), Some("a::b"));
        assert_eq!(failed("test fake::c      ... FAILED"), Some("fake::c"));
        assert_eq!(failed("test a::b ... ok"), None);
        assert_eq!(failed("test result: FAILED. 1 passed; 1 failed"), None);
    }
}
