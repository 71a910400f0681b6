//! Keeps a connection working: hears from the next hop what becomes of it, feels whether its
//! traffic gets through, and asks for it again, or for another endpoint.
//!
//! | what happens | what is done |
//! | --- | --- |
//! | the next hop says that there is something new | the connection is asked for again, at once |
//! | the next hop is not heard any more | it is listened for until it is back. If it knows nothing of the connection then, that is asked for again. What stands, stands: rules and interfaces outlive a hop |
//! | the connection is down behind the next hop, or not known there | it is asked for again, at once, and with growing pauses while nobody is reached; another endpoint is asked for as soon as an answer says that this one is gone, or after `patience` |
//! | its traffic gets no answer any more, three times in a row | it is asked for again; if that does not help, another endpoint is asked for |
//! | a refresh fails | nothing: [`refresh`](crate::refresh) tries again |
//!
//! To ask for the connection again is always tried first: the hops on the way repair what is theirs,
//! and nothing that stands is taken down for it. To ask for another endpoint closes the connection
//! first; what it asks for then is up to [`begin`](crate::begin).
//!
//! There is one repair at a time for a connection, each attempt has a deadline that grows from two
//! seconds to the time of a request, and the pauses between repairs grow as well: a next hop that says and
//! says again that something is wrong makes no storm. A close ends it all.
//!
//! In the mesh's Go components this is the work of two elements, heal and upstreamrefresh.

mod keep;
mod pace;
mod pulse;

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use nsm_api::ConnectionId;
use nsm_api::connection::Connection;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Duration;
use tower::{Layer, Service};
use tracing::info;

use crate::begin::{Events, Interim};
use crate::monitor::Watch;
use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};
use keep::{Answered, Keep, Progress};

/// Tells an operator, in a log, what a connection is that stands now: at first, and each time that it
/// does again.
pub fn announce(connection: &Connection) {
    let kernel = connection.kernel_mechanism();
    info!(
        connection.id = connection.id,
        service = connection.network_service,
        endpoint = connection.network_service_endpoint_name,
        interface = kernel.and_then(|kernel| kernel.interface_name()),
        addresses = connection.src_ip_addrs().join(","),
        policies = connection.policies().len(),
        "the connection stands"
    );
}

/// Tells whether a connection's traffic gets through.
pub trait Liveness: Send + Sync + 'static {
    /// Whether it does at the moment. It answers within a time of its own. What it cannot tell of a
    /// connection counts as alive.
    fn is_alive<'a>(
        &'a self,
        connection: &'a Connection,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
}

/// Keeps a connection working. See the [module](self).
///
/// It sits on the client side of the process that wants the connection, below `begin` and above the
/// call to the next hop. The layer holds a task for each connection that stands: services made by
/// one layer, or by its clones, share them.
#[derive(Clone)]
pub struct HealLayer {
    heal: Arc<Heal>,
}

/// How it is healed, and what is.
struct Heal {
    how: How,
    kept: Arc<Kept>,
}

#[derive(Clone)]
struct How {
    watch: Arc<dyn Watch>,
    liveness: Option<(Arc<dyn Liveness>, Duration)>,
    patience: Duration,
    all_together: bool,
}

/// The connections that are kept.
#[derive(Default)]
struct Kept(Mutex<HashMap<ConnectionId, Keeper>>);

struct Keeper {
    answered: watch::Sender<Answered>,
    /// To be asked for again, as another connection is.
    wanted: Arc<Notify>,
    task: AbortHandle,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HealLayer {
    /// Hears by `watch`, and feels nothing. Its patience is 30 seconds.
    pub fn new(watch: impl Watch) -> Self {
        Self::of(How {
            watch: Arc::new(watch),
            liveness: None,
            patience: Duration::from_secs(30),
            all_together: false,
        })
    }

    fn of(how: How) -> Self {
        Self {
            heal: Arc::new(Heal {
                how,
                kept: Arc::default(),
            }),
        }
    }

    /// Feels as well: so long after each answer the next is asked for.
    #[must_use]
    pub fn liveness(self, liveness: impl Liveness, interval: Duration) -> Self {
        Self::of(How {
            liveness: Some((Arc::new(liveness), interval)),
            ..self.heal.how.clone()
        })
    }

    /// For how long a connection that is down is asked for as it is while nobody is reached, before
    /// another endpoint is asked for.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self::of(How {
            patience,
            ..self.heal.how.clone()
        })
    }

    /// Asks for all connections again when there is something new for one: what an endpoint changes
    /// for one connection of a client may come from what it knows of the client's others.
    #[must_use]
    pub fn all_together(self, all_together: bool) -> Self {
        Self::of(How {
            all_together,
            ..self.heal.how.clone()
        })
    }

    /// How many connections are kept.
    pub fn connections(&self) -> usize {
        self.heal.kept.lock().len()
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, Keeper>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has all others asked for again.
    fn want_others(&self, but: &ConnectionId) {
        let kept = self.lock();
        let others = kept.iter().filter(|(id, _)| *id != but);
        others.for_each(|(_, keeper)| keeper.wanted.notify_one());
    }
}

impl Heal {
    /// A request has succeeded.
    fn stands(&self, id: ConnectionId, answered: Answered) {
        let mut kept = self.kept.lock();
        if let Some(keeper) = kept.get(&id)
            && !keeper.task.is_finished()
        {
            keeper.answered.send_replace(answered);
            return;
        }
        let (sender, receiver) = watch::channel(answered);
        let wanted = Arc::new(Notify::new());
        let keep = Keep {
            id: id.clone(),
            how: self.how.clone(),
            answered: receiver,
            wanted: Arc::clone(&wanted),
            // A task that held them would keep those of a chain that is gone.
            others: Arc::downgrade(&self.kept),
            progress: Progress::default(),
        };
        let keeper = Keeper {
            answered: sender,
            wanted,
            task: tokio::spawn(keep.run()).abort_handle(),
        };
        kept.insert(id, keeper);
    }

    fn ends(&self, id: &ConnectionId) {
        self.kept.lock().remove(id);
    }
}

impl<S> Layer<S> for HealLayer {
    type Service = Healed<S>;

    fn layer(&self, inner: S) -> Healed<S> {
        Healed {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service of [`HealLayer`].
///
/// # Errors
///
/// * [`ErrorKind::InvalidArgument`]: the connection has no id.
/// * [`ErrorKind::Internal`]: there is no `begin` above.
#[derive(Clone, Debug)]
pub struct Healed<S> {
    inner: S,
    layer: HealLayer,
}

impl<S: NetworkService> Service<Call> for Healed<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let heal = Arc::clone(&self.layer.heal);
        Box::pin(async move {
            let id = call
                .connection_id()
                .map_err(|empty| Error::new(ErrorKind::InvalidArgument, "heal", empty))?;
            if let Operation::Close(_) = call.operation {
                if call.extensions.get::<Interim>().is_none() {
                    heal.ends(&id);
                }
                return inner.call(call).await;
            }
            let events = Events::of(&call, "heal")?;
            let to = heal.how.watch.next_hop(&call.extensions);

            let connection = inner.call(call).await?;

            let answered = Answered {
                connection: connection.clone(),
                to,
                events,
            };
            heal.stands(id, answered);
            Ok(connection)
        })
    }
}

impl fmt::Debug for HealLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealLayer")
            .field("connections", &self.connections())
            .field("liveness", &self.heal.how.liveness.is_some())
            .field("patience", &self.heal.how.patience)
            .field("all_together", &self.heal.how.all_together)
            .finish_non_exhaustive()
    }
}
