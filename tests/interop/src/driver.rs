//! A driver: a process that holds one of the two elements.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::error::Error;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

type Failure = Box<dyn Error + Send + Sync>;

/// Which of the two, and where it is.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// How an error calls it.
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
}

/// A driver that runs.
#[derive(Debug)]
pub(crate) struct Driver {
    name: &'static str,
    process: Child,
    input: ChildStdin,
    replies: Receiver<String>,
}

/// What a driver answers to one call.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Answer {
    pub(crate) ok: bool,
    /// How long the chain took, in microseconds.
    pub(crate) us: f64,
    #[serde(default)]
    pub(crate) error: Option<String>,
    pub(crate) closed_below: u64,
    #[serde(default)]
    pub(crate) altered: bool,
}

/// What a driver answers to several calls.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Answers {
    /// How long all of it took.
    pub(crate) us: f64,
    pub(crate) answers: Vec<Answer>,
}

/// What becomes of what was asked.
#[derive(Debug, Clone)]
pub(crate) enum Outcome<T> {
    Answered(T),
    /// It took longer than anybody waits.
    Endless,
    /// The process ended before it answered.
    Crashed,
}

impl Program {
    pub(crate) fn go(path: PathBuf) -> Self {
        let name = "the Go driver";
        Self { name, path }
    }

    pub(crate) fn ours(path: PathBuf) -> Self {
        let name = "our driver";
        Self { name, path }
    }
}

impl Driver {
    pub(crate) fn start(program: &Program) -> Result<Self, Failure> {
        let Program { name, path } = program;
        let mut process = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {name}, {}: {error}", path.display()))?;
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
            name,
            process,
            input,
            replies,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Writes a line, and waits so long for what it is answered.
    pub(crate) fn ask<T: DeserializeOwned>(
        &mut self,
        line: &impl Serialize,
        limit: Duration,
    ) -> Result<Outcome<T>, Failure> {
        let line = serde_json::to_value(line)?;
        if writeln!(self.input, "{line}").is_err() {
            return Ok(Outcome::Crashed);
        }
        Ok(match self.replies.recv_timeout(limit) {
            Ok(reply) => Outcome::Answered(
                serde_json::from_str(&reply)
                    .map_err(|error| self.error(&line, format_args!("{error}: {reply}")))?,
            ),
            Err(RecvTimeoutError::Timeout) => Outcome::Endless,
            Err(RecvTimeoutError::Disconnected) => Outcome::Crashed,
        })
    }

    /// What went wrong with what was asked.
    pub(crate) fn error(&self, line: &Value, cause: impl Display) -> Failure {
        let op = line["op"].as_str().unwrap_or("no op");
        format!("{}: {op}: {cause}", self.name).into()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Whatever it is at: it would not hear of the end of its input.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
