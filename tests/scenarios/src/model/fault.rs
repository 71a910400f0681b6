//! What goes wrong in the kernel.

use super::words::ErrnoName;
use nsm_netlink::{Errno, OpKind};
use serde::Deserialize;

/// A kernel operation that goes wrong.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "FaultFields")]
pub struct Fault {
    /// Which kind of operation.
    pub op: OpKind,
    /// Which of that kind, counted from 1 and from this step on.
    pub nth: u32,
    /// How it goes wrong.
    pub effect: FaultEffect,
    /// Whether the file holds even if the operation never comes.
    pub optional: bool,
}

/// How an operation goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultEffect {
    /// The kernel refuses it.
    Refused(Errno),
    /// It is done and the answer is lost.
    LostAck,
    /// The process dies before it is done.
    KillBefore,
    /// The process dies when it has been done.
    KillAfter,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFields {
    op: FaultOp,
    nth: Option<u32>,
    errno: Option<ErrnoName>,
    lost_ack: Option<bool>,
    kill: Option<Moment>,
    #[serde(default)]
    optional: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FaultOp {
    AddRule,
    DelRule,
    AddRoute,
    DelRoute,
    DumpRules,
    DumpRoutes,
    Link,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Moment {
    Before,
    After,
}

impl TryFrom<FaultFields> for Fault {
    type Error = &'static str;

    fn try_from(fields: FaultFields) -> Result<Self, Self::Error> {
        let effect = match (fields.errno, fields.lost_ack, fields.kill) {
            (Some(errno), None, None) => FaultEffect::Refused(errno.0),
            (None, Some(true), None) => FaultEffect::LostAck,
            (None, None, Some(Moment::Before)) => FaultEffect::KillBefore,
            (None, None, Some(Moment::After)) => FaultEffect::KillAfter,
            _ => {
                return Err("a fault has one of `errno`, `lost_ack: true`, `kill: before | after`");
            }
        };
        let op = match fields.op {
            FaultOp::AddRule => OpKind::AddRule,
            FaultOp::DelRule => OpKind::DelRule,
            FaultOp::AddRoute => OpKind::AddRoute,
            FaultOp::DelRoute => OpKind::DelRoute,
            FaultOp::DumpRules => OpKind::DumpRules,
            FaultOp::DumpRoutes => OpKind::DumpRoutes,
            FaultOp::Link => OpKind::DumpLinks,
        };
        match fields.nth.unwrap_or(1) {
            0 => Err("`nth` counts from 1"),
            nth => Ok(Self {
                op,
                nth,
                effect,
                optional: fields.optional,
            }),
        }
    }
}
