//! The scenario file as it is written: `design/scenarios.md` in types.

mod ask;
mod expectation;
mod fault;
mod lookup;
mod names;
mod selector;
mod setting;
mod step;
mod text;
mod watch;
mod words;

pub use ask::{Ask, NetnsReference, PolicyText};
pub use expectation::{Expectation, ExpectedPolicy, ExpectedTable, Kept};
pub use fault::{Fault, FaultEffect};
pub use lookup::{ExpectedAnswer, Gateway, Lookup, table_name, table_number};
pub use selector::{NamedSelector, ports, prefix, protocol};
pub use setting::{ElementConfig, Links, NewElement, NewPod};
pub use step::{Action, Repeat, Step, each_step};
pub use text::step_text;
pub use watch::{Events, Watch};
pub use words::{NumberRange, Pattern, RouteText};

use serde::Deserialize;
use serde_saphyr::MessageFormatter;
use serde_saphyr::options::MergeKeyPolicy;
use std::fmt;
use std::path::Path;
use thiserror::Error;

/// A scenario: what happens to a pod and what must stand afterwards.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What is shown, as a sentence.
    pub name: String,
    /// Why that matters, with the public report's address where there is one.
    #[serde(default)]
    pub why: String,
    /// The first element's settings.
    #[serde(default)]
    pub config: ElementConfig,
    /// The first pod's links.
    #[serde(default)]
    pub links: Links,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// A file that cannot be read, on one line: `file:line:column: message`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Unreadable {
    /// The file, as it was named.
    pub file: String,
    /// Where in the file, unless it could not be opened at all.
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(Place { line, column }) => {
                write!(f, "{}:{line}:{column}: {}", self.file, self.message)
            }
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// A position in the file, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl Scenario {
    /// Reads a scenario from the text of `file`.
    ///
    /// # Errors
    /// When the text is no YAML, has a key that there is not, a value of the wrong kind, or a name
    /// that nothing before it has given.
    pub fn parse(file: &str, text: &str) -> Result<Self, Unreadable> {
        let unreadable = |place, message: String| Unreadable {
            file: file.to_owned(),
            place,
            message: message.replace('\n', " "),
        };
        let options = serde_saphyr::options! {
            merge_keys: MergeKeyPolicy::Error,
            strict_booleans: true,
            with_snippet: false,
        };
        let scenario: Self =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| {
                let place = error.location().map(|at| Place {
                    line: at.line(),
                    column: at.column(),
                });
                let message = serde_saphyr::UserMessageFormatter.format_message(&error);
                unreadable(place, message.into_owned())
            })?;
        names::check(&scenario).map_err(|(place, message)| unreadable(Some(place), message))?;
        Ok(scenario)
    }

    /// Reads a scenario from a file.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), or when the file cannot be opened.
    pub fn read(path: &Path) -> Result<(String, Self), Unreadable> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text).map(|scenario| (text, scenario)),
            Err(error) => Err(Unreadable {
                file,
                place: None,
                message: error.to_string(),
            }),
        }
    }

    /// Whether a step needs a shell, and with it the real kernel.
    pub fn needs_shell(&self) -> bool {
        let mut needs = false;
        each_step(&self.steps, &mut |step| {
            needs |= matches!(step.action, Action::Run { .. })
        });
        needs
    }
}

#[cfg(test)]
mod tests;
