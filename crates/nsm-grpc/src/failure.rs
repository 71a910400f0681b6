//! How a call over the wire may fail.

use nsm_chain::{Error, ErrorChain, ErrorKind};
use thiserror::Error;
use tonic::Status;

use crate::Address;
use crate::status::{Refused, presentable};
use crate::transport::WireError;

#[derive(Debug, Error)]
#[error(
    "the message for the next hop is too large: it has {bytes} bytes, the limit is: {limit} bytes"
)]
pub(crate) struct TooLarge {
    pub(crate) bytes: usize,
    pub(crate) limit: usize,
}

#[derive(Debug, Error)]
#[error("{0} has not answered in time")]
struct Late(Address);

#[derive(Debug, Error)]
#[error("the connection to {address} has broken before the answer: {cause}")]
struct Broken {
    address: Address,
    cause: String,
}

/// Why an attempt has failed.
pub(crate) enum Failure {
    /// The peer has certainly not begun with it.
    Unsent,
    Late,
    TooLarge(TooLarge),
    /// The connection has broken, and this is why.
    Broken(String),
    Refused(Refused),
}

impl Failure {
    pub(crate) fn of(status: Status) -> Self {
        // A status that the peer has sent has no cause. What has one was made here, of an error of
        // the connection.
        let Some(cause) = std::error::Error::source(&status) else {
            return Self::Refused(Refused::by(&status));
        };
        let mut error = Some(cause);
        while let Some(cause) = error {
            if let Some(WireError::Unsent(_) | WireError::Ended) = cause.downcast_ref() {
                return Self::Unsent;
            }
            error = cause.source();
        }
        Self::Broken(presentable(&ErrorChain(cause).to_string()))
    }

    pub(crate) fn explain(self, element: &'static str, address: &Address) -> Error {
        let address = address.clone();
        match self {
            Self::Late => Error::new(ErrorKind::DeadlineExceeded, element, Late(address)),
            Self::TooLarge(error) => Error::new(ErrorKind::ResourceExhausted, element, error),
            Self::Refused(refused) => Error::new(refused.kind(), element, refused),
            Self::Broken(cause) => {
                Error::new(ErrorKind::Unavailable, element, Broken { address, cause })
            }
            Self::Unsent => {
                let cause = "it takes no more calls".to_owned();
                Error::new(ErrorKind::Unavailable, element, Broken { address, cause })
            }
        }
    }
}
