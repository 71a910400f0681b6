//! The operations of a flow, from the journal of its clean run.

use crate::flow::Flow;
use crate::journal::Asking;
use crate::picture::{Picture, is_probe};
use nsm_netlink::{Family, Op, OpKind};
use std::collections::BTreeMap;
use std::fmt;

/// One operation.
#[derive(Debug, Clone)]
pub struct Operation {
    /// In which pod.
    pub pod: usize,
    /// What.
    pub what: What,
    /// Which of its kind in its pod, counted from 1.
    pub nth: usize,
}

/// What an operation is.
#[derive(Debug, Clone)]
pub enum What {
    /// The namespace is opened.
    Open,
    /// Something is read.
    Dump {
        /// What.
        kind: OpKind,
        /// Of which family; links have none.
        family: Option<Family>,
        /// The entries that matter, with their places.
        shown: Vec<(usize, String)>,
    },
    /// Something is written.
    Write {
        /// What.
        op: Op,
        /// What for.
        purpose: Purpose,
        /// Whether the kernel did it.
        done: bool,
        /// In which burst of the call, and where in it, both counted from 1.
        burst: (usize, usize),
    },
}

/// What a write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The connection at hand needs it.
    Own,
    /// Only another connection needs it.
    Other,
    /// Something is taken away.
    Removal,
    /// IPv6 sockets look again.
    Probe,
}

impl Operation {
    /// Its kind; to open a namespace is of none.
    pub fn kind(&self) -> Option<OpKind> {
        match &self.what {
            What::Open => None,
            What::Dump { kind, .. } => Some(*kind),
            What::Write { op, .. } => Some(op.kind()),
        }
    }

    /// What it is for, if it is a write.
    pub fn purpose(&self) -> Option<Purpose> {
        match &self.what {
            What::Write { purpose, .. } => Some(*purpose),
            _ => None,
        }
    }
}

/// The operations of a call, from what was asked between two looks at the pods.
pub fn operations(
    flow: &Flow,
    asked: Vec<(usize, Asking)>,
    old: &[Picture],
    new: &[Picture],
) -> Vec<Operation> {
    let mut counted = BTreeMap::<_, usize>::new();
    let mut bursts = 0;
    let mut operations = Vec::new();
    let mut add = |pod, what| {
        let mut operation = Operation { pod, what, nth: 0 };
        let count = counted.entry((pod, operation.kind())).or_default();
        *count += 1;
        operation.nth = *count;
        operations.push(operation);
    };
    for (pod, asking) in asked {
        match asking {
            Asking::Open => add(pod, What::Open),
            Asking::Dump {
                kind,
                family,
                shown,
            } => add(
                pod,
                What::Dump {
                    kind,
                    family,
                    shown,
                },
            ),
            Asking::Burst(ops) => {
                bursts += 1;
                for (at, (op, done)) in ops.into_iter().enumerate() {
                    let purpose = purpose(flow, &op, &old[pod], &new[pod]);
                    add(
                        pod,
                        What::Write {
                            op,
                            purpose,
                            done,
                            burst: (bursts, at + 1),
                        },
                    );
                }
            }
        }
    }
    operations
}

fn purpose(flow: &Flow, op: &Op, old: &Picture, new: &Picture) -> Purpose {
    let own = |selector: &str| {
        let mut policies = flow.call.wanted();
        match policies.any(|policy| selector.split(' ').nth(1) == Some(policy.from.as_str())) {
            true => Purpose::Own,
            false => Purpose::Other,
        }
    };
    match op {
        Op::AddRule(rule) | Op::DelRule(rule) if is_probe(rule) => Purpose::Probe,
        Op::AddRule(rule) => own(&rule.selector.to_string()),
        Op::AddRoute(route, _) => {
            let selector = |picture| Picture::looked_up_by(picture, route.family(), route.table);
            // A table that nobody has looked up in the end was made for a call that failed.
            selector(new)
                .or_else(|| selector(old))
                .map_or(Purpose::Own, own)
        }
        Op::DelRule(_) | Op::DelRoute(_) => Purpose::Removal,
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, what, nth } = self;
        if *pod > 0 {
            f.write_str("elsewhere: ")?;
        }
        match what {
            What::Open => write!(f, "open #{nth}"),
            What::Dump { kind, family, .. } => {
                write!(f, "{kind} #{nth}")?;
                family.map_or(Ok(()), |family| write!(f, " ({family})"))
            }
            What::Write {
                op,
                burst: (burst, at),
                ..
            } => {
                write!(
                    f,
                    "{} #{nth} ({at} of burst {burst}: {})",
                    op.kind(),
                    op.subject()
                )
            }
        }
    }
}
