use crate::namespace::NamespaceError;
use crate::policy::PolicyError;
use nsm_chain::ErrorKind;
use nsm_netlink::{Errno, KernelError, NetnsId, OpKind, Refusal, TableRange};
use std::time::Duration;
use thiserror::Error;

/// The name under which the middleware's errors, spans and warnings appear.
pub(crate) const ELEMENT: &str = "policyroute";

/// Why the policies of a connection could not be installed or removed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A policy makes no sense. Nothing was touched.
    #[error("cannot use the connection's policies")]
    Policy(#[from] PolicyError),
    /// The mechanism names no interface.
    #[error("the connection has policies, and its mechanism names no interface")]
    NoInterface,
    /// The namespace cannot be reached.
    #[error("cannot reach the connection's network namespace")]
    Namespace(#[from] NamespaceError),
    /// The interface is not in the namespace.
    #[error("interface {interface} is not in {netns}")]
    LinkMissing {
        /// Its name.
        interface: String,
        /// Where it was looked for.
        netns: NetnsId,
    },
    /// The interface takes no routes.
    #[error("interface {interface} in {netns} is down")]
    LinkDown {
        /// Its name.
        interface: String,
        /// Where it is.
        netns: NetnsId,
    },
    /// Every table of the range is in use.
    #[error("policy {policy}: none of the {} tables {tables} is free", .tables.size())]
    NoFreeTable {
        /// The index of the policy.
        policy: usize,
        /// The range.
        tables: TableRange,
    },
    /// The kernel refused a write. What was added for this request has been taken back.
    #[error("policy {policy}: cannot {op}: {subject}")]
    Refused {
        /// The index of the policy.
        policy: usize,
        /// What was tried.
        op: OpKind,
        /// The rule or route.
        subject: String,
        /// The kernel's reason.
        #[source]
        source: Refusal,
    },
    /// The kernel made another rule than it was asked for: it does not know a selector.
    #[error("policy {policy}: this kernel does not store {field} of a rule")]
    StoredOtherwise {
        /// The index of the policy.
        policy: usize,
        /// The field that is missing or changed.
        field: &'static str,
    },
    /// Something could not be removed. It is tried again.
    #[error("{failed} of {total} rules and routes could not be removed, first {subject}")]
    Removal {
        /// How many.
        failed: usize,
        /// Of how many.
        total: usize,
        /// The first of them.
        subject: String,
        /// The kernel's reason for the first.
        #[source]
        source: Refusal,
    },
    /// The kernel could not be asked.
    #[error("cannot work in {netns}")]
    Kernel {
        /// Where.
        netns: NetnsId,
        /// Why.
        #[source]
        source: KernelError,
    },
    /// Somebody else changed the same rules or tables each time we tried.
    #[error("rules and tables of {netns} changed at each of {attempts} attempts")]
    Contended {
        /// Where.
        netns: NetnsId,
        /// How often it was tried.
        attempts: u32,
    },
    /// The time that was given is over.
    #[error("not done within {0:?}")]
    TimedOut(Duration),
    /// The work was lost: it panicked, or the runtime is being shut down.
    #[error("the work in the namespace was lost")]
    Lost(#[source] tokio::task::JoinError),
}

impl Error {
    /// The kind of the error, as the chain and so the peer sees it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Policy(_) => ErrorKind::InvalidArgument,
            Self::NoInterface | Self::LinkMissing { .. } | Self::LinkDown { .. } => {
                ErrorKind::FailedPrecondition
            }
            Self::Namespace(error) => error.kind(),
            Self::NoFreeTable { .. } => ErrorKind::ResourceExhausted,
            Self::Refused { op, source, .. } => refused(*op, source.errno),
            Self::Removal { source, .. } => refused(OpKind::DelRule, source.errno),
            Self::StoredOtherwise { .. } => ErrorKind::Unimplemented,
            Self::Kernel { source, .. } => match source {
                KernelError::TimedOut => ErrorKind::DeadlineExceeded,
                other => match other.errno() {
                    Some(Errno::EPERM | Errno::EACCES) => ErrorKind::PermissionDenied,
                    _ => ErrorKind::Unavailable,
                },
            },
            Self::Contended { .. } => ErrorKind::Unavailable,
            Self::TimedOut(_) => ErrorKind::DeadlineExceeded,
            Self::Lost(_) => ErrorKind::Internal,
        }
    }
}

fn refused(op: OpKind, errno: Errno) -> ErrorKind {
    match errno {
        Errno::EPERM => ErrorKind::PermissionDenied,
        // The kernel says EACCES to an IPv6 route by an interface with IPv6 switched off.
        Errno::EACCES if op == OpKind::AddRoute => ErrorKind::FailedPrecondition,
        Errno::EACCES => ErrorKind::PermissionDenied,
        Errno::EINVAL => ErrorKind::InvalidArgument,
        Errno::ENETDOWN | Errno::ENODEV | Errno::ENETUNREACH | Errno::EHOSTUNREACH => {
            ErrorKind::FailedPrecondition
        }
        Errno::ENOBUFS | Errno::ENOMEM | Errno::ENOSPC => ErrorKind::ResourceExhausted,
        Errno::EBUSY | Errno::EAGAIN | Errno::EINTR => ErrorKind::Unavailable,
        Errno::EOPNOTSUPP | Errno::EAFNOSUPPORT => ErrorKind::Unimplemented,
        _ => ErrorKind::Internal,
    }
}

impl From<Error> for nsm_chain::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), ELEMENT, error)
    }
}
