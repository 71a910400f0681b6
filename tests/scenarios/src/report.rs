//! What people and machines are told.

use crate::model::{Place, Unreadable};
use crate::problem::{Problem, Side};
use serde_json::json;
use std::fmt::Write;
use std::time::Duration;

/// What became of a file.
#[derive(Debug)]
pub struct Outcome {
    /// The file, as it was named.
    pub file: String,
    /// What the file shows.
    pub name: String,
    /// The kernel that it ran on.
    pub kernel: &'static str,
    /// What decided how branches interleaved.
    pub seed: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// What became of it.
    pub verdict: Verdict,
}

/// Whether a scenario holds.
#[derive(Debug)]
pub enum Verdict {
    /// It does.
    Held,
    /// It does not.
    Failed(Box<Failure>),
    /// It cannot be run here, for this reason.
    Skipped(String),
}

/// A step that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which: its number, and the round.
    pub step: String,
    /// Where it is written.
    pub place: Place,
    /// What is written there.
    pub text: String,
    /// What does not hold.
    pub problems: Vec<Problem>,
}

/// How it looks on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Words alone.
    Plain,
    /// With ANSI colours.
    Coloured,
}

impl Style {
    fn paint(self, colour: u8, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\x1b[{colour}m{text}\x1b[0m"),
        }
    }
}

const BOLD: u8 = 1;
const RED: u8 = 31;
const GREEN: u8 = 32;

/// The most lines that are shown of a step, and of what is found where nothing is compared.
const MOST_LINES: usize = 20;

impl Outcome {
    /// A line for a file that holds; where, what and why for one that does not.
    pub fn text(&self, style: Style) -> String {
        let Self {
            file,
            name,
            kernel,
            elapsed,
            ..
        } = self;
        let seconds = elapsed.as_secs_f64();
        let failure = match &self.verdict {
            Verdict::Held => {
                let ok = style.paint(GREEN, "ok  ");
                return format!("{ok} {file} ({kernel}, {seconds:.2} s): {name}\n");
            }
            Verdict::Skipped(why) => return format!("skip {file} ({kernel}): {why}\n"),
            Verdict::Failed(failure) => failure,
        };
        let fail = style.paint(RED, "FAIL");
        let mut text = format!("{fail} {file} ({kernel}, {seconds:.2} s): {name}\n");
        let step = style.paint(BOLD, &failure.step);
        let _ = writeln!(text, "  {step} ({file}:{}):", failure.place.line);
        text.push_str(&indented(&clipped(&failure.text), 6));
        for problem in &failure.problems {
            text.push_str(&problem_text(problem, style));
        }
        let _ = writeln!(text, "  interleaving: --seed {}", self.seed);
        text
    }

    /// One object on a line.
    pub fn json(&self) -> String {
        let (held, skipped, failure) = match &self.verdict {
            Verdict::Held => (Some(true), None, None),
            Verdict::Skipped(why) => (None, Some(why), None),
            Verdict::Failed(failure) => (Some(false), None, Some(failure)),
        };
        let failure = failure.map(|failure| {
            json!({
                "step": failure.step,
                "line": failure.place.line,
                "column": failure.place.column,
                "text": failure.text,
                "problems": failure.problems,
            })
        });
        json!({
            "file": self.file,
            "name": self.name,
            "kernel": self.kernel,
            "held": held,
            "skipped": skipped,
            "seconds": self.elapsed.as_secs_f64(),
            "seed": self.seed,
            "failure": failure,
        })
        .to_string()
    }
}

/// A file that cannot be read, as one object on a line.
pub fn unreadable_json(error: &Unreadable) -> String {
    json!({
        "file": error.file,
        "unreadable": error.message,
        "line": error.place.map(|place| place.line),
        "column": error.place.map(|place| place.column),
    })
    .to_string()
}

fn problem_text(problem: &Problem, style: Style) -> String {
    let mut text = format!("    {}\n", style.paint(BOLD, &problem.what));
    if problem.expected.is_none() {
        text.push_str(&indented(&clipped(&problem.found.join("\n")), 6));
        return text;
    }
    for (side, line) in around_changes(&problem.diff()) {
        let line = match side {
            Some(Side::Missing) => style.paint(RED, &format!("- {line}")),
            Some(Side::Unexpected) => style.paint(GREEN, &format!("+ {line}")),
            Some(Side::Both) => format!("  {line}"),
            None => "  ...".to_owned(),
        };
        text.push_str(&indented(&line, 6));
    }
    text
}

/// The lines that differ, with those around them. `None` stands for lines left out.
fn around_changes<'a>(diff: &[(Side, &'a str)]) -> Vec<(Option<Side>, &'a str)> {
    const CONTEXT: usize = 3;
    let near = |at: usize| {
        let from = at.saturating_sub(CONTEXT);
        let to = (at + CONTEXT + 1).min(diff.len());
        diff[from..to].iter().any(|(side, _)| *side != Side::Both)
    };
    let mut lines: Vec<(Option<Side>, &str)> = Vec::new();
    for (at, &(side, line)) in diff.iter().enumerate() {
        if near(at) {
            lines.push((Some(side), line));
        } else if lines.last().is_none_or(|(side, _)| side.is_some()) {
            lines.push((None, ""));
        }
    }
    lines
}

