//! The one table between the chain's errors and gRPC's statuses.
//!
//! | chain | gRPC, sent | gRPC, understood |
//! | --- | --- | --- |
//! | `InvalidArgument` | `InvalidArgument` | `InvalidArgument` |
//! | `FailedPrecondition` | `FailedPrecondition` | `FailedPrecondition`, `AlreadyExists` |
//! | `NotFound` | `NotFound` | `NotFound` |
//! | `PermissionDenied` | `PermissionDenied` | `PermissionDenied`, `Unauthenticated` |
//! | `ResourceExhausted` | `ResourceExhausted` | `ResourceExhausted`, `OutOfRange` |
//! | `DeadlineExceeded` | `DeadlineExceeded` | `DeadlineExceeded` |
//! | `Unavailable` | `Unavailable` | `Unavailable`, `Aborted` |
//! | `Cancelled` | `Cancelled` | `Cancelled` |
//! | `Unimplemented` | `Unimplemented` | `Unimplemented` |
//! | `Internal` | `Internal` | `Internal`, `Unknown`, `DataLoss`, `Ok` |
//!
//! A code of the next hop that has no kind of its own travels on as it is, except `OutOfRange`:
//! tonic alone says that of a message that is too large, and everybody else `ResourceExhausted`.

use std::error::Error as StdError;

use nsm_chain::{Error, ErrorKind};
use thiserror::Error;
use tonic::{Code, Status};

/// How long a message may be, in bytes. Each hop adds its part, and all has to fit into a header
/// beside others.
const LONGEST: usize = 1024;

/// What stands for what is left out.
const LEFT_OUT: &str = " ... ";

/// What stands for a token. They have no business in an error, and this makes sure of it.
const TOKEN: &str = "<token>";

/// How every JSON web token begins: `{"` in base64.
const TOKEN_BEGINS: &str = "eyJ";

/// The next hop has refused the call.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct Refused {
    code: Code,
    message: String,
}

impl Refused {
    /// A status that a peer has sent.
    pub(crate) fn by(status: &Status) -> Self {
        let message = match status.message() {
            "" => format!("{:?}", status.code()),
            message => presentable(message),
        };
        Self {
            code: status.code(),
            message,
        }
    }

    /// The code of the status.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What it means to a chain.
    pub(crate) fn kind(&self) -> ErrorKind {
        kind_of(self.code)
    }
}

/// What a status means to a chain.
pub(crate) fn kind_of(code: Code) -> ErrorKind {
    match code {
        Code::InvalidArgument => ErrorKind::InvalidArgument,
        Code::FailedPrecondition | Code::AlreadyExists => ErrorKind::FailedPrecondition,
        Code::NotFound => ErrorKind::NotFound,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::PermissionDenied,
        Code::ResourceExhausted | Code::OutOfRange => ErrorKind::ResourceExhausted,
        Code::DeadlineExceeded => ErrorKind::DeadlineExceeded,
        Code::Unavailable | Code::Aborted => ErrorKind::Unavailable,
        Code::Cancelled => ErrorKind::Cancelled,
        Code::Unimplemented => ErrorKind::Unimplemented,
        // Go components answer with Unknown whatever they have no code for.
        Code::Internal | Code::Unknown | Code::DataLoss | Code::Ok => ErrorKind::Internal,
    }
}

/// What an error of a chain says to a peer.
pub(crate) fn code_of(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        ErrorKind::FailedPrecondition => Code::FailedPrecondition,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::ResourceExhausted => Code::ResourceExhausted,
        ErrorKind::DeadlineExceeded => Code::DeadlineExceeded,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::Unimplemented => Code::Unimplemented,
        // `ErrorKind` may grow; what this table does not know is a defect of it.
        _ => Code::Internal,
    }
}

/// The status that a peer is answered with.
pub(crate) fn status_of(error: &Error) -> Status {
    let code = refused_in(error)
        .map(Refused::code)
        .filter(|code| {
            kind_of(*code) == error.kind() && !matches!(code, Code::OutOfRange | Code::Ok)
        })
        .unwrap_or_else(|| code_of(error.kind()));
    Status::new(code, presentable(&error.report().to_string()))
}

