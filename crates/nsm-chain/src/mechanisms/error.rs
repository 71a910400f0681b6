//! Why no mechanism works.

use std::error::Error as StdError;
use std::fmt;

use nsm_api::connection::Mechanism;

use crate::{Error, ErrorKind};

/// Why a connection has no mechanism: what became of each that was asked for, in order.
#[derive(Debug)]
pub struct NoMechanism {
    tried: Vec<Tried>,
    supported: Vec<&'static str>,
}

/// A mechanism that was asked for.
#[derive(Debug)]
pub(super) struct Tried {
    r#type: String,
    error: Option<Error>,
}

impl NoMechanism {
    pub(super) fn new(tried: Vec<Tried>, supported: Vec<&'static str>) -> Self {
        Self { tried, supported }
    }
}

impl Tried {
    pub(super) fn unsupported(mechanism: &Mechanism) -> Self {
        Self {
            r#type: mechanism.r#type.clone(),
            error: None,
        }
    }

    pub(super) fn failed(mechanism: &Mechanism, error: Error) -> Self {
        Self {
            r#type: mechanism.r#type.clone(),
            error: Some(error),
        }
    }

    /// What the failure means, if it was tried at all.
    pub(super) fn kind(&self) -> Option<ErrorKind> {
        self.error.as_ref().map(Error::kind)
    }

    pub(super) fn into_error(self) -> Option<Error> {
        self.error
    }
}

impl fmt::Display for NoMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tried.is_empty() {
            f.write_str("the request asks for no mechanism")?;
        }
        let mut unsupported = self.tried.is_empty();
        for (place, tried) in self.tried.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            match &tried.error {
                Some(error) => write!(f, "{separator}{}: {}", tried.r#type, error.report())?,
                None => write!(f, "{separator}{} is not supported", tried.r#type)?,
            }
            unsupported |= tried.error.is_none();
        }
        match &self.supported[..] {
            _ if !unsupported => Ok(()),
            [] => f.write_str(" (there is none)"),
            supported => write!(f, " (there is {})", supported.join(", ")),
        }
    }
}

// The causes are in the text: there may be several.
impl StdError for NoMechanism {}
