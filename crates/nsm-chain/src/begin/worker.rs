//! What is done with one connection, one job after the other.

use std::sync::{Arc, Weak};

use nsm_api::ConnectionId;
use nsm_api::connection::{Connection, State};
use nsm_api::networkservice::NetworkServiceRequest;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{Instrument, Span, info, warn};

use super::Settings;
use super::below::{Below, OnFailure};
use super::events::Events;
use super::memory::{Context, Memory};
use super::queue::{Event, Job, Queue, Queues};
use crate::{Call, Error, ErrorKind, NetworkService, Operation, Side, TimeBudget};

/// Owns what is known of a connection.
pub(super) struct Worker<S> {
    below: Below<S>,
    settings: Settings,
    memory: Option<Memory>,
}

#[derive(Debug, thiserror::Error)]
#[error("the time was over before the request's turn came")]
struct TooLate;

impl<S: NetworkService> Worker<S> {
    /// Starts the work on a connection and gives its queue. It ends when nothing is known of the
    /// connection and nothing waits, or with the chain.
    pub(super) fn start(
        id: ConnectionId,
        inner: S,
        settings: Settings,
        queues: &Arc<Queues>,
    ) -> Queue {
        let (queue, jobs) = mpsc::channel(settings.queue);
        let events = Events::new(id.clone(), queue.downgrade(), Arc::downgrade(queues));
        let worker = Self {
            below: Below::new(inner, events),
            settings,
            memory: None,
        };
        // The chain holds its queues. If the worker held them too, neither would ever end.
        tokio::spawn(worker.work(id, jobs, Arc::downgrade(queues)));
        queue
    }

    async fn work(
        mut self,
        id: ConnectionId,
        mut jobs: mpsc::Receiver<Box<Job>>,
        queues: Weak<Queues>,
    ) {
        while let Some(job) = jobs.recv().await {
            // The room that a job takes is that of all elements below, and most of the time there is
            // none.
            Box::pin(self.job(*job)).await;
            let idle = || queues.upgrade()?.remove_empty(&id, &jobs).then_some(());
            if self.memory.is_none() && idle().is_some() {
                break;
            }
        }
    }

    async fn job(&mut self, job: Job) {
        match job {
            Job::Call {
                call,
                budget,
                reply,
                span,
            } => {
                let answer = self.call(call, budget).instrument(span.clone()).await;
                send(reply, answer, span);
            }
            // An event that nobody waits for any more has been taken back.
            Job::Event { reply, .. } if reply.is_closed() => {}
            Job::Event { event, reply, span } => {
                let answer = self.event(event).instrument(span.clone()).await;
                send(reply, answer, span);
            }
        }
    }

    async fn call(&mut self, call: Call, budget: TimeBudget) -> Result<Connection, Error> {
        let context = Context {
            metadata: call.metadata,
            extensions: call.extensions,
            budget,
        };
        match call.operation {
            Operation::Request(request) => self.request(request, call.deadline, context).await,
            Operation::Close(connection) => self.close(connection, context).await,
        }
    }

    async fn request(
        &mut self,
        mut request: NetworkServiceRequest,
        deadline: Option<Instant>,
        context: Context,
    ) -> Result<Connection, Error> {
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(Error::new(ErrorKind::DeadlineExceeded, "begin", TooLate));
        }
        let asked = request.connection.get_or_insert_default();
        let returns = self.memory.is_none() && stands_elsewhere(asked);
        match (self.settings.side, &mut self.memory) {
            (Side::Client, Some(memory)) => *asked = memory.merge(asked),
            (Side::Server, Some(memory)) if asked.state() == State::ReselectRequested => {
                memory.let_go(&self.below).await;
                self.memory = None;
            }
            _ => {}
        }
        let on_failure = match &self.memory {
            Some(memory) => memory.on_failure(),
            None if returns => OnFailure::Leave,
            None => OnFailure::Close,
        };
        let call = Call {
            deadline,
            ..context.call(Operation::Request(request.clone()))
        };

        let mut connection = self.below.request(call, context.budget, on_failure).await?;

        if self.settings.side == Side::Server {
            connection.set_state(State::Up);
        }
        let former = self.memory.take();
        self.memory = Some(Memory::new(former, request, &connection, context));
        Ok(connection)
    }

    async fn close(
        &mut self,
        connection: Connection,
        context: Context,
    ) -> Result<Connection, Error> {
        // What is known here is newer than what the caller knows. If nothing is known, this
        // process may have been restarted, and then the caller knows more.
        let memory = self.memory.take();
        let connection = memory.as_ref().map_or(connection, Memory::connection);
        let close = context.call(Operation::Close(connection));
        let closed = self.below.call(close).await;
        match &closed {
            Ok(_) => info!("connection closed"),
            Err(error) if self.settings.side == Side::Server && ran_out_of_time(error) => {
                self.memory = memory.map(Memory::closed);
            }
            Err(_) => {}
        }
        closed
    }

    async fn event(&mut self, event: Event) -> Result<Option<Connection>, Error> {
        let Some(memory) = &mut self.memory else {
            return Ok(None);
        };
        let within = match event {
            Event::Close => {
                let closed = memory.close(&self.below).await?;
                self.memory = None;
                info!("connection closed");
                return Ok(Some(closed));
            }
            Event::Forget => {
                if !memory.stands() {
                    self.memory = None;
                }
                return Ok(None);
            }
            Event::Reselect { within } if self.settings.side == Side::Client => {
                memory.let_go(&self.below).await;
                memory.change(&*self.settings.reselect);
                within
            }
            Event::Request { within } | Event::Reselect { within } if memory.stands() => within,
            Event::Request { .. } | Event::Reselect { .. } => return Ok(None),
        };
        memory.ask_again(&self.below, within).await.map(Some)
    }
}

/// Whether a request that is new here is not new elsewhere: hops behind us know the connection
/// already, or its mechanism is chosen. This process has been restarted then, or the one before
/// was replaced by it, and what stands must go on to stand. What is to be selected anew has been
/// given up.
fn stands_elsewhere(connection: &Connection) -> bool {
    connection.state() != State::ReselectRequested
        && (connection.next_segment().is_some() || connection.mechanism.is_some())
}

/// Whether a close that failed so may be well with more time. On a server side `timeout` tries
/// again; on a client side nobody would, and the connection is forgotten.
fn ran_out_of_time(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DeadlineExceeded | ErrorKind::Cancelled
    )
}

/// Hands an answer to whoever waits for it. An error that nobody waits for ends here.
fn send<T>(reply: oneshot::Sender<Result<T, Error>>, answer: Result<T, Error>, span: Span) {
    if reply.is_closed() {
        return span.in_scope(|| nobody_waits(answer));
    }
    // The process may end on the answer, and what is open then is in no trace.
    drop(span);
    if let Err(answer) = reply.send(answer) {
        nobody_waits(answer);
    }
}

fn nobody_waits<T>(answer: Result<T, Error>) {
    if let Err(error) = answer {
        warn!(error = %error.report(), "failed after the caller had gone");
    }
}
