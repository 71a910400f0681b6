//! The endpoint, as the client chain of a forwarder shows it.

use crate::Place;
use nsm_api::connection::Connection;
use nsm_api::connectioncontext::ConnectionContext;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, Operation};
use nsm_kernel::{Endpoint, EndpointSlot};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tower::Service;

/// What an endpoint answers.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The context.
    pub context: ConnectionContext,
    /// The namespace that it sends, if any.
    pub place: Option<Place>,
    /// The name that it asks for.
    pub interface: Option<String>,
    /// Whether it takes the name that is proposed, and makes another one up each time that none is.
    pub invents: bool,
    /// The payload.
    pub payload: Option<String>,
    /// Whether the context is the one that came from above, in place of that here.
    pub keeps_context: bool,
}

/// Answers to each client what it was told. Clones answer the same.
#[derive(Debug, Clone, Default)]
pub struct FarEnd(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    answers: HashMap<String, Answer>,
    closes: usize,
    invented: usize,
    is_down: bool,
}

impl State {
    fn name(&mut self, proposed: Option<&str>) -> String {
        self.invented += 1;
        proposed.map_or_else(|| format!("nse-{}", self.invented), str::to_owned)
    }
}

impl FarEnd {
    /// What the client of that id is answered from now on.
    pub fn answer(&self, id: &str, answer: Answer) {
        self.state().answers.insert(id.to_owned(), answer);
    }

    /// Changes an answer.
    #[track_caller]
    pub fn change(&self, id: &str, change: impl FnOnce(&mut Answer)) {
        change(self.state().answers.get_mut(id).unwrap());
    }

    /// Fails each call from now on, or no more.
    pub fn be_down(&self, is_down: bool) {
        self.state().is_down = is_down;
    }

    /// How many closes came.
    pub fn closes(&self) -> usize {
        self.state().closes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, call: Call) -> Result<Connection, Error> {
        let slot = EndpointSlot::of(&call.extensions).cloned();
        let mut state = self.state();
        let down = || Err(Error::new(ErrorKind::Unavailable, "connect", "it is down"));
        let mut connection = match call.operation {
            Operation::Close(connection) => {
                state.closes += 1;
                return if state.is_down {
                    down()
                } else {
                    Ok(connection)
                };
            }
            Operation::Request(_) if state.is_down => return down(),
            Operation::Request(request) => {
                let mut connection = request.connection.unwrap();
                let preferred = request.mechanism_preferences.first();
                // As the element does that chooses a mechanism.
                connection.mechanism = connection.mechanism.or(preferred.cloned());
                connection
            }
        };
        let id = &connection.path.as_ref().unwrap().path_segments[0].id;
        let answer = state.answers.get(id).cloned().unwrap_or_default();
        if !answer.keeps_context {
            connection.context = Some(answer.context);
        }
        if let Some(payload) = answer.payload {
            connection.payload = payload;
        }
        if let (Some(slot), Some(place)) = (slot, answer.place) {
            let interface = match answer.invents {
                true => Some(state.name(slot.proposed())),
                false => answer.interface,
            };
            slot.fill(Endpoint {
                netns: Arc::clone(place.netns()),
                interface,
            });
        }
        Ok(connection)
    }
}

impl Service<Call> for FarEnd {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let answer = self.handle(call);
        Box::pin(async move { answer })
    }
}
