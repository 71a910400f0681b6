//! What is known of a connection.

use http::{Extensions, HeaderMap};
use nsm_api::connection::{Connection, State};
use nsm_api::networkservice::NetworkServiceRequest;
use tokio::time::Duration;
use tracing::{debug, info, warn};

use super::attempt::Interim;
use super::below::{Below, OnFailure};
use super::merge::merge;
use crate::{Call, Error, NetworkService, Operation, TimeBudget};

/// How long what stands may take to go, on the way to something else that somebody waits for.
const LET_GO: Duration = Duration::from_secs(2);

/// What is known of a connection from the requests that succeeded.
pub(super) struct Memory {
    /// The last request, with the connection as it was answered last.
    request: NetworkServiceRequest,
    /// The connection as a caller was told it last. An event changes the one above only.
    told: Connection,
    /// What accompanied the last request of a caller, with the time of the first one.
    context: Context,
    /// Whether the connection stands downstream. It does not after a reselect that failed, nor
    /// after a close that failed and may be tried again.
    stands: bool,
}

/// A refresh is nothing to tell an operator of, every some minutes for each connection.
fn log_success(stood: bool) {
    match stood {
        true => debug!("connection refreshed"),
        false => info!("connection established"),
    }
}

/// What accompanies a call, and how long such a call may take.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) metadata: HeaderMap,
    pub(super) extensions: Extensions,
    pub(super) budget: TimeBudget,
}

impl Memory {
    /// What is known after a caller's request has succeeded.
    pub(super) fn new(
        former: Option<Self>,
        mut request: NetworkServiceRequest,
        answer: &Connection,
        mut context: Context,
    ) -> Self {
        log_success(former.as_ref().is_some_and(|former| former.stands));
        if let Some(former) = former {
            context.budget = former.context.budget;
        }
        request.connection = Some(answer.clone());
        Self {
            request,
            told: answer.clone(),
            context,
            stands: true,
        }
    }

    /// The connection as it is known.
    pub(super) fn connection(&self) -> Connection {
        self.request.connection.clone().unwrap_or_default()
    }

    /// What is to be asked for when a client asks again.
    pub(super) fn merge(&self, asked: &Connection) -> Connection {
        merge(&self.connection(), &self.told, asked)
    }

    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    /// The same connection after a close.
    pub(super) fn closed(mut self) -> Self {
        self.stands = false;
        self
    }

    pub(super) fn on_failure(&self) -> OnFailure {
        if self.stands {
            OnFailure::Leave
        } else {
            OnFailure::Close
        }
    }

    /// Asks again for what is known, in no more time than that.
    pub(super) async fn ask_again<S: NetworkService>(
        &mut self,
        below: &Below<S>,
        within: Option<Duration>,
    ) -> Result<Connection, Error> {
        let budget = self.context.budget.at_most(within);
        // Whoever is in a hurry does not wait for what is undone either.
        let undo = budget.at_most(within.and(Some(LET_GO)));
        let mut call = self.context.call(Operation::Request(self.request.clone()));
        call.deadline = budget.deadline();

        let mut connection = below.request(call, undo, self.on_failure()).await?;

        log_success(self.stands);
        connection.set_state(State::Up);
        self.request.connection = Some(connection.clone());
        self.stands = true;
        Ok(connection)
    }

    /// Closes what is known.
    pub(super) async fn close<S: NetworkService>(
        &mut self,
        below: &Below<S>,
    ) -> Result<Connection, Error> {
        self.stands = false;
        let close = Operation::Close(self.connection());
        below.call(self.context.call(close)).await
    }

    /// Closes what stands, on the way to something else.
    pub(super) async fn let_go<S: NetworkService>(&mut self, below: &Below<S>) {
        if !std::mem::take(&mut self.stands) {
            return;
        }
        let mut close = self.context.call(Operation::Close(self.connection()));
        close.deadline = self.context.budget.at_most(Some(LET_GO)).deadline();
        close.extensions.insert(Interim);
        if let Err(error) = below.call(close).await {
            warn!(error = %error.report(), "the connection could not be closed and is left");
        }
    }

    /// Changes the connection that is asked for.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Connection)) {
        change(self.request.connection.get_or_insert_default());
    }
}

impl Context {
    /// A call with the full time.
    pub(super) fn call(&self, operation: Operation) -> Call {
        let context = self.clone();
        Call {
            operation,
            metadata: context.metadata,
            deadline: context.budget.deadline(),
            extensions: context.extensions,
        }
    }
}
