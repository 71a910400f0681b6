//! The policy file, as the mesh's endpoints read it.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;

use nsm_policyroute::{PolicyError, Reason, canonical};
use serde_saphyr::options::MergeKeyPolicy;
use serde_saphyr::{Location, MessageFormatter, Spanned};
use thiserror::Error;

use super::found::Found;
use super::item::{Item, SHAPE};
use super::list::{Policy, PolicyList, contains};

/// A policy file that cannot be used. With its cause it reads `file:line:column: what is wrong`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PolicyFileError {
    /// The file cannot be read.
    #[error("cannot read {file}")]
    Unreadable {
        /// The file, as it was named.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The text is no list of policies.
    #[error("{file}:{place}: {message}")]
    Malformed {
        /// The file, as it was named.
        file: String,
        /// Where in the file.
        place: Place,
        /// What is wrong.
        message: String,
    },
    /// A policy makes no sense. The source names the policy, the field, and what is wrong.
    #[error("{file}:{place}")]
    Policy {
        /// The file, as it was named.
        file: String,
        /// Where in the file.
        place: Place,
        /// What is wrong.
        source: PolicyError,
    },
}

/// A position in a file: line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

impl PolicyList {
    /// Reads a file. `None` where there is no such file.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse), or when the file cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>, PolicyFileError> {
        Found::at(path).list(path)
    }

    /// Reads the text of `file`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, PolicyFileError> {
        let items = items(file, text)?;
        let mut policies = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let read = match &item.value {
                Some(item) => item.policy().and_then(|policy| {
                    let labels = item.labels()?;
                    Ok(Policy { labels, policy })
                }),
                None => Err((item.referenced, "the item".to_owned())),
            };
            policies.push(read.map_err(|(at, what)| {
                let message = format!("policy {index}: {what} has no value");
                malformed(file, at.into(), message)
            })?);
        }
        spell(&mut policies).map_err(|source| {
            let item = &items[source.index];
            let field = item.value.as_ref().and_then(|it| it.place(&source.field));
            PolicyFileError::Policy {
                file: file.to_owned(),
                place: field.unwrap_or(item.referenced).into(),
                source,
            }
        })?;
        Ok(Self::new(policies))
    }
}

fn malformed(file: &str, place: Place, message: String) -> PolicyFileError {
    PolicyFileError::Malformed {
        file: file.to_owned(),
        place,
        message: message.replace('\n', " "),
    }
}

/// The items of a file, as they are written.
fn items(file: &str, text: &str) -> Result<Vec<Spanned<Option<Item>>>, PolicyFileError> {
    let options = serde_saphyr::options! {
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    let items: Option<_> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error
            .location()
            .map_or(Place { line: 1, column: 1 }, Place::from);
        let message = serde_saphyr::UserMessageFormatter.format_message(&error);
        // What the parser says of a value of the wrong kind names no key.
        let shape = match error {
            serde_saphyr::Error::Unexpected { .. } => SHAPE,
            _ => "",
        };
        malformed(file, place, format!("{message}{shape}"))
    })?;
    Ok(items.unwrap_or_default())
}

/// Validates policies and spells them as every forwarder reads them: those of each connection that
/// has just the labels of some policy. One that has more gets more, and the forwarder judges that.
fn spell(policies: &mut [Policy]) -> Result<(), PolicyError> {
    let labels: BTreeSet<_> = policies.iter().map(|it| it.labels.clone()).collect();
    for labels in labels {
        let selected = policies.iter().enumerate();
        let selected: Vec<usize> = selected
            .filter(|(_, policy)| contains(&labels, &policy.labels))
            .map(|(index, _)| index)
            .collect();
        let written: Vec<_> = selected
            .iter()
            .map(|at| policies[*at].policy.clone())
            .collect();
        let spelled = canonical(&written).map_err(|error| in_the_file(error, &selected))?;
        for (at, policy) in selected.iter().zip(spelled) {
            policies[*at].policy = policy;
        }
    }
    Ok(())
}

/// An error that counts policies as the file does, and not as those do that were selected.
fn in_the_file(error: PolicyError, selected: &[usize]) -> PolicyError {
    let at = |index: usize| selected.get(index).copied().unwrap_or(index);
    PolicyError {
        index: at(error.index),
        reason: match error.reason {
            Reason::TwoNextHops { prefix, other } => Reason::TwoNextHops {
                prefix,
                other: at(other),
            },
            reason => reason,
        },
        field: error.field,
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
