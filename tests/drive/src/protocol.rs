//! One JSON object a line: what is asked, and what is answered. `tests/interop/README.md` tells it.

use nsm_api::connection::{Connection, Mechanism};
use nsm_api::connectioncontext::{PolicyRoute, Route};
use nsm_api::mechanism::{INTERFACE_NAME, NETNS_URL, VLAN};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A line that comes in.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Line {
    /// One request.
    Request(Content),
    /// One close.
    Close(Content),
    /// All at once.
    Parallel {
        /// What.
        ops: Vec<Op>,
    },
    /// One after another.
    Series {
        /// What.
        ops: Vec<Op>,
        /// How often all of it.
        #[serde(default = "once")]
        repeat: usize,
    },
}

const fn once() -> usize {
    1
}

/// What is asked of the chain.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// A connection, or its refresh.
    Request(Content),
    /// Its end.
    Close(Content),
}

/// What a connection is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    id: String,
    /// A path that leads to the namespace.
    netns: String,
    interface: String,
    #[serde(default)]
    vlan: u16,
    #[serde(default)]
    sources: Vec<String>,
    /// What the client still has; without it, the request is a first one.
    #[serde(default)]
    asked: Option<Vec<Policy>>,
    /// What the endpoint answers; without it, the answer has no context.
    #[serde(default)]
    policies: Option<Vec<Policy>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Policy {
    from: String,
    proto: String,
    dstport: String,
    srcport: String,
    routes: Vec<Via>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Via {
    prefix: String,
    #[serde(default)]
    nexthop: String,
}

impl Content {
    /// As the client asks: what is chosen by the answer, a first request does not have yet.
    pub fn asked(&self) -> Connection {
        match &self.asked {
            Some(policies) => self.connection(Some(policies)),
            None => Connection {
                id: self.id.clone(),
                ..Connection::default()
            },
        }
    }

    /// As the endpoint answers.
    pub fn answered(&self) -> Connection {
        self.connection(self.policies.as_deref())
    }

    fn connection(&self, policies: Option<&[Policy]>) -> Connection {
        let mut mechanism = Mechanism::kernel()
            .with_parameter(INTERFACE_NAME, &self.interface)
            .with_parameter(NETNS_URL, format!("file://{}", self.netns));
        if self.vlan != 0 {
            mechanism = mechanism.with_parameter(VLAN, self.vlan.to_string());
        }
        let mut connection = Connection {
            id: self.id.clone(),
            mechanism: Some(mechanism),
            ..Connection::default()
        };
        if let Some(policies) = policies {
            let context = connection.ip_context_mut();
            context.src_ip_addrs.clone_from(&self.sources);
            context.policies = policies.iter().map(Policy::message).collect();
        }
        connection
    }
}

impl Policy {
    fn message(&self) -> PolicyRoute {
        let route = |via: &Via| Route {
            prefix: via.prefix.clone(),
            next_hop: via.nexthop.clone(),
        };
        PolicyRoute {
            from: self.from.clone(),
            proto: self.proto.clone(),
            dst_port: self.dstport.clone(),
            src_port: self.srcport.clone(),
            routes: self.routes.iter().map(route).collect(),
        }
    }
}

/// A line that goes out.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// To one call.
    One(Answer),
    /// To several.
    Many {
        /// From the first to the last, in microseconds.
        us: f64,
        /// Those of each, in the order in which they were asked.
        answers: Vec<Answer>,
    },
    /// To a line that makes no sense.
    Bad {
        /// Why.
        bad: String,
    },
}

/// What came of a call.
#[derive(Debug, Serialize)]
pub struct Answer {
    ok: bool,
    /// How long the chain took, in microseconds.
    us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// How often the endpoint has been told that a connection ends, since the program began.
    closed_below: u64,
    /// Whether the client gets another context than the endpoint answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub altered: bool,
}

impl Answer {
    /// After so much time.
    pub fn after(time: Duration, error: Option<String>, closed_below: u64) -> Self {
        Self {
            ok: error.is_none(),
            us: microseconds(time),
            error,
            closed_below,
            altered: false,
        }
    }
}

/// A time as the protocol gives it.
pub fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}
