//! A driver that is timed.

use super::Error;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

#[derive(Debug)]
pub(crate) struct Driver {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// How long it took.
#[derive(Debug)]
pub(crate) struct Timed {
    /// All of it, in microseconds.
    pub(crate) us: f64,
    pub(crate) each: Vec<f64>,
}

#[derive(Deserialize)]
struct Reply {
    us: f64,
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    us: f64,
    error: Option<String>,
}

impl Driver {
    pub(crate) fn start(program: &Path) -> Result<Self, Error> {
        let mut process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let input = process.stdin.take().ok_or("a driver without input")?;
        let output = process.stdout.take().ok_or("a driver without output")?;
        Ok(Self {
            process,
            input,
            output: BufReader::new(output),
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn series(&mut self, ops: &[Value], repeat: usize) -> Result<Timed, Error> {
        self.ask(&json!({"op": "series", "ops": ops, "repeat": repeat}))
    }

    pub(crate) fn parallel(&mut self, ops: &[Value]) -> Result<Timed, Error> {
        self.ask(&json!({"op": "parallel", "ops": ops}))
    }

    fn ask(&mut self, line: &Value) -> Result<Timed, Error> {
        writeln!(self.input, "{line}")?;
        let mut reply = String::new();
        self.output.read_line(&mut reply)?;
        let reply: Reply =
            serde_json::from_str(&reply).map_err(|error| format!("{reply}: {error}"))?;
        if let Some(error) = reply
            .answers
            .iter()
            .find_map(|answer| answer.error.as_ref())
        {
            return Err(error.as_str().into());
        }
        Ok(Timed {
            us: reply.us,
            each: reply.answers.iter().map(|answer| answer.us).collect(),
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
