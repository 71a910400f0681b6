//! The connections that stand, and those who hear of them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use http::Extensions;
use nsm_api::ConnectionId;
use nsm_api::connection::{
    Connection, ConnectionEvent, ConnectionEventType, MonitorScopeSelector, State,
};

use tokio::sync::watch;

use super::selector::selects;
use super::subscription::{Feed, Subscription};
use super::{EventStream, Watch};

/// Knows the connections that stand, and tells of them. See the [module](super).
///
/// Clones share what is known. Nothing here waits: a subscriber that does not keep up is let go.
#[derive(Clone, Default)]
pub struct Monitor {
    hub: Arc<Mutex<Hub>>,
    /// Moves when a request ends.
    ended: Arc<watch::Sender<()>>,
}

#[derive(Default)]
pub(super) struct Hub {
    connections: HashMap<ConnectionId, Known>,
    subscribers: HashMap<u64, Subscriber>,
    /// The subscribers by an id that is in the path of every connection that they have selected,
    /// and those without one.
    by_id: HashMap<Option<String>, Vec<u64>>,
    next: u64,
    closed: bool,
}

/// What is known of a connection.
#[derive(Default)]
struct Known {
    /// As it was told last. `None` before the first request has succeeded.
    told: Option<Connection>,
    /// Whether a request for it is under way.
    is_requested: bool,
    /// What came up meanwhile.
    pending: Option<State>,
}

struct Subscriber {
    selector: MonitorScopeSelector,
    feed: Feed,
}

impl Monitor {
    /// One that knows no connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hears of the connections that are selected: of those that there are at once, and of each
    /// change from then on.
    pub fn subscribe(&self, selector: MonitorScopeSelector) -> Subscription {
        let mut hub = self.lock();
        let number = hub.next;
        let told = hub.connections.values().filter_map(|it| it.told.as_ref());
        let selected = told.filter(|it| selects(&selector, it));
        let initial = event(ConnectionEventType::InitialStateTransfer, selected.cloned());
        let (feed, subscription) = Subscription::new(initial, number, Arc::downgrade(&self.hub));
        if !hub.closed {
            hub.next += 1;
            hub.by_id.entry(key(&selector)).or_default().push(number);
            hub.subscribers
                .insert(number, Subscriber { selector, feed });
        }
        subscription
    }

    /// Tells that a connection stands like this, unless it does so already.
    pub fn update(&self, connection: &Connection) {
        if let Ok(id) = ConnectionId::try_from(connection.id.as_str()) {
            self.lock().tell(id, connection.clone());
        }
    }

    /// Tells the state of a connection that stands, unless that was told last: that it is to be
    /// [requested again](State::RefreshRequested), or is [down](State::Down).
    ///
    /// While a request for the connection is under way it is kept until that has ended: nobody knows
    /// yet whether it still holds. `RefreshRequested` is told in any case then, for what is new may
    /// have come too late for the request; `Down` only if the request fails.
    pub fn state(&self, id: &ConnectionId, state: State) {
        let mut hub = self.lock();
        let Some(known) = hub.connections.get_mut(id) else {
            return;
        };
        if known.is_requested {
            known.pending = Some(state);
            return;
        }
        hub.change_state(id, state);
    }

    /// Tells that a connection is closed, if it is known.
    pub fn delete(&self, id: &ConnectionId) {
        let mut hub = self.lock();
        let known = hub.connections.remove(id);
        if let Some(told) = known.and_then(|it| it.told) {
            hub.send(ConnectionEventType::Delete, &told);
        }
    }

    /// A connection, as it was told last.
    pub fn connection(&self, id: &ConnectionId) -> Option<Connection> {
        self.lock().connections.get(id)?.told.clone()
    }

    /// How many connections are known.
    pub fn connections(&self) -> usize {
        self.lock().connections.len()
    }

    /// How many subscribers there are.
    pub fn subscribers(&self) -> usize {
        self.lock().subscribers.len()
    }

    /// Ends all subscriptions, once what they have been sent is read, and gives no more than what
    /// there is to those who come later. A process that stops does so: its end says nothing of its
    /// connections, which stand.
    pub fn close(&self) {
        let mut hub = self.lock();
        hub.closed = true;
        hub.subscribers.clear();
        hub.by_id.clear();
    }