fn clipped(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().take(MOST_LINES).collect();
    if text.lines().nth(MOST_LINES).is_some() {
        lines.push("...");
    }
    lines.join("\n")
}

fn indented(text: &str, width: usize) -> String {
    text.lines()
        .map(|line| format!("{:width$}{line}\n", ""))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(verdict: Verdict) -> Outcome {
        Outcome {
            file: "files/x.yaml".to_owned(),
            name: "a pod keeps its rules".to_owned(),
            kernel: "fake",
            seed: 7,
            elapsed: Duration::from_millis(120),
            verdict,
        }
    }

    fn lost_rule() -> Failure {
        let rule = |n: u32| format!("{n}: from 10.1.0.{n} lookup 20000 proto 78");
        Failure {
            step: "step 6.4, round 3 of 20".to_owned(),
            place: Place {
                line: 45,
                column: 11,
            },
            text: "expect:\n  same_as: before".to_owned(),
            problems: vec![Problem {
                what: "IPv4 rules".to_owned(),
                expected: Some((1..=9).map(rule).collect()),
                found: (1..=8)
                    .map(rule)
                    .chain(["5: from all lookup 7".to_owned()])
                    .collect(),
            }],
        }
    }

    #[test]
    fn a_file_that_holds_is_one_line() {
        assert_eq!(
            outcome(Verdict::Held).text(Style::Plain),
            "ok   files/x.yaml (fake, 0.12 s): a pod keeps its rules\n"
        );
    }

    #[test]
    fn a_failure_names_file_step_and_text_and_shows_what_differs() {
        assert_eq!(
            outcome(Verdict::Failed(Box::new(lost_rule()))).text(Style::Plain),
            "\
FAIL files/x.yaml (fake, 0.12 s): a pod keeps its rules
  step 6.4, round 3 of 20 (files/x.yaml:45):
      expect:
        same_as: before
    IPv4 rules
        ...
        6: from 10.1.0.6 lookup 20000 proto 78
        7: from 10.1.0.7 lookup 20000 proto 78
        8: from 10.1.0.8 lookup 20000 proto 78
      - 9: from 10.1.0.9 lookup 20000 proto 78
      + 5: from all lookup 7
  interleaving: --seed 7
"
        );
    }

    #[test]
    fn colours_are_only_painted_where_they_are_wanted() {
        let failed = outcome(Verdict::Failed(Box::new(lost_rule())));
        assert!(!failed.text(Style::Plain).contains('\x1b'));
        assert!(failed.text(Style::Coloured).contains("\x1b[31m- 9: from"));
    }

    #[test]
    fn machines_get_one_object_per_file() {
        let line = outcome(Verdict::Failed(Box::new(lost_rule()))).json();
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["held"], false);
        assert_eq!(object["failure"]["line"], 45);
        assert_eq!(object["failure"]["problems"][0]["what"], "IPv4 rules");
    }
}
