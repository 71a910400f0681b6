//! The kernel's answer to a lookup.

use crate::model::{ExpectedAnswer, Gateway, Lookup, table_name};
use crate::problem::Problem;
use nsm_netlink::Errno;
use std::fmt;
use std::net::IpAddr;

/// What the kernel answered to a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A way out.
    Route {
        /// The link.
        dev: String,
        /// The next hop.
        via: Option<IpAddr>,
        /// The table, where the kernel tells it.
        table: Option<u32>,
    },
    /// A refusal.
    Error(Errno),
    /// Something else, in its own words.
    Other(String),
}

/// What is wrong with the kernel's answer to a lookup.
pub fn check_answer(question: &Lookup, answer: &Answer) -> Option<Problem> {
    let holds = match (&question.answer, answer) {
        (
            ExpectedAnswer::Route { dev, via, table },
            Answer::Route {
                dev: d,
                via: v,
                table: t,
            },
        ) => {
            dev.as_ref().is_none_or(|dev| dev == d)
                && via.is_none_or(|via| match via {
                    Gateway::None => v.is_none(),
                    Gateway::Address(via) => *v == Some(via),
                })
                && table.is_none_or(|table| *t == Some(table))
        }
        (ExpectedAnswer::Error(expected), Answer::Error(found)) => expected == found,
        _ => false,
    };
    (!holds).then(|| Problem {
        what: question.to_string(),
        expected: Some(vec![question.answer.to_string()]),
        found: vec![answer.to_string()],
    })
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Route { dev, via, table } => {
                if let Some(via) = via {
                    write!(f, "via {via} ")?;
                }
                write!(f, "dev {dev}")?;
                table.map_or(Ok(()), |table| write!(f, " table {}", table_name(table)))
            }
            Self::Error(errno) => write!(f, "error {errno:?}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}
