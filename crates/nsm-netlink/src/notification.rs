use crate::{Change, KernelError, Link, Route, Rule};
use std::fmt;
use std::task::{Context, Poll};

/// What the kernel tells of one thing that came, went or was changed.
///
/// The kernel tells less than happens: IPv4 routes that go with an interface or with its last
/// address go in silence. What is told of is not over then either: the routes of an interface go
/// after the word that it is down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The netlink port of whoever asked for it (`nlmsg_pid`), 0 where the kernel itself did it.
    ///
    /// A port is somebody's as long as his socket is open. The kernel gives it by the process id,
    /// as the process's own pid namespace counts, and at random where that is taken
    /// (`netlink_autobind`, net/netlink/af_netlink.c).
    pub port: u32,
    /// Whether it came or went. What is changed comes again, and so does a route that has taken
    /// another's place, of which nothing is told.
    pub change: Change,
    /// What came or went.
    pub subject: Subject,
}

/// What a [`Notification`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A rule.
    Rule(Rule),
    /// A route, or one leg of a multipath route.
    Route(Route),
    /// An interface.
    Link(Link),
    /// An address of the interface of this index.
    Address(u32),
}

/// Hears of the rules, routes, interfaces and addresses of both families in one namespace, from
/// when it was opened, in the order in which the kernel tells.
///
/// It sends nothing. Like a [`Kernel`](crate::Kernel) it pins its namespace; when it is dropped
/// nothing of it stays.
pub trait Notifications: fmt::Debug + Send + 'static {
    /// What has come since the last call, at least one; where much has, a part of it. Where nothing
    /// has, the task of `cx` is woken when something does.
    ///
    /// # Errors
    /// [`KernelError::AnswersLost`] when more came than there was room for, and
    /// [`KernelError::Malformed`] for what cannot be read: some are missing, so that only a reading
    /// of the namespace shows how it stands, and it can be listened further. After any other error
    /// there is nothing more to be heard.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Notification>, KernelError>>;

    /// The same without waiting: all that has come, possibly nothing. Nobody is woken.
    ///
    /// # Errors
    /// As [`poll_next`](Self::poll_next).
    fn drain(&mut self) -> Result<Vec<Notification>, KernelError>;
}