    /// A request for that connection begins, and ends when this is dropped.
    pub(super) fn request(&self, id: ConnectionId) -> Requested {
        let mut hub = self.lock();
        hub.connections.entry(id.clone()).or_default().is_requested = true;
        Requested {
            monitor: self.clone(),
            id,
            answer: None,
        }
    }

    /// Waits until no request for that connection is under way.
    pub(super) async fn answered(&self, id: &ConnectionId) {
        let mut ended = self.ended.subscribe();
        while self.is_requested(id) {
            // The sender is in `self`.
            ended.changed().await.ok();
        }
    }

    fn is_requested(&self, id: &ConnectionId) -> bool {
        let hub = self.lock();
        hub.connections.get(id).is_some_and(|it| it.is_requested)
    }

    fn lock(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A next hop that is in this process.
impl Watch for Monitor {
    fn watch(&self, _: &Extensions, selector: MonitorScopeSelector) -> EventStream {
        self.subscribe(selector).map(Ok).boxed()
    }
}

impl Hub {
    fn tell(&mut self, id: ConnectionId, connection: Connection) {
        let known = self.connections.entry(id).or_default();
        if known.told.as_ref() == Some(&connection) {
            return;
        }
        known.told = Some(connection.clone());
        self.send(ConnectionEventType::Update, &connection);
    }

    fn change_state(&mut self, id: &ConnectionId, state: State) {
        let known = self.connections.get(id);
        if let Some(mut told) = known.and_then(|known| known.told.clone()) {
            told.set_state(state);
            self.tell(id.clone(), told);
        }
    }

    /// Sends an event about a connection to those who have selected it.
    fn send(&mut self, kind: ConnectionEventType, connection: &Connection) {
        let path = connection.path.iter().flat_map(|path| &path.path_segments);
        let ids = path.map(|segment| Some(segment.id.clone())).chain([None]);
        let mut numbers: Vec<u64> = ids
            .filter_map(|id| self.by_id.get(&id))
            .flatten()
            .copied()
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let Some(subscriber) = self.subscribers.get(&number) else {
                continue;
            };
            if !selects(&subscriber.selector, connection) {
                continue;
            }
            let event = event(kind, [connection.clone()]);
            if subscriber.feed.send(event).is_err() {
                self.unsubscribe(number);
            }
        }
    }

    pub(super) fn unsubscribe(&mut self, number: u64) {
        let Some(subscriber) = self.subscribers.remove(&number) else {
            return;
        };
        let id = key(&subscriber.selector);
        if let Some(numbers) = self.by_id.get_mut(&id) {
            numbers.retain(|it| *it != number);
            if numbers.is_empty() {
                self.by_id.remove(&id);
            }
        }
    }
}

/// An id that is in the path of every connection that is selected.
fn key(selector: &MonitorScopeSelector) -> Option<String> {
    let mut ids = selector.path_segments.iter().map(|it| &it.id);
    ids.find(|id| !id.is_empty()).cloned()
}

fn event(
    kind: ConnectionEventType,
    connections: impl IntoIterator<Item = Connection>,
) -> ConnectionEvent {
    let connections = connections.into_iter();
    ConnectionEvent {
        r#type: kind.into(),
        connections: connections.map(|it| (it.id.clone(), it)).collect(),
    }
}

/// A request that is under way.
pub(super) struct Requested {
    monitor: Monitor,
    id: ConnectionId,
    answer: Option<Connection>,
}

impl Requested {
    /// It has succeeded.
    pub(super) fn stands(mut self, connection: Connection) {
        self.answer = Some(connection);
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        self.settle();
        self.monitor.ended.send_replace(());
    }
}

impl Requested {
    fn settle(&mut self) {
        let mut hub = self.monitor.lock();
        let Some(known) = hub.connections.get_mut(&self.id) else {
            return;
        };
        known.is_requested = false;
        let mut pending = known.pending.take();
        if known.told.is_none() && self.answer.is_none() {
            hub.connections.remove(&self.id);
            return;
        }
        if let Some(connection) = self.answer.take() {
            pending = pending.filter(|state| *state == State::RefreshRequested);
            hub.tell(self.id.clone(), connection);
        }
        if let Some(state) = pending {
            hub.change_state(&self.id, state);
        }
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hub = self.lock();
        f.debug_struct("Monitor")
            .field("connections", &hub.connections.len())
            .field("subscribers", &hub.subscribers.len())
            .finish_non_exhaustive()
    }
}
