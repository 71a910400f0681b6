//! Calls of clients.

use super::{Engine, Played};
use crate::content::Content;
use crate::model::{Ask, Pattern};
use crate::problem::Problem;
use crate::world::Pod;
use nsm_api::connection::{Connection, Mechanism};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{Call, Error};
use tower::ServiceExt;

/// A client's side of a connection.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// The content of the last call that succeeded: a restart does not change what is asked for.
    pub(super) content: Option<Content>,
    /// The connection as the client last knew it.
    known: Option<Connection>,
    /// Whether it is open.
    pub(super) open: bool,
    /// Whether a call has succeeded since the elements started.
    pub(super) counts: bool,
}

/// What a call came to.
pub(super) enum Outcome {
    /// It was to succeed and did.
    Succeeded(Box<Connection>),
    /// It was to fail and did.
    FailedAsExpected,
    /// The process died: no answer.
    NoAnswer,
}

impl<P: Pod> Engine<'_, P> {
    /// A client asks for a connection with all that it says.
    pub(super) async fn request(&self, ask: &Ask, pod: Option<&str>) -> Played {
        let content = Content::said(None, ask, Some(pod.unwrap_or_default()));
        self.ask(ask, content).await
    }

    /// A client asks again, with what it said last where it says nothing new.
    pub(super) async fn refresh(&self, ask: &Ask, pod: Option<&str>) -> Played {
        let content = Content::said(self.content(&ask.id).as_ref(), ask, pod);
        self.ask(ask, content).await
    }

    /// A client ends a connection.
    pub(super) async fn close(&self, ask: &Ask, pod: Option<&str>) -> Played {
        let content = Content::said(self.content(&ask.id).as_ref(), ask, pod);
        let mut connection = self.known(&ask.id);
        content.write(&mut connection);
        let outcome = self
            .call(&content, Call::close(connection), ask.error.as_ref())
            .await?;
        if !matches!(outcome, Outcome::NoAnswer) {
            self.forget(&ask.id, matches!(outcome, Outcome::FailedAsExpected))?;
        }
        self.leave_window(&content.element, &outcome)
    }

    async fn ask(&self, ask: &Ask, content: Content) -> Played {
        // What makes no sense is the element's to refuse, and wants nothing.
        let wants = content.wants();
        self.note_asked(&content, wants.as_ref().unwrap_or(&Default::default()));
        let request = NetworkServiceRequest {
            connection: Some(self.known(&ask.id)),
            mechanism_preferences: vec![Mechanism::kernel()],
        };
        let generation = self.generation.get();
        let outcome = self
            .call(&content, Call::request(request), ask.error.as_ref())
            .await?;
        if let Outcome::Succeeded(connection) = &outcome {
            if let Err(error) = wants {
                return Err(vec![Problem::new(format!(
                    "the element takes what it must not: {error}"
                ))]);
            }
            let mut clients = self.clients.borrow_mut();
            let client = clients.entry(ask.id.clone()).or_default();
            client.content = Some(Content {
                gone: false,
                ..content.clone()
            });
            client.known = Some(Connection::clone(connection));
            client.open = true;
            client.counts |= generation == self.generation.get();
        }
        self.leave_window(&content.element, &outcome)
    }

    /// Calls the element and sees whether the answer is as expected.
    async fn call(
        &self,
        content: &Content,
        mut call: Call,
        error: Option<&Pattern>,
    ) -> Result<Outcome, Vec<Problem>> {
        call.extensions.insert(content.clone());
        let chain = {
            let elements = self.elements.borrow();
            let element = elements
                .iter()
                .find(|element| element.name == content.element);
            element.map(|element| element.chain.clone())
        };
        let Some(chain) = chain else {
            return Err(vec![Problem::new(format!(
                "there is no element {:?}",
                content.element
            ))]);
        };
        self.enter_window(&content.element)?;
        let answer = chain.oneshot(call).await;
        if self.faults.is_killed() {
            return Ok(Outcome::NoAnswer);
        }
        check_answer(answer, error)
    }

    /// Ends the client's side. What a failed close has left is left over.
    fn forget(&self, id: &str, failed: bool) -> Played {
        if let Some(client) = self.clients.borrow_mut().get_mut(id) {
            client.open = false;
            client.known = None;
            client.counts = false;
        }
        if failed {
            for pod in self.pods.all() {
                self.excuse_unremoved(&pod, &pod.picture()?);
            }
        }
        Ok(())
    }

    fn content(&self, id: &str) -> Option<Content> {
        self.clients
            .borrow()
            .get(id)
            .and_then(|client| client.content.clone())
    }

    /// A connection as its client knows it, or a new one.
    fn known(&self, id: &str) -> Connection {
        let known = self
            .clients
            .borrow()
            .get(id)
            .and_then(|client| client.known.clone());
        known.unwrap_or_else(|| Connection {
            id: id.to_owned(),
            network_service: "scenario".to_owned(),
            ..Connection::default()
        })
    }
}

fn check_answer(
    answer: Result<Connection, Error>,
    error: Option<&Pattern>,
) -> Result<Outcome, Vec<Problem>> {
    match (answer, error) {
        (Ok(connection), None) => Ok(Outcome::Succeeded(Box::new(connection))),
        (Err(error), Some(pattern)) if pattern.matches(&error.report().to_string()) => {
            Ok(Outcome::FailedAsExpected)
        }
        (Err(error), Some(pattern)) => Err(vec![Problem {
            what: "the call failed with another message".to_owned(),
            expected: Some(vec![pattern.to_string()]),
            found: vec![error.report().to_string()],
        }]),
        (Err(error), None) => {
            let message = error.report().to_string();
            Err(vec![Problem::with_lines("the call failed", vec![message])])
        }
        (Ok(_), Some(pattern)) => Err(vec![Problem::new(format!(
            "the call succeeded; it must fail with {pattern}"
        ))]),
    }
}
