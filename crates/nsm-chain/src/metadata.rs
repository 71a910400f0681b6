//! What elements remember of a connection.
//!
//! Each connection has a store, with one value per type. It is made by the connection's first
//! request and is gone when that fails. A close takes it out of the layer's memory before the
//! call goes on, and the elements below still have it during the close, also during the one with
//! which `begin` undoes a failed request.
//!
//! A forwarder has a store for its server chain and one for its client chain, so that an element
//! that is in both remembers two things. Within a chain a second [`MetadataLayer`] of the same
//! side does nothing.
//!
//! ```
//! use nsm_chain::{Call, Side, metadata::Store};
//!
//! #[derive(Clone)]
//! struct Dialled(String);
//!
//! fn dialled_before(call: &Call) -> Option<Dialled> {
//!     Store::of(call, Side::Client)?.get()
//! }
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use http::Extensions;
use nsm_api::ConnectionId;
use nsm_api::connection::Connection;
use tower::{Layer, Service};

use crate::begin::Attempt;
use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, Side, take_ready};

/// The store of one connection on one side. Clones share it.
#[derive(Clone, Default)]
pub struct Store {
    values: Arc<Mutex<Extensions>>,
}

impl Store {
    /// The store of the call's connection, if there is a [`MetadataLayer`] of that side above.
    pub fn of(call: &Call, side: Side) -> Option<&Self> {
        call.extensions.get::<Stores>()?.get(side)
    }

    /// The value of a type.
    pub fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.values().get().cloned()
    }

    /// Remembers a value and gives back the former one of its type.
    pub fn insert<T: Clone + Send + Sync + 'static>(&self, value: T) -> Option<T> {
        self.values().insert(value)
    }

    /// Forgets the value of a type and gives it back.
    pub fn remove<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.values().remove()
    }

    fn values(&self) -> MutexGuard<'_, Extensions> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

/// The stores of a call, and those that a request leaves for the close that undoes it.
#[derive(Clone, Default)]
struct Stores {
    server: Option<Store>,
    client: Option<Store>,
}

impl Stores {
    fn get(&self, side: Side) -> Option<&Store> {
        match side {
            Side::Server => self.server.as_ref(),
            Side::Client => self.client.as_ref(),
        }
    }

    fn set(extensions: &mut Extensions, side: Side, store: Store) {
        let stores = extensions.get_or_insert_default::<Self>();
        match side {
            Side::Server => stores.server = Some(store),
            Side::Client => stores.client = Some(store),
        }
    }
}

/// Gives each connection a store. See the [module](self).
///
/// It sits below `begin`, which lets one call at a time at a connection. The layer holds the
/// stores: services made by one layer, or by its clones, share them.
#[derive(Clone, Debug)]
pub struct MetadataLayer {
    side: Side,
    known: Arc<Known>,
}

impl MetadataLayer {
    /// A layer for chains of that side, with no connection known.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            known: Arc::default(),
        }
    }

    /// How many connections have a store.
    pub fn connections(&self) -> usize {
        self.known.lock().len()
    }
}

impl<S> Layer<S> for MetadataLayer {
    type Service = Metadata<S>;

    fn layer(&self, inner: S) -> Metadata<S> {
        Metadata {
            inner,
            side: self.side,
            known: Arc::clone(&self.known),
        }
    }
}

/// The service of [`MetadataLayer`].
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if the connection has no id.
#[derive(Clone, Debug)]
pub struct Metadata<S> {
    inner: S,
    side: Side,
    known: Arc<Known>,
}

impl<S: NetworkService> Service<Call> for Metadata<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let side = self.side;
        if Store::of(&call, side).is_some() {
            return Box::pin(inner.call(call));
        }
        let known = Arc::clone(&self.known);
        Box::pin(async move {
            let id = call
                .connection_id()
                .map_err(|empty| Error::new(ErrorKind::InvalidArgument, "metadata", empty))?;
            let attempt = call.extensions.get::<Attempt>().cloned();
            match call.operation {
                Operation::Request(_) => {
                    let (store, fresh) = known.open(id);
                    if let (Some(attempt), Some(_)) = (attempt, &fresh) {
                        attempt.leave(|left| Stores::set(left, side, store.clone()));
                    }
                    Stores::set(&mut call.extensions, side, store);
                    let connection = inner.call(call).await?;
                    if let Some(fresh) = fresh {
                        fresh.keep();
                    }
                    Ok(connection)
                }
                Operation::Close(_) => {
                    let left = || attempt?.left::<Stores>()?.get(side).cloned();
                    let store = known.lock().remove(&id).or_else(left).unwrap_or_default();
                    Stores::set(&mut call.extensions, side, store);
                    inner.call(call).await
                }
            }
        })
    }
}

/// The stores of the connections that stand, or are on the way to.
#[derive(Debug, Default)]
struct Known(Mutex<HashMap<ConnectionId, Store>>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, Store>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store of a connection, and what forgets it again if it is a new one.
    fn open(self: &Arc<Self>, id: ConnectionId) -> (Store, Option<Fresh>) {
        let mut stores = self.lock();
        if let Some(store) = stores.get(&id) {
            return (store.clone(), None);
        }
        let store = stores.entry(id.clone()).or_default().clone();
        let known = Arc::clone(self);
        (
            store,
            Some(Fresh {
                known,
                id,
                kept: false,
            }),
        )
    }
}

/// Forgets the store of a request that does not come to a good end: by an error, or because it is
/// dropped, as in a panic.
struct Fresh {
    known: Arc<Known>,
    id: ConnectionId,
    kept: bool,
}

impl Fresh {
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.kept {
            self.known.lock().remove(&self.id);
        }
    }
}
