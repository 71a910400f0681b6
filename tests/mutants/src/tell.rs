//! What is said of the mutants: lines to read, or JSON.

#![allow(clippy::print_stdout, reason = "it is the tool's answer")]

use super::error::Error;
use super::patch::Patch;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// What has become of a mutant.
#[derive(Debug)]
pub enum Verdict {
    /// A test has noticed.
    Killed { by: String },
    /// No test has.
    Survived,
    /// Nobody knows.
    NotRun(Error),
}

/// Says it, and keeps count.
#[derive(Debug)]
pub struct Teller {
    json: bool,
    killed: Vec<String>,
    survived: Vec<String>,
    not_run: Vec<String>,
}

impl Teller {
    pub fn new(json: bool) -> Self {
        Self {
            json,
            killed: Vec::new(),
            survived: Vec::new(),
            not_run: Vec::new(),
        }
    }

    pub fn list(&self, patch: &Patch) {
        let Patch {
            name,
            breaks,
            promise,
            ..
        } = patch;
        self.say(
            &format!("{name}\n    {breaks}\n    {promise}"),
            &json!({ "name": name, "breaks": breaks, "promise": promise }),
        );
    }

    /// What is going on, beside the answer.
    pub fn progress(&self, text: &str) {
        eprintln!("{text}");
    }

    pub fn judged(&mut self, patch: &Patch, verdict: Verdict, took: Duration) {
        let (name, seconds) = (&patch.name, took.as_secs());
        let (list, text, rest) = match verdict {
            Verdict::Killed { by } => (
                &mut self.killed,
                format!("killed    {name}  by {by} ({seconds} s)"),
                json!({ "verdict": "killed", "by": by }),
            ),
            Verdict::Survived => (
                &mut self.survived,
                format!(
                    "SURVIVED  {name} ({seconds} s)\n    {}\n    {}",
                    patch.breaks, patch.promise
                ),
                json!({ "verdict": "survived" }),
            ),
            Verdict::NotRun(error) => (
                &mut self.not_run,
                format!("NOT RUN   {name}: {error}"),
                json!({ "verdict": "not run", "error": error.to_string() }),
            ),
        };
        list.push(name.clone());
        let mut json = json!({ "name": name, "seconds": seconds });
        if let (Value::Object(all), Value::Object(rest)) = (&mut json, rest) {
            all.extend(rest);
        }
        self.say(&text, &json);
    }

    pub fn sum_up(&self, total: usize) {
        let (killed, survived) = (self.killed.len(), self.survived.len());
        let not_run = total - killed - survived;
        self.say(
            &format!("{total} mutants: {killed} killed, {survived} survived, {not_run} not run"),
            &json!({ "total": total, "killed": killed, "survived": self.survived, "not_run": not_run }),
        );
    }

    pub fn fail(&self, error: &Error) {
        eprintln!("error: {error}");
    }

    pub fn exit_code(&self) -> ExitCode {
        match (self.not_run.is_empty(), self.survived.is_empty()) {
            (false, _) => ExitCode::from(2),
            (true, false) => ExitCode::from(1),
            (true, true) => ExitCode::SUCCESS,
        }
    }

    fn say(&self, text: &str, json: &Value) {
        if self.json {
            println!("{json}");
        } else {
            println!("{text}");
        }
    }
}
