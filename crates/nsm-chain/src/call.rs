//! What travels down a chain.

use std::fmt;
use std::sync::LazyLock;

use http::{Extensions, HeaderMap};
use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_api::{ConnectionId, EmptyConnectionId};
use tokio::time::{Duration, Instant};

/// One call: the operation, and what accompanies it.
///
/// `Debug` names the call and leaves out what it carries: tokens are in the path and in the
/// metadata, and what is printed ends in a log.
#[derive(Clone)]
pub struct Call {
    /// What to do, and with which connection.
    pub operation: Operation,
    /// Headers that came with the call, or go out with it. They may hold tokens.
    pub metadata: HeaderMap,
    /// When the caller stops waiting. It travels on to the next hop; an element that waits for
    /// anything outside of the process waits no longer than this.
    pub deadline: Option<Instant>,
    /// What elements tell the elements below them. It ends with the chain: whoever passes the
    /// call on to another hop, be it in the same process, starts with none.
    pub extensions: Extensions,
}

/// Establish or end a connection.
#[derive(Clone)]
pub enum Operation {
    /// Establish the connection, or refresh it when it stands. Safe to repeat.
    Request(NetworkServiceRequest),
    /// End the connection and free what it holds. Safe to repeat.
    Close(Connection),
}

impl Call {
    /// Asks for a connection, without metadata, deadline and extensions.
    pub fn request(request: NetworkServiceRequest) -> Self {
        Self::new(Operation::Request(request))
    }

    /// Ends a connection, without metadata, deadline and extensions.
    pub fn close(connection: Connection) -> Self {
        Self::new(Operation::Close(connection))
    }

    fn new(operation: Operation) -> Self {
        Self {
            operation,
            metadata: HeaderMap::new(),
            deadline: None,
            extensions: Extensions::new(),
        }
    }

    /// The connection that the call is about. A request without one has an empty one.
    pub fn connection(&self) -> &Connection {
        self.operation.connection()
    }

    /// The connection that the call is about, to be changed. A request without one gets one.
    pub fn connection_mut(&mut self) -> &mut Connection {
        match &mut self.operation {
            Operation::Request(request) => request.connection.get_or_insert_default(),
            Operation::Close(connection) => connection,
        }
    }

    /// The connection's id, as the hop knows it that handles the call.
    ///
    /// # Errors
    ///
    /// [`EmptyConnectionId`] if the connection has none.
    pub fn connection_id(&self) -> Result<ConnectionId, EmptyConnectionId> {
        self.connection().connection_id()
    }

    /// The time that the caller gives the call, to be given again to what may have to follow it.
    pub fn time_budget(&self) -> TimeBudget {
        TimeBudget(self.deadline.map(|deadline| deadline - Instant::now()))
    }
}

impl Operation {
    /// `request` or `close`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Close(_) => "close",
        }
    }

    /// The connection that the operation is about. A request without one has an empty one.
    pub fn connection(&self) -> &Connection {
        static EMPTY: LazyLock<Connection> = LazyLock::new(Connection::default);

        match self {
            Self::Request(request) => request.connection.as_ref().unwrap_or(&EMPTY),
            Self::Close(connection) => connection,
        }
    }
}

/// How long a call may take, whenever it starts.
///
/// What follows a call that ran out of time, such as the Close of what it had made, would come
/// too late under the call's own deadline. So the time is measured when the call comes in, and
/// the full length is given again. (The mesh's Go components call this to postpone a context.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBudget(Option<Duration>);

impl TimeBudget {
    /// The same, or the limit where that is less.
    #[must_use]
    pub fn at_most(self, limit: Option<Duration>) -> Self {
        Self(self.0.into_iter().chain(limit).min())
    }

    /// The deadline of a call that starts now. No deadline where the first call had none.
    pub fn deadline(self) -> Option<Instant> {
        self.0.map(|duration| Instant::now() + duration)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.metadata.keys().collect();
        f.debug_struct("Call")
            .field("operation", &self.operation)
            .field("metadata", &headers)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = self.connection();
        f.debug_struct(match self {
            Self::Request(_) => "Request",
            Self::Close(_) => "Close",
        })
        .field("id", &connection.id)
        .field("network_service", &connection.network_service)
        .finish_non_exhaustive()
    }
}
