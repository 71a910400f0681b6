//! How the call of a cell may end, by the contract.

use super::cell::{Cell, Wrong};
use super::errnos::{refused, unreachable};
use crate::flow::{Call, Flow};
use crate::operation::{Operation, Purpose, What};
use nsm_api::connection::Connection;
use nsm_chain::ErrorKind;
use nsm_netlink::fault::Times;
use nsm_netlink::{Errno, OpKind};

/// The ends that are right: `None` is well.
pub type Ends = Vec<Option<ErrorKind>>;

/// How the call of a cell may end.
pub fn ends(flow: &Flow, operations: &[Operation], cell: &Cell) -> Ends {
    if !cell.is_heard(flow) {
        return vec![flow.fails];
    }
    let mut ends: Ends = of_operation(flow, operations, cell);
    if flow.fails.is_some() {
        // It fails in any case, here or there.
        ends.retain(Option::is_some);
        ends.push(flow.fails);
    }
    ends
}

fn of_operation(flow: &Flow, operations: &[Operation], cell: &Cell) -> Ends {
    let once = cell.times == Times::Once;
    match (&cell.operation.what, &cell.wrong) {
        (_, Wrong::TimedOut) => vec![Some(ErrorKind::DeadlineExceeded)],
        // Another socket, another read, another plan.
        (_, Wrong::AnswersLost | Wrong::SocketDead) if once => vec![None],
        // What was done is found done, and what is to be taken away may wait.
        (What::Write { purpose, .. }, _) if cell.is_lost_for_ever(*purpose) => {
            vec![None, Some(ErrorKind::Unavailable)]
        }
        (_, Wrong::AnswersLost | Wrong::SocketDead) => vec![Some(ErrorKind::Unavailable)],
        (What::Write { .. }, Wrong::Refused(errno)) => write(flow, operations, cell, *errno),
        (_, Wrong::Refused(errno)) => vec![Some(unreachable(*errno))],
        (
            What::Dump {
                kind: OpKind::DumpLinks,
                ..
            },
            Wrong::Missing(_, link),
        ) => {
            vec![needs(flow, link).then_some(ErrorKind::FailedPrecondition)]
        }
        (_, Wrong::Missing(..) | Wrong::Twice(..)) if !cell.is_believed() => vec![None],
        (_, Wrong::Missing(..) | Wrong::Twice(..)) => vec![None, Some(ErrorKind::Unavailable)],
        (_, Wrong::Faster | Wrong::Taken) => vec![None],
        (_, Wrong::AndTheUndo(..)) => vec![Some(ErrorKind::PermissionDenied)],
    }
}

impl Cell {
    fn is_lost_for_ever(&self, purpose: Purpose) -> bool {
        match self.wrong {
            Wrong::AnswersLost => true,
            Wrong::SocketDead => matches!(purpose, Purpose::Removal | Purpose::Probe),
            _ => false,
        }
    }
}

/// A write is refused: what the connection at hand needs fails the call, what another needs or what
/// is to be removed does not, except that a close says what it could not remove.
fn write(flow: &Flow, operations: &[Operation], cell: &Cell, errno: Errno) -> Ends {
    let Some(kind) = cell.operation.kind() else {
        return vec![None];
    };
    let from_here = operations.iter().skip_while(|it| !is(it, &cell.operation));
    let mut refused_ones = from_here.filter(|it| match cell.times {
        Times::Once => is(it, &cell.operation),
        Times::Forever => it.pod == cell.operation.pod && it.kind() == Some(kind),
    });
    let fails = match flow.call {
        Call::Close { .. } => refused_ones
            .any(|it| it.purpose() == Some(Purpose::Removal))
            .then(|| refused(OpKind::DelRule, errno)),
        _ => refused_ones
            .any(|it| it.purpose() == Some(Purpose::Own))
            .then(|| refused(kind, errno)),
    };
    vec![fails]
}

fn is(a: &Operation, b: &Operation) -> bool {
    (a.pod, a.kind(), a.nth) == (b.pod, b.kind(), b.nth)
}

/// Whether a request needs an interface.
fn needs(flow: &Flow, link: &str) -> bool {
    let Call::Request { answered, .. } = &flow.call else {
        return false;
    };
    let kernel = Connection::kernel_mechanism(answered);
    let interface = kernel.as_ref().and_then(|kernel| kernel.interface_name());
    flow.call.wanted().next().is_some() && interface == Some(link)
}
