//! Calls that an element starts by itself.

use std::sync::Weak;

use nsm_api::ConnectionId;
use nsm_api::connection::Connection;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Duration;
use tracing::info_span;

use super::queue::{Event, Job, QueueFull, Queues};
use crate::{Call, Error, ErrorKind};

/// Lets an element below `begin` ask again for a connection, or close it, at a time of its own:
/// to refresh it, to heal it, to end it when its token does.
///
/// `begin` puts it into the extensions of every call:
///
/// ```
/// # use nsm_chain::{Call, Error, begin::Events};
/// # fn element(call: &Call) -> Result<(), Error> {
/// let events = Events::of(call, "element")?;
/// # Ok(())
/// # }
/// ```
///
/// Events wait in the queue of the connection together with the calls. Each carries what the
/// last request that succeeded carried (metadata, extensions), and has as much time as the first
/// one had. They reach a connection only while it is known (see [`Outcome`]).
///
/// Await an event in a task of its own. Within a call it would wait for its own end.
///
/// # Cancellation
///
/// An event whose future is dropped before its turn has come does not happen. After that it goes
/// on to its end.
#[derive(Clone, Debug)]
pub struct Events {
    id: ConnectionId,
    // A strong sender in some timer would keep the queue of a chain that is gone.
    queue: mpsc::WeakSender<Box<Job>>,
    chain: Weak<Queues>,
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "whoever gets one takes it apart at once"
)]
pub enum Outcome {
    /// It happened: the connection as it stands, or as it was closed.
    Done(Connection),
    /// The connection is not known, or does not stand, and there is nothing left to do for it.
    NotKnown,
    /// The chain is gone, and with it what was known. Nothing was done, and nothing will be.
    ChainGone,
}

impl Outcome {
    /// The connection, if the event happened.
    pub fn done(self) -> Option<Connection> {
        match self {
            Self::Done(connection) => Some(connection),
            Self::NotKnown | Self::ChainGone => None,
        }
    }
}

/// The chain is not put together as it must be.
#[derive(Debug, thiserror::Error)]
#[error("there is no `begin` above")]
struct NoBegin;

impl Events {
    /// Those of a call's connection. `element` is the name of the element's module.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Internal`] if there is no `begin` above.
    pub fn of(call: &Call, element: &'static str) -> Result<Self, Error> {
        let events = call.extensions.get::<Self>().cloned();
        events.ok_or_else(|| Error::new(ErrorKind::Internal, element, NoBegin))
    }

    pub(super) fn new(
        id: ConnectionId,
        queue: mpsc::WeakSender<Box<Job>>,
        chain: Weak<Queues>,
    ) -> Self {
        Self { id, queue, chain }
    }

    /// Asks for the connection again, with all that is known of it.
    ///
    /// # Errors
    ///
    /// That of the chain below, or
    /// [`ResourceExhausted`](crate::ErrorKind::ResourceExhausted) if the queue is full. The
    /// connection stays as it was.
    pub async fn request(&self) -> Result<Outcome, Error> {
        self.happen(Event::Request { within: None }, "request")
            .await
    }

    /// The same in no more time than that: whoever tries again and again lets others, such as a close,
    /// have their turn in between.
    ///
    /// # Errors
    ///
    /// As for [`request`](Self::request).
    pub async fn request_within(&self, limit: Duration) -> Result<Outcome, Error> {
        let within = Some(limit);
        self.happen(Event::Request { within }, "request").await
    }

    /// Closes the connection downstream, and asks for it again with another endpoint.
    ///
    /// The close takes two seconds at most. If the request fails, what it had made is closed, and only a further `reselect`, or a request of
    /// a caller, brings the connection back. On a [`Server`](crate::Side::Server) side, where the
    /// choice is the caller's, it is [`request`](Self::request).
    ///
    /// # Errors
    ///
    /// As for [`request`](Self::request). An error of the close is logged only.
    pub async fn reselect(&self) -> Result<Outcome, Error> {
        self.happen(Event::Reselect { within: None }, "reselect")
            .await
    }

    /// The same, with no more time than that for the request. What that has made when it fails has two
    /// seconds to be closed.
    ///
    /// # Errors
    ///
    /// As for [`reselect`](Self::reselect).
    pub async fn reselect_within(&self, limit: Duration) -> Result<Outcome, Error> {
        let within = Some(limit);
        self.happen(Event::Reselect { within }, "reselect").await
    }

    /// Closes the connection.
    ///
    /// # Errors
    ///
    /// As for [`request`](Self::request). The connection counts as closed then, and stays known,
    /// so that whoever wanted it closed can try again; a close that a caller asks for makes it
    /// forgotten in any case.
    pub async fn close(&self) -> Result<Outcome, Error> {
        self.happen(Event::Close, "close").await
    }

    /// Forgets a connection that counts as closed, and could not be closed downstream: nobody will
    /// try again. One that stands stays.
    pub async fn forget(&self) {
        // A chain that is gone, or a queue that is full, has other work than this.
        let _ = self.happen(Event::Forget, "forget").await;
    }

    async fn happen(&self, event: Event, operation: &'static str) -> Result<Outcome, Error> {
        let Some(queue) = self.queue.upgrade() else {
            return Ok(self.without_queue());
        };
        // A span of its own kind has no parent: a timer runs in the span of the event before,
        // and each would hold all its ancestors.
        let span = info_span!(parent: None, "event", operation, connection.id = %self.id);
        let (reply, answer) = oneshot::channel();
        match queue.try_send(Box::new(Job::Event { event, reply, span })) {
            Ok(()) => drop(queue),
            Err(TrySendError::Full(_)) => return Err(QueueFull.into()),
            Err(TrySendError::Closed(_)) => return Ok(self.without_queue()),
        }
        match answer.await {
            Ok(done) => Ok(done?.map_or(Outcome::NotKnown, Outcome::Done)),
            // The queue has ended without an answer.
            Err(_) => Ok(self.without_queue()),
        }
    }

    /// Why there is no queue: it ends with the connection, and with the chain.
    fn without_queue(&self) -> Outcome {
        match self.chain.strong_count() {
            0 => Outcome::ChainGone,
            _ => Outcome::NotKnown,
        }
    }
}
