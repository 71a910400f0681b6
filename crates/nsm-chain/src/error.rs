//! Why a call failed.

use std::error::Error as StdError;
use std::fmt;

use tower::load_shed::error::Overloaded;
use tower::timeout::error::Elapsed;

/// Any error at all, as tower boxes them.
pub type BoxError = tower::BoxError;

/// Why a call failed: a kind for the caller, the element that failed, and the cause.
///
/// `Display` says which element failed and how, and leaves the cause to
/// [`source`](StdError::source); [`report`](Self::report) gives the whole of it on one line.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    element: &'static str,
    source: BoxError,
}

/// What a failure means to the caller. Each kind is the gRPC status of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call itself is wrong; to repeat it does not help.
    InvalidArgument,
    /// The world is not in the state that the call needs.
    FailedPrecondition,
    /// What the call names does not exist.
    NotFound,
    /// The caller may not do that.
    PermissionDenied,
    /// Something that is bounded is used up.
    ResourceExhausted,
    /// The time is over.
    DeadlineExceeded,
    /// Whoever is needed is away; to repeat the call later may help.
    Unavailable,
    /// The call was given up.
    Cancelled,
    /// This is not done here.
    Unimplemented,
    /// A defect.
    Internal,
}

impl Error {
    /// An error of an element. `element` is the name of the element's module.
    pub fn new(kind: ErrorKind, element: &'static str, source: impl Into<BoxError>) -> Self {
        Self {
            kind,
            element,
            source: source.into(),
        }
    }

    /// What the failure means to the caller.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The element that failed.
    pub fn element(&self) -> &'static str {
        self.element
    }

    /// The error and its causes on one line.
    pub fn report(&self) -> ErrorChain<'_> {
        ErrorChain(self)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.element, self.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

/// Gives tower's own errors their kind, so that its layers fit under `.map_err(Error::from)`.
/// An [`Error`] that was boxed on the way comes out as it went in; anything else is
/// [`ErrorKind::Internal`].
impl From<BoxError> for Error {
    fn from(error: BoxError) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(error) => return *error,
            Err(error) => error,
        };
        let (kind, element) = if error.is::<Elapsed>() {
            (ErrorKind::DeadlineExceeded, "timeout")
        } else if error.is::<Overloaded>() {
            (ErrorKind::ResourceExhausted, "load_shed")
        } else {
            (ErrorKind::Internal, "tower")
        };
        Self::new(kind, element, error)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidArgument => "invalid argument",
            Self::FailedPrecondition => "failed precondition",
            Self::NotFound => "not found",
            Self::PermissionDenied => "permission denied",
            Self::ResourceExhausted => "resource exhausted",
            Self::DeadlineExceeded => "deadline exceeded",
            Self::Unavailable => "unavailable",
            Self::Cancelled => "cancelled",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal error",
        })
    }
}

/// Displays an error and all its causes on one line: `a: b: c`.
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(pub &'a (dyn StdError + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no free table in 20000-24999")]
    struct NoTable;

    #[test]
    fn an_error_names_element_and_kind_and_leaves_the_cause_to_its_source() {
        let error = Error::new(ErrorKind::ResourceExhausted, "policyroute", NoTable);

        assert_eq!(error.to_string(), "policyroute: resource exhausted");
        assert!(error.source().is_some_and(|cause| cause.is::<NoTable>()));
    }

    #[test]
    fn a_report_joins_each_cause_once() {
        let cause = Error::new(ErrorKind::ResourceExhausted, "policyroute", NoTable);
        let error = Error::new(ErrorKind::Unavailable, "connect", cause);

        assert_eq!(
            error.report().to_string(),
            "connect: unavailable: policyroute: resource exhausted: no free table in 20000-24999"
        );
    }

    #[test]
    fn towers_own_errors_get_their_kind() {
        let kind = |error: BoxError| Error::from(error).kind();

        assert_eq!(kind(Elapsed::new().into()), ErrorKind::DeadlineExceeded);
        assert_eq!(kind(Overloaded::new().into()), ErrorKind::ResourceExhausted);
        assert_eq!(kind("anything else".into()), ErrorKind::Internal);
    }

    #[test]
    fn an_error_that_was_boxed_on_the_way_comes_out_as_it_went_in() {
        let error = Error::new(ErrorKind::ResourceExhausted, "policyroute", NoTable);

        let error = Error::from(BoxError::from(error));

        assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
        assert_eq!(error.element(), "policyroute");
    }
}
