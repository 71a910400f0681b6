//! What the kernel can say no with, by the kind of the operation.

use nsm_chain::ErrorKind;
use nsm_netlink::{Errno, OpKind};

/// `socket(2)`, `setns(2)`, `open(2)` of `/proc/thread-self/ns/net`.
const OPEN: &[Errno] = &[
    Errno::EMFILE,
    Errno::ENFILE,
    Errno::ENOMEM,
    Errno::ENOBUFS,
    Errno::EPERM,
    Errno::EACCES,
    Errno::EINVAL,
    Errno::EAFNOSUPPORT,
];

/// `netlink_dump_start` in net/netlink/af_netlink.c, and the dumps themselves.
const DUMP: &[Errno] = &[
    Errno::EPERM,
    Errno::EACCES,
    Errno::EINVAL,
    Errno::ENOMEM,
    Errno::ENOBUFS,
    Errno::EBUSY,
    Errno::EAGAIN,
    Errno::EINTR,
    Errno::EMSGSIZE,
    Errno::EOPNOTSUPP,
    Errno::EAFNOSUPPORT,
];

/// `fib_nl_newrule` in net/core/fib_rules.c, the families' `configure`, and drivers that are told.
const ADD_RULE: &[Errno] = &[
    Errno::EPERM,
    Errno::EINVAL,
    Errno::ENOMEM,
    Errno::ENOBUFS,
    Errno::ERANGE,
    Errno::EAFNOSUPPORT,
    Errno::EOPNOTSUPP,
    Errno::ENOSPC,
    Errno::EBUSY,
    Errno::EAGAIN,
    Errno::EINTR,
];

/// `fib_nl_delrule`, the families' `delete`.
const DEL_RULE: &[Errno] = &[
    Errno::EPERM,
    Errno::EINVAL,
    Errno::ENOMEM,
    Errno::ENOBUFS,
    Errno::ERANGE,
    Errno::EAFNOSUPPORT,
    Errno::EOPNOTSUPP,
    Errno::EBUSY,
    Errno::EAGAIN,
    Errno::EINTR,
];

/// `inet_rtm_newroute`, `fib_table_insert`, `fib_create_info`; `inet6_rtm_newroute`,
/// `ip6_route_info_create`, `fib6_add`; drivers that are told.
const ADD_ROUTE: &[Errno] = &[
    Errno::EPERM,
    Errno::EACCES,
    Errno::EINVAL,
    Errno::ENOMEM,
    Errno::ENOBUFS,
    Errno::ENODEV,
    Errno::ENETDOWN,
    Errno::ENETUNREACH,
    Errno::EHOSTUNREACH,
    Errno::ERANGE,
    Errno::EMSGSIZE,
    Errno::EAFNOSUPPORT,
    Errno::EOPNOTSUPP,
    Errno::ENOSPC,
    Errno::EBUSY,
    Errno::EAGAIN,
    Errno::EINTR,
];

/// `inet_rtm_delroute`, `fib_table_delete`; `inet6_rtm_delroute`, `ip6_route_del`.
const DEL_ROUTE: &[Errno] = &[
    Errno::EPERM,
    Errno::EACCES,
    Errno::EINVAL,
    Errno::ENOMEM,
    Errno::ENOBUFS,
    Errno::ERANGE,
    Errno::EAFNOSUPPORT,
    Errno::EOPNOTSUPP,
    Errno::EBUSY,
    Errno::EAGAIN,
    Errno::EINTR,
];

/// All that a kind of operation can be refused with. That something is there already, or is gone,
/// is no refusal: where it is so, it is so ([`Faster`](super::cell::Wrong::Faster)).
pub fn of(kind: Option<OpKind>) -> &'static [Errno] {
    match kind {
        None => OPEN,
        Some(OpKind::AddRule) => ADD_RULE,
        Some(OpKind::DelRule) => DEL_RULE,
        Some(OpKind::AddRoute) => ADD_ROUTE,
        Some(OpKind::DelRoute) => DEL_ROUTE,
        Some(_) => DUMP,
    }
}

/// What a client hears of a write that is refused.
pub fn refused(kind: OpKind, errno: Errno) -> ErrorKind {
    match errno {
        // IPv6 is switched off on the interface.
        Errno::EACCES if kind == OpKind::AddRoute => ErrorKind::FailedPrecondition,
        Errno::EPERM | Errno::EACCES => ErrorKind::PermissionDenied,
        Errno::EINVAL => ErrorKind::InvalidArgument,
        Errno::ENODEV | Errno::ENETDOWN | Errno::ENETUNREACH | Errno::EHOSTUNREACH => {
            ErrorKind::FailedPrecondition
        }
        Errno::ENOMEM | Errno::ENOBUFS | Errno::ENOSPC => ErrorKind::ResourceExhausted,
        Errno::EBUSY | Errno::EAGAIN | Errno::EINTR => ErrorKind::Unavailable,
        Errno::EAFNOSUPPORT | Errno::EOPNOTSUPP => ErrorKind::Unimplemented,
        _ => ErrorKind::Internal,
    }
}

/// What a client hears where the kernel could not be asked.
pub fn unreachable(errno: Errno) -> ErrorKind {
    match errno {
        Errno::EPERM | Errno::EACCES => ErrorKind::PermissionDenied,
        _ => ErrorKind::Unavailable,
    }
}
