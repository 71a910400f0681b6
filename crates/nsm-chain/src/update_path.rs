//! Keeps the path of a connection: each hop has a segment, with its own id for the connection.
//!
//! On the way down the path moves on to this hop, and the connection gets this hop's id:
//!
//! * A connection without a path starts one here, with its id or a new one.
//! * A path that is at this hop already stays there, and the id is taken from it. So the client
//!   chain inside a forwarder, which has the name of its server chain, adds no second segment.
//! * Otherwise the next segment becomes ours: as it is if it has our name, renamed and with a
//!   new id if it has another (the way has changed, and all behind it is a new connection), and
//!   appended if there is none.
//!
//! So an id is stable across refreshes, and across a restart of a hop that keeps its name. The
//! answer to a request goes up with the index and the id of the hop before; a close
//! answers with the connection as it went down.

use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::ConnectionId;
use nsm_api::connection::{Connection, PathSegment};
use tower::{Layer, Service};

use crate::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};

/// How many hops a path may have. The mesh's own have six and a few more between clusters, and each
/// hop keeps the path for as long as the connection stands.
const MOST: usize = 64;

/// Makes the path of each connection pass through this process. See the [module](self).
///
/// It sits above `begin`, which tells connections apart by this hop's ids.
#[derive(Clone, Debug)]
pub struct UpdatePathLayer {
    name: Arc<str>,
}

impl UpdatePathLayer {
    /// `name` is the name of this process in every path. A process that keeps its name across a
    /// restart keeps its connections.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into() }
    }
}

impl<S> Layer<S> for UpdatePathLayer {
    type Service = UpdatePath<S>;

    fn layer(&self, inner: S) -> UpdatePath<S> {
        UpdatePath {
            inner,
            name: Arc::clone(&self.name),
        }
    }
}

/// The service of [`UpdatePathLayer`].
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if the path points past its end, contradicts the connection's
/// id, or has more than 64 segments; the call does not go on then.
#[derive(Clone, Debug)]
pub struct UpdatePath<S> {
    inner: S,
    name: Arc<str>,
}

impl<S: NetworkService> Service<Call> for UpdatePath<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let name = Arc::clone(&self.name);
        Box::pin(async move {
            let before = move_on(call.connection_mut(), &name)
                .map_err(|wrong| Error::new(ErrorKind::InvalidArgument, "update_path", wrong))?;
            let restores = matches!(call.operation, Operation::Request(_));
            let mut connection = inner.call(call).await?;
            if restores {
                before.restore(&mut connection);
            }
            Ok(connection)
        })
    }
}

/// Where the hop before sees the connection.
struct Before {
    index: u32,
    id: String,
}

impl Before {
    fn restore(self, connection: &mut Connection) {
        connection.id = self.id;
        connection.path.get_or_insert_default().index = self.index;
    }
}

/// A path that no hop before can have sent.
#[derive(Debug, PartialEq, thiserror::Error)]
enum PathError {
    #[error("path index {index} lies outside of the {segments} segments")]
    Index { index: u32, segments: usize },
    #[error("the connection's id is {id:?}, and in its path {segment:?}")]
    Id { id: String, segment: String },
    #[error("the path has {segments} segments, and {MOST} are the most")]
    TooLong { segments: usize },
}

/// Moves the connection on to the hop `name`, and tells where it was before.
fn move_on(connection: &mut Connection, name: &str) -> Result<Before, PathError> {
    let path = connection.path.get_or_insert_default();
    let segments = path.path_segments.len();
    if segments > MOST {
        return Err(PathError::TooLong { segments });
    }
    if segments == 0 {
        if connection.id.is_empty() {
            connection.id = ConnectionId::random().into();
        }
        path.index = 0;
        path.path_segments.push(segment(name, &connection.id));
        let id = connection.id.clone();
        return Ok(Before { index: 0, id });
    }
    let Some(current) = path.current_segment() else {
        return Err(PathError::Index {
            index: path.index,
            segments,
        });
    };
    let before = Before {
        index: path.index,
        id: current.id.clone(),
    };
    if current.name == name {
        connection.id.clone_from(&before.id);
        return Ok(before);
    }
    if before.id != connection.id {
        return Err(PathError::Id {
            id: connection.id.clone(),
            segment: before.id,
        });
    }
    path.index += 1;
    connection.id = match path.path_segments.get_mut(path.index as usize) {
        Some(next) if next.name == name => next.id.clone(),
        next => {
            let id = ConnectionId::random().to_string();
            match next {
                Some(next) => {
                    next.name = name.to_owned();
                    next.id.clone_from(&id);
                }
                None => path.path_segments.push(segment(name, &id)),
            }
            id
        }
    };
    Ok(before)
}

fn segment(name: &str, id: &str) -> PathSegment {
    PathSegment {
        name: name.to_owned(),
        id: id.to_owned(),
        ..PathSegment::default()
    }
}
