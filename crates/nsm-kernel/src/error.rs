use crate::mark::Side;
use crate::wanted::Invalid;
use nsm_chain::ErrorKind;
use nsm_netlink::{Errno, KernelError, NetnsError, NetnsId, SetupError, SetupFailure};
use std::time::Duration;
use thiserror::Error;

/// The name under which the middleware's errors, spans and warnings appear.
const ELEMENT: &str = "kernel";

/// Why a connection's interfaces could not be made or removed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection's context makes no sense. Nothing was touched.
    #[error("cannot use the connection")]
    Invalid(#[from] Invalid),
    /// No namespace came from the client.
    #[error(
        "the connection came without the client's network namespace: send its descriptor, and name it \
         in the mechanism by inode://<device>/<inode>"
    )]
    NoClientNamespace,
    /// No namespace came from the endpoint.
    #[error("the endpoint answered without its network namespace")]
    NoEndpointNamespace,
    /// What came is no network namespace.
    #[error("what the {side} sent cannot be used as network namespace")]
    NotANamespace {
        /// Who sent it.
        side: Side,
        /// Why not.
        #[source]
        source: NetnsError,
    },
    /// What came is the forwarder's own namespace.
    #[error("the {side} sent the forwarder's own network namespace {netns}")]
    OwnNamespace {
        /// Who sent it.
        side: Side,
        /// Which.
        netns: NetnsId,
    },
    /// Both ends would be in one namespace.
    #[error("client and endpoint are in the same network namespace {0}")]
    SameNamespace(NetnsId),
    /// Somebody else's interface has the name.
    #[error("interface {name} of the {side}'s {netns} is somebody else's")]
    Foreign {
        /// The name.
        name: String,
        /// Whose namespace it is.
        side: Side,
        /// Where it is.
        netns: NetnsId,
    },
    /// Another connection has taken the name since.
    #[error("interface {name} of {netns} has been taken by the connection marked {by}")]
    Taken {
        /// The name.
        name: String,
        /// Where it is.
        netns: NetnsId,
        /// The mark of the other connection.
        by: String,
    },
    /// All names for the endpoint's end are taken.
    #[error("there is no free name for the endpoint's end in {0}")]
    NoFreeName(NetnsId),
    /// The metrics below all other routes of a prefix are taken.
    #[error("no route to {prefix} by interface {dev} can come before those of others in {netns}")]
    Hidden {
        /// The prefix.
        prefix: ipnet::IpNet,
        /// The index of the interface.
        dev: u32,
        /// Where.
        netns: NetnsId,
    },
    /// The kernel refused a write.
    #[error("cannot set up the {side}'s {netns}")]
    SetUp {
        /// Whose namespace it is.
        side: Side,
        /// Where.
        netns: NetnsId,
        /// What was refused, and why.
        #[source]
        source: SetupError,
    },
    /// The kernel refused to remove an interface.
    #[error("the connection's interface stays in {netns}")]
    Removal {
        /// Where.
        netns: NetnsId,
        /// Why.
        #[source]
        source: SetupError,
    },
    /// The kernel could not be asked.
    #[error("cannot work in the {side}'s {netns}")]
    Kernel {
        /// Whose namespace it is.
        side: Side,
        /// Where.
        netns: NetnsId,
        /// Why.
        #[source]
        source: KernelError,
    },
    /// Somebody else changed the same things each time we tried.
    #[error("the interfaces of {0} changed at each attempt")]
    Contended(NetnsId),
    /// The time that was given is over.
    #[error("not done within {0:?}")]
    TimedOut(Duration),
    /// The work was lost: it panicked, or the runtime is being shut down.
    #[error("the work in the namespaces was lost")]
    Lost(#[source] tokio::task::JoinError),
}

impl Error {
    /// The kind of the error, as the chain and so the peer sees it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(invalid) if invalid.is_too_much() => ErrorKind::ResourceExhausted,
            Self::Invalid(_) => ErrorKind::InvalidArgument,
            Self::NotANamespace {
                source:
                    NetnsError::Open {
                        source: Errno::EMFILE | Errno::ENFILE,
                        ..
                    },
                ..
            } => ErrorKind::ResourceExhausted,
            Self::NoClientNamespace
            | Self::NoEndpointNamespace
            | Self::NotANamespace { .. }
            | Self::OwnNamespace { .. }
            | Self::SameNamespace(_)
            | Self::Foreign { .. }
            | Self::Taken { .. }
            | Self::Hidden { .. } => ErrorKind::FailedPrecondition,
            Self::NoFreeName(_) => ErrorKind::ResourceExhausted,
            Self::SetUp { source, .. } | Self::Removal { source, .. } => match &source.source {
                SetupFailure::Kernel(error) => unreachable_kernel(error),
                _ => refused(source.errno()),
            },
            Self::Kernel { source, .. } => unreachable_kernel(source),
            Self::Contended(_) => ErrorKind::Unavailable,
            Self::TimedOut(_) => ErrorKind::DeadlineExceeded,
            Self::Lost(_) => ErrorKind::Internal,
        }
    }

    /// Whether the same may succeed later, without anything done to it.
    pub(crate) fn may_pass(&self) -> bool {
        use ErrorKind::{DeadlineExceeded, ResourceExhausted, Unavailable};
        let kind = self.kind();
        matches!(kind, DeadlineExceeded | ResourceExhausted | Unavailable)
    }
}

fn unreachable_kernel(error: &KernelError) -> ErrorKind {
    match error {
        KernelError::TimedOut => ErrorKind::DeadlineExceeded,
        other => match other.errno() {
            Some(Errno::EPERM | Errno::EACCES) => ErrorKind::PermissionDenied,
            Some(Errno::EMFILE | Errno::ENFILE) => ErrorKind::ResourceExhausted,
            _ => ErrorKind::Unavailable,
        },
    }
}

fn refused(errno: Option<Errno>) -> ErrorKind {
    match errno {
        Some(Errno::EPERM | Errno::EACCES) => ErrorKind::PermissionDenied,
        Some(Errno::EINVAL | Errno::ERANGE) => ErrorKind::InvalidArgument,
        Some(Errno::ENETDOWN | Errno::ENODEV | Errno::ENETUNREACH | Errno::EHOSTUNREACH) => {
            ErrorKind::FailedPrecondition
        }
        Some(Errno::ENOBUFS | Errno::ENOMEM | Errno::ENOSPC) => ErrorKind::ResourceExhausted,
        Some(Errno::EBUSY | Errno::EAGAIN | Errno::EINTR | Errno::EEXIST) => ErrorKind::Unavailable,
        Some(Errno::EOPNOTSUPP | Errno::EAFNOSUPPORT) => ErrorKind::Unimplemented,
        _ => ErrorKind::Internal,
    }
}

impl From<Error> for nsm_chain::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), ELEMENT, error)
    }
}
