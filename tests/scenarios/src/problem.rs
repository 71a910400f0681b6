//! What is not as it must be.

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

/// One expectation that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What was looked at, and what is wrong if lines do not say it.
    pub what: String,
    /// What should stand, line by line; `None` where lines can't say it.
    pub expected: Option<Vec<String>>,
    /// What stands.
    pub found: Vec<String>,
}

impl Problem {
    /// A problem that needs no lines.
    pub fn new(what: impl Into<String>) -> Self {
        Self::with_lines(what, Vec::new())
    }

    /// A problem that is seen in these lines.
    pub fn with_lines(what: impl Into<String>, found: Vec<String>) -> Self {
        Self {
            what: what.into(),
            expected: None,
            found,
        }
    }

    /// A problem, unless what is expected and what is found are equal.
    pub fn unless_equal(
        what: impl Into<String>,
        expected: Vec<String>,
        found: Vec<String>,
    ) -> Option<Self> {
        (expected != found).then(|| Self {
            what: what.into(),
            expected: Some(expected),
            found,
        })
    }

    /// The lines in one list, each with what it is.
    pub fn diff(&self) -> Vec<(Side, &str)> {
        let found: Vec<&str> = self.found.iter().map(String::as_str).collect();
        let Some(expected) = &self.expected else {
            return found.into_iter().map(|line| (Side::Both, line)).collect();
        };
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let diff = TextDiff::from_slices(&expected, &found);
        diff.iter_all_changes()
            .map(|change| {
                let side = match change.tag() {
                    ChangeTag::Delete => Side::Missing,
                    ChangeTag::Insert => Side::Unexpected,
                    ChangeTag::Equal => Side::Both,
                };
                (side, change.value())
            })
            .collect()
    }
}

/// On which side of a comparison a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It should stand and does not.
    Missing,
    /// It stands and should not.
    Unexpected,
    /// It is as it should be.
    Both,
}