/// The status of the next hop that is the cause.
fn refused_in(error: &Error) -> Option<&Refused> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref() {
            return Some(refused);
        }
        cause = error.source();
    }
    None
}

/// A message that may be sent, and may be logged: of bounded length and without tokens. Who failed
/// stands at its start and why at its end, so it is the middle that is left out.
pub(crate) fn presentable(message: &str) -> String {
    let message = without_tokens(message);
    if message.len() <= LONGEST {
        return message;
    }
    let half = (LONGEST - LEFT_OUT.len()) / 2;
    let head = boundary_before(&message, half);
    let tail = boundary_behind(&message, message.len() - half);
    format!("{}{LEFT_OUT}{}", &message[..head], &message[tail..])
}

fn boundary_before(text: &str, index: usize) -> usize {
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    (0..=index).rev().find(is_boundary).unwrap_or(0)
}

fn boundary_behind(text: &str, index: usize) -> usize {
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    (index..=text.len()).find(is_boundary).unwrap_or(text.len())
}

fn without_tokens(message: &str) -> String {
    let belongs_to_a_token =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '=');
    let mut clean = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(start) = rest.find(TOKEN_BEGINS) {
        let (before, token) = rest.split_at(start);
        let end = token
            .find(|c| !belongs_to_a_token(c))
            .unwrap_or(token.len());
        clean.push_str(before);
        clean.push_str(if token[..end].contains('.') {
            TOKEN
        } else {
            &token[..end]
        });
        rest = &token[end..];
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ErrorKind; 10] = [
        ErrorKind::InvalidArgument,
        ErrorKind::FailedPrecondition,
        ErrorKind::NotFound,
        ErrorKind::PermissionDenied,
        ErrorKind::ResourceExhausted,
        ErrorKind::DeadlineExceeded,
        ErrorKind::Unavailable,
        ErrorKind::Cancelled,
        ErrorKind::Unimplemented,
        ErrorKind::Internal,
    ];

    fn passed_on(code: Code) -> Status {
        let refused = Refused::by(&Status::new(code, "no endpoint"));
        status_of(&Error::new(refused.kind(), "connect", refused))
    }

    #[test]
    fn every_kind_comes_back_as_it_went() {
        for kind in KINDS {
            assert_eq!(kind_of(code_of(kind)), kind);
        }
    }

    #[test]
    fn the_code_of_the_next_hop_passes_through() {
        for number in 1..=16 {
            let code = Code::from_i32(number);
            let expected = match code {
                Code::OutOfRange => Code::ResourceExhausted,
                code => code,
            };
            assert_eq!(passed_on(code).code(), expected);
        }
        assert_eq!(passed_on(Code::Ok).code(), Code::Internal);
    }

    #[test]
    fn an_element_that_gives_the_failure_below_another_kind_is_heard() {
        let refused = Refused::by(&Status::aborted("busy"));
        let below = Error::new(refused.kind(), "connect", refused);
        let error = Error::new(ErrorKind::InvalidArgument, "element", below);

        assert_eq!(status_of(&error).code(), Code::InvalidArgument);
    }

    #[test]
    fn a_message_is_the_report_of_the_error() {
        assert_eq!(
            passed_on(Code::NotFound).message(),
            "connect: not found: no endpoint"
        );
    }

    #[test]
    fn a_long_message_keeps_its_start_and_its_end() {
        let long = format!("who{}why", "é".repeat(5000));

        let message = presentable(&long);

        assert!(message.len() <= LONGEST);
        assert!(message.starts_with("who") && message.ends_with("why"));
        assert!(message.contains(LEFT_OUT));
    }

    #[test]
    fn a_message_has_no_token() {
        let token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl-_";
        let message = presentable(&format!("bad token {token}, and {token}: eyJ is none"));

        assert_eq!(message, "bad token <token>, and <token>: eyJ is none");
    }
}
