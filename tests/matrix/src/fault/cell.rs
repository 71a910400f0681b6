//! One cell of the matrix: an operation, what goes wrong there, how often, and the way back.

use super::errnos;
use crate::flow::{Call, Flow};
use crate::leg::Leg;
use crate::operation::{Operation, Purpose, What};
use nsm_netlink::fault::{Effect, Times};
use nsm_netlink::{Errno, Op, OpKind, Placement};
use std::fmt;

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// The kernel refuses.
    Refused(Errno),
    /// All is done, and the answers are lost.
    AnswersLost,
    /// All is done, and no answer comes in time.
    TimedOut,
    /// The socket is dead.
    SocketDead,
    /// A dump took several reads and misses an entry.
    Missing(usize, String),
    /// A dump took several reads and shows an entry twice.
    Twice(usize, String),
    /// Somebody else does the same a moment before.
    Faster,
    /// Somebody else takes the table a moment before.
    Taken,
    /// The kernel refuses (EPERM), and this happens to the deletes of a kind that take back what was
    /// added.
    AndTheUndo(OpKind, Effect),
}

/// One cell.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Where.
    pub operation: Operation,
    /// What goes wrong.
    pub wrong: Wrong,
    /// How often.
    pub times: Times,
    /// What brings all back to what is wanted.
    pub leg: Leg,
}

/// How many of the cells are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All.
    Full,
    /// Of every so many things that can go wrong one: its ways back, and whether a refusal comes
    /// once or for ever, take turns.
    InTurns(usize),
}

/// The cells of some operations: each thing that can go wrong there, as often as it can, and each
/// way back from it.
pub fn cells(operations: &[Operation], extent: Extent) -> Vec<Cell> {
    let all = operations.iter().flat_map(|operation| {
        let wrongs = wrongs(operation, extent == Extent::Full).into_iter();
        wrongs.map(move |(wrong, times)| (operation, wrong, times))
    });
    let mut cells = Vec::new();
    for (i, (operation, wrong, times)) in all.enumerate() {
        // Once and for ever alternate, and each is to meet all ways.
        let turn = (i + i / Leg::ALL.len()) % Leg::ALL.len();
        let legs = match extent {
            Extent::Full => &Leg::ALL[..],
            Extent::InTurns(many) if i % many == 0 => &Leg::ALL[turn..=turn],
            Extent::InTurns(_) => &[],
        };
        cells.extend(legs.iter().map(|leg| Cell {
            operation: operation.clone(),
            wrong: wrong.clone(),
            times,
            leg: *leg,
        }));
    }
    cells
}

fn wrongs(operation: &Operation, all: bool) -> Vec<(Wrong, Times)> {
    let both = [Times::Once, Times::Forever];
    let mut wrongs = Vec::new();
    for (i, errno) in errnos::of(operation.kind()).iter().enumerate() {
        let times = if all || i == 0 {
            &both[..]
        } else {
            &both[i % 2..=i % 2]
        };
        wrongs.extend(times.iter().map(|times| (Wrong::Refused(*errno), *times)));
    }
    let mut add = |wrong: Wrong, times: &[Times]| {
        wrongs.extend(times.iter().map(|times| (wrong.clone(), *times)));
    };
    let of_all = [Wrong::AnswersLost, Wrong::TimedOut, Wrong::SocketDead];
    match &operation.what {
        What::Open => {}
        What::Dump { shown, .. } => {
            for wrong in of_all {
                add(wrong, &both);
            }
            for (at, entry) in shown {
                add(Wrong::Missing(*at, entry.clone()), &both);
                add(Wrong::Twice(*at, entry.clone()), &both);
            }
        }
        What::Write {
            op,
            purpose,
            done,
            burst: (_, at),
        } => {
            if *at == 1 {
                // They concern the burst as a whole.
                for wrong in of_all {
                    add(wrong, &both);
                }
            }
            let is_there = *purpose != Purpose::Probe || op.kind() == OpKind::AddRule;
            if *done && is_there {
                add(Wrong::Faster, &[Times::Once]);
            }
            if *done && matches!(op, Op::AddRoute(_, Placement::Exclusive)) {
                add(Wrong::Taken, &[Times::Once]);
            }
            if *purpose == Purpose::Own {
                for (kind, effect) in UNDO {
                    add(Wrong::AndTheUndo(kind, effect), &[Times::Once]);
                }
            }
        }
    }
    wrongs
}

/// What can happen to the deletes that take back what was added.
const UNDO: [(OpKind, Effect); 5] = [
    (OpKind::DelRule, Effect::Errno(Errno::ENOMEM)),
    (OpKind::DelRoute, Effect::Errno(Errno::ENOMEM)),
    (OpKind::DelRoute, Effect::LostAck),
    (OpKind::DelRoute, Effect::TimedOut),
    (OpKind::DelRoute, Effect::DeadSocket),
];

impl Cell {
    /// A lie that is told the same way each time cannot be told from the truth.
    pub fn is_believed(&self) -> bool {
        let lies = matches!(self.wrong, Wrong::Missing(..) | Wrong::Twice(..));
        lies && (self.times == Times::Forever || self.operation.kind() != Some(OpKind::DumpRules))
    }

    /// Whether the call goes on as if nothing had been wrong.
    pub fn heals(&self) -> bool {
        match self.wrong {
            Wrong::Faster | Wrong::Taken => true,
            Wrong::AnswersLost | Wrong::SocketDead => self.times == Times::Once,
            Wrong::Missing(..) | Wrong::Twice(..) => !self.is_believed(),
            Wrong::Refused(_) | Wrong::TimedOut | Wrong::AndTheUndo(..) => false,
        }
    }

    /// Whether somebody hears of what fails there: nobody does in a pod that is left, and nobody
    /// listens to a timer.
    pub fn is_heard(&self, flow: &Flow) -> bool {
        self.operation.pod == flow.call.pod() && !matches!(flow.call, Call::Wait)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x ", self.operation)?;
        match &self.wrong {
            Wrong::Refused(errno) => write!(f, "{errno:?}")?,
            Wrong::Missing(at, entry) => write!(f, "entry {at} missing ({entry})")?,
            Wrong::Twice(at, entry) => write!(f, "entry {at} twice ({entry})")?,
            Wrong::AndTheUndo(kind, effect) => {
                write!(f, "EPERM, and its undo ({kind}) {effect:?}")?
            }
            other => write!(f, "{other:?}")?,
        }
        let times = match self.times {
            Times::Once => "once",
            Times::Forever => "for ever",
        };
        write!(f, " x {times}, then {}", self.leg)
    }
}
