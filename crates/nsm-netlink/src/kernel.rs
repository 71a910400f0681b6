use crate::{Family, Link, Notifications, Route, Rule};
use nix::errno::Errno;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use thiserror::Error;

/// A network namespace, by the device and inode of its descriptor (stat(2), namespaces(7)).
///
/// Exact as long as a descriptor of it is held: only then the inode is not given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsId {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
}

impl fmt::Display for NetnsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net:[{}]", self.ino)
    }
}

/// A network namespace that is held: it lives at least as long as this value.
pub trait Namespace: Send + Sync + 'static {
    /// What [`open`](Self::open) gives.
    type Kernel: Kernel;

    /// What [`listen`](Self::listen) gives.
    type Notifications: Notifications;

    /// Which namespace this is.
    fn id(&self) -> NetnsId;

    /// Opens the kernel in this namespace. What is opened is for one piece of work: it pins the
    /// namespace too, and must not outlive it.
    ///
    /// # Errors
    /// [`KernelError::Open`] when the namespace cannot be entered or gives no socket.
    fn open(&self) -> Result<Self::Kernel, KernelError>;

    /// Listens to what happens in this namespace from now on. That pins the namespace too.
    ///
    /// # Errors
    /// [`KernelError::Open`] when the namespace cannot be entered or gives no socket.
    ///
    /// # Panics
    /// The real one: in a tokio runtime that was built without `enable_io`. Outside of any it is an
    /// error.
    fn listen(&self) -> Result<Self::Notifications, KernelError>;
}

/// The kernel's routing in one namespace.
///
/// Synchronous, because rtnetlink is: a request runs to its end inside the call that sends it.
/// After an error of a whole call (not of a single operation) the value is spent: open another,
/// read, and decide anew.
pub trait Kernel: Send {
    /// Sends operations as one message where it fits, in order, and tells what became of each.
    /// A refused operation does not stop the ones behind it.
    ///
    /// # Errors
    /// When the answers are unknown. The operations may have been done, all or none or some.
    fn execute(&mut self, burst: &[Op]) -> Result<Vec<Result<(), Refusal>>, KernelError>;

    /// All rules of a family, whoever made them, in the order in which they are asked.
    ///
    /// # Errors
    /// When the dump is refused, is cut short, or can't be read.
    fn rules(&mut self, family: Family) -> Result<Dump<Rule>, KernelError>;

    /// All routes of a family in `tables`, whoever made them, in the order of the dump: of equal
    /// prefix, tos and metric the first is taken.
    ///
    /// # Errors
    /// When the dump is refused, is cut short, or can't be read.
    fn routes(
        &mut self,
        family: Family,
        tables: RangeInclusive<u32>,
    ) -> Result<Dump<Route>, KernelError>;

    /// All interfaces.
    ///
    /// # Errors
    /// When the dump is refused, is cut short, or can't be read.
    fn links(&mut self) -> Result<Vec<Link>, KernelError>;

    /// The netlink port that notifications of what is written here name
    /// ([`Notification::port`](crate::Notification::port)). Nobody else in the namespace has it as
    /// long as this value lives, and anybody may have it afterwards.
    fn port(&self) -> u32;
}

/// One write. Deletes name the full identity of what they delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Adds a rule, unless an equal one stands (EEXIST).
    AddRule(Rule),
    /// Deletes a rule.
    DelRule(Rule),
    /// Adds a route.
    AddRoute(Route, Placement),
    /// Deletes a route, or one leg of an IPv6 multipath route.
    DelRoute(Route),
}

impl Op {
    /// The kind of the operation, for messages and for faults.
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::AddRule(_) => OpKind::AddRule,
            Self::DelRule(_) => OpKind::DelRule,
            Self::AddRoute(..) => OpKind::AddRoute,
            Self::DelRoute(_) => OpKind::DelRoute,
        }
    }
}

/// Where a route goes among others of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Nowhere, if one of equal prefix and metric stands (`NLM_F_CREATE | NLM_F_EXCL`).
    Exclusive,
    /// Behind those that stand (`NLM_F_CREATE | NLM_F_APPEND`).
    Append,
}

/// What is asked of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpKind {
    /// [`Op::AddRule`].
    AddRule,
    /// [`Op::DelRule`].
    DelRule,
    /// [`Op::AddRoute`].
    AddRoute,
    /// [`Op::DelRoute`].
    DelRoute,
    /// [`Kernel::rules`].
    DumpRules,
    /// [`Kernel::routes`].
    DumpRoutes,
    /// [`Kernel::links`].
    DumpLinks,
    /// [`Rtnl::addresses`](crate::Rtnl::addresses).
    DumpAddresses,
    /// [`Rtnl::neighbours`](crate::Rtnl::neighbours).
    DumpNeighbours,
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddRule => "add rule",
            Self::DelRule => "delete rule",
            Self::AddRoute => "add route",
            Self::DelRoute => "delete route",
            Self::DumpRules => "read rules",
            Self::DumpRoutes => "read routes",
            Self::DumpLinks => "read links",
            Self::DumpAddresses => "read addresses",
            Self::DumpNeighbours => "read neighbours",
        })
    }
}

/// What a dump gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump<T> {
    /// The objects, in the kernel's order.
    pub items: Vec<T>,
    /// How many reads it took. The kernel walks rules by index from one read to the next and does
    /// not say when they changed meanwhile, so of more than one read an entry may be missing.
    pub reads: u32,
}

/// The kernel's no to one operation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{}", .errno.desc(), .message.as_deref().map(|m| format!(" ({m})")).unwrap_or_default())]
pub struct Refusal {
    /// Its reason as a number.
    pub errno: Errno,
    /// Its reason in words, where it gives any (extended acknowledgement).
    pub message: Option<String>,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self {
            errno,
            message: None,
        }
    }
}

/// Why a whole call to the kernel failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The namespace could not be entered, or no socket could be made in it.
    #[error("cannot open netlink in {netns}")]
    Open {
        /// Which namespace.
        netns: NetnsId,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The request could not be sent: nothing was done.
    #[error("cannot send to netlink")]
    Send(#[source] io::Error),
    /// The answers could not be read: what was asked may have been done.
    #[error("cannot read netlink's answers")]
    Receive(#[source] io::Error),
    /// The answers overran the socket's buffer: what was asked may have been done.
    #[error("netlink's answers were lost")]
    AnswersLost,
    /// No answer came in time: what was asked may have been done.
    #[error("netlink did not answer in time")]
    TimedOut,
    /// A dump was refused.
    #[error("cannot {op}")]
    Refused {
        /// What was to be read.
        op: OpKind,
        /// The kernel's reason.
        #[source]
        source: Refusal,
    },
    /// A dump was marked as inconsistent (`NLM_F_DUMP_INTR`) each time it was tried.
    #[error("cannot {0}: it changes faster than it can be read")]
    Interrupted(OpKind),
    /// An answer has no sense.
    #[error("netlink answered with a message that cannot be read: {0}")]
    Malformed(&'static str),
}

impl KernelError {
    /// Whether a new socket and a new try may do better.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Send(_) | Self::Receive(_) | Self::AnswersLost | Self::Interrupted(_)
        )
    }

    /// The system's reason, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Open { source, .. } | Self::Send(source) | Self::Receive(source) => {
                source.raw_os_error().map(Errno::from_raw)
            }
            Self::Refused { source, .. } => Some(source.errno),
            Self::AnswersLost | Self::TimedOut | Self::Interrupted(_) | Self::Malformed(_) => None,
        }
    }
}
