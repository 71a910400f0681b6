//! The policies of an endpoint, and which list each connection has its own from.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nsm_api::ConnectionId;
use nsm_api::connection::State;
use nsm_chain::Monitor;

use super::list::{Labels, PolicyList};

/// The policies of an endpoint, which may change while it serves. Clones share them.
#[derive(Clone, Default)]
pub struct Policies {
    monitor: Monitor,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    list: PolicyList,
    /// The connections that stand, or are on the way to.
    given: HashMap<ConnectionId, Given>,
}

/// What a connection was given last.
#[derive(Clone)]
struct Given {
    labels: Labels,
    list: PolicyList,
}

impl Given {
    /// Whether the connection would be given other policies now.
    fn is_outdated(&self, list: &PolicyList) -> bool {
        let labels = &self.labels;
        !self.list.policies_for(labels).eq(list.policies_for(labels))
    }
}

impl Policies {
    /// Begins with a list. The monitor is the one of the endpoint's chain, whose connections are
    /// told of changes.
    pub fn new(list: PolicyList, monitor: Monitor) -> Self {
        let inner = Inner {
            list,
            given: HashMap::new(),
        };
        Self {
            monitor,
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// The list as it is.
    pub fn get(&self) -> PolicyList {
        self.lock().list.clone()
    }

    /// Takes another list in its place. Each connection that gets other policies by it is asked to
    /// refresh, with [`State::RefreshRequested`], and no other; gives how many these are.
    pub fn set(&self, list: PolicyList) -> usize {
        // A request takes the list and is remembered under the same lock: it has either taken the new
        // one or is among those that are asked, and the monitor asks once it has ended.
        let mut inner = self.lock();
        inner.list = list;
        let (list, given) = (&inner.list, inner.given.iter());
        let outdated = given.filter(|(_, given)| given.is_outdated(list));
        outdated
            .map(|(id, _)| self.monitor.state(id, State::RefreshRequested))
            .count()
    }

    /// How many connections have policies, or none, of this endpoint.
    pub fn connections(&self) -> usize {
        self.lock().given.len()
    }

    /// The list for a request of a connection, which is remembered if the request
    /// [succeeds](Pending::keep).
    pub(super) fn give(&self, id: ConnectionId, labels: &Labels) -> (Pending, PolicyList) {
        let mut inner = self.lock();
        let list = inner.list.clone();
        let given = Given {
            labels: labels.clone(),
            list: list.clone(),
        };
        let former = inner.given.insert(id.clone(), given);
        let pending = Pending {
            policies: self.clone(),
            id,
            former,
            is_kept: false,
        };
        (pending, list)
    }

    /// The connection is closed.
    pub(super) fn forget(&self, id: &ConnectionId) {
        self.lock().given.remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("Policies")
            .field("policies", &inner.list.len())
            .field("connections", &inner.given.len())
            .finish_non_exhaustive()
    }
}

/// A request that has been given policies. If it fails, or is dropped, the connection has what it
/// had before.
pub(super) struct Pending {
    policies: Policies,
    id: ConnectionId,
    former: Option<Given>,
    is_kept: bool,
}

impl Pending {
    /// The request has succeeded.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let mut inner = self.policies.lock();
        match self.former.take() {
            Some(former) => inner.given.insert(self.id.clone(), former),
            None => inner.given.remove(&self.id),
        };
    }
}
