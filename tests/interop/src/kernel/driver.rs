//! A driver: a process that holds one of the two elements.

use super::Error;
use super::connection::Connection;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long a call may take. The longest of those that end takes a twentieth of it.
const PATIENCE: Duration = Duration::from_secs(4);

/// A driver that runs.
#[derive(Debug)]
pub(crate) struct Driver {
    process: Child,
    input: ChildStdin,
    replies: Receiver<String>,
}

/// What is asked of a driver.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Op {
    Request(Connection),
    Close(Connection),
}

#[derive(Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Several<'o> {
    Parallel { ops: &'o [Op] },
    Series { ops: &'o [Op], repeat: usize },
}

/// What a driver answers to one call.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Answer {
    pub(crate) ok: bool,
    #[serde(default)]
    pub(crate) error: Option<String>,
    pub(crate) closed_below: u64,
    #[serde(default)]
    pub(crate) altered: bool,
}

#[derive(Deserialize)]
struct Answers {
    answers: Vec<Answer>,
}

/// What becomes of a call.
#[derive(Debug, Clone)]
pub(crate) enum Outcome<T> {
    Answered(T),
    /// It took longer than anybody waits.
    Endless,
    /// The process ended before it answered.
    Crashed,
}

impl Driver {
    pub(crate) fn start(program: &Path) -> Result<Self, Error> {
        let mut process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let input = process.stdin.take().ok_or("a driver without input")?;
        let output = process.stdout.take().ok_or("a driver without output")?;
        let (sender, replies) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for line in lines {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            process,
            input,
            replies,
        })
    }

    pub(crate) fn call(&mut self, op: &Op) -> Result<Outcome<Answer>, Error> {
        self.ask(op)
    }

    /// All at once.
    pub(crate) fn parallel(&mut self, ops: &[Op]) -> Result<Outcome<Vec<Answer>>, Error> {
        self.several(&Several::Parallel { ops })
    }

    /// One after another, again and again.
    pub(crate) fn series(
        &mut self,
        ops: &[Op],
        repeat: usize,
    ) -> Result<Outcome<Vec<Answer>>, Error> {
        self.several(&Several::Series { ops, repeat })
    }

    fn several(&mut self, line: &Several<'_>) -> Result<Outcome<Vec<Answer>>, Error> {
        Ok(match self.ask::<Answers>(line)? {
            Outcome::Answered(Answers { answers }) => Outcome::Answered(answers),
            Outcome::Endless => Outcome::Endless,
            Outcome::Crashed => Outcome::Crashed,
        })
    }

    fn ask<T: for<'a> Deserialize<'a>>(
        &mut self,
        line: &impl Serialize,
    ) -> Result<Outcome<T>, Error> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        if self.input.write_all(&line).is_err() {
            return Ok(Outcome::Crashed);
        }
        Ok(match self.replies.recv_timeout(PATIENCE) {
            Ok(reply) => Outcome::Answered(
                serde_json::from_str(&reply).map_err(|error| format!("{reply}: {error}"))?,
            ),
            Err(RecvTimeoutError::Timeout) => Outcome::Endless,
            Err(RecvTimeoutError::Disconnected) => Outcome::Crashed,
        })
    }

    /// How many of its descriptors are of namespaces.
    pub(crate) fn namespaces(&self) -> Result<usize, Error> {
        let mut count = 0;
        for descriptor in fs::read_dir(format!("/proc/{}/fd", self.process.id()))? {
            // One that has been closed meanwhile is of nothing.
            let target = fs::read_link(descriptor?.path());
            count += usize::from(target.is_ok_and(|to| to.to_string_lossy().starts_with("net:")));
        }
        Ok(count)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Whatever it is at: it would not hear of the end of its input.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
