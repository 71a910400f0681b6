//! Who has asked the element for what: as the element should remember it, and as its clients do.

use crate::flow::{Act, Call, Flow};
use nsm_api::connection::Connection;
use policyroute_suite::Draft;
use std::collections::{BTreeMap, BTreeSet};

/// The calls so far.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    claims: BTreeMap<String, (usize, Draft)>,
    /// What each client has heard last, or has asked for where it has heard of nothing.
    peers: BTreeMap<String, (usize, Draft)>,
    calls: Vec<Call>,
}

impl Ledger {
    /// All calls of a flow, of which nobody has heard how the last one ended.
    pub fn of(flow: &Flow) -> Self {
        let mut ledger = Self::default();
        for act in &flow.before {
            match act {
                Act::Call(call) => ledger.note(call, true),
                Act::Restart => ledger.restart(),
                _ => {}
            }
        }
        ledger.note(&flow.call, false);
        ledger
    }

    /// Takes note of a call and whether it went well.
    pub fn note(&mut self, call: &Call, well: bool) {
        let Some(id) = id(call) else { return };
        self.calls.retain(|former| self::id(former) != Some(id));
        self.calls.push(call.clone());
        match call {
            Call::Request {
                pod,
                asked,
                answered,
            } if well => {
                self.claims.insert(id.to_owned(), (*pod, answered.clone()));
                // Its close names what it once had too.
                let known = if Connection::policies(answered).is_empty() {
                    asked
                } else {
                    answered
                };
                self.peers.insert(id.to_owned(), (*pod, known.clone()));
            }
            Call::Request { pod, asked, .. } => {
                self.peers
                    .entry(id.to_owned())
                    .or_insert((*pod, asked.clone()));
            }
            Call::Close { .. } => {
                self.claims.remove(id);
                if well {
                    self.peers.remove(id);
                }
            }
            Call::Wait => {}
        }
        self.claims
            .retain(|_, (_, connection)| !Connection::policies(connection).is_empty());
    }

    /// The process ends, its clients live on.
    pub fn restart(&mut self) {
        self.claims.clear();
        self.calls.clear();
    }

    /// The claims that the element holds.
    pub fn claims(&self) -> Vec<(usize, Draft)> {
        self.claims.values().cloned().collect()
    }

    /// Whether it holds one of the connection that a call names.
    pub fn claims_for(&self, call: &Call) -> bool {
        id(call).is_some_and(|id| self.claims.contains_key(id))
    }

    /// In how many namespaces it holds claims.
    pub fn namespaces(&self) -> usize {
        self.claims
            .values()
            .map(|(pod, _)| pod)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// The connections that clients have, or may have.
    pub fn peers(&self) -> Vec<(usize, Draft)> {
        self.peers.values().cloned().collect()
    }

    /// The last call of each connection in this life of the process, oldest first, as the clients
    /// make it again: they ask for what they have heard of last.
    pub fn calls(&self) -> Vec<Call> {
        let again = |call: &Call| match call {
            Call::Request {
                pod,
                asked,
                answered,
            } => Call::Request {
                pod: *pod,
                asked: self
                    .peers
                    .get(&asked.id)
                    .map_or(asked, |(_, known)| known)
                    .clone(),
                answered: answered.clone(),
            },
            other => other.clone(),
        };
        self.calls.iter().map(again).collect()
    }
}

fn id(call: &Call) -> Option<&str> {
    call.connections()
        .first()
        .map(|connection| connection.id.as_str())
}
