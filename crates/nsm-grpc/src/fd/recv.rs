//! Waits for the descriptor that a message names.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use nsm_api::connection::{Connection, Mechanism};
use nsm_api::mechanism::KERNEL;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::metadata::Store;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, Side, take_ready};
use tokio::time::{Duration, Instant};
use tower::{Layer, Service};

use super::open::{open_to_pass, url_of};
use super::{DescriptorError, Inode, Peer};
use crate::patience;

const ELEMENT: &str = "recv_fd";

/// How long a close waits for its descriptor. It comes with the call or not at all, and what the
/// close has to remove does not become less by waiting.
const CLOSE_WAITS: Duration = Duration::from_secs(1);

/// The descriptor that the peer has sent for the network namespace that the message names.
///
/// It may be of anything: whoever uses it checks what it is.
#[derive(Clone, Debug)]
pub struct ReceivedFd(pub Arc<OwnedFd>);

/// Where [`Connect`](crate::Connect) says which connection has carried the call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carrier(Arc<Mutex<Option<Peer>>>);

impl Carrier {
    pub(crate) fn set(&self, peer: Option<Peer>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = peer;
    }

    fn get(&self) -> Option<Peer> {
        let peer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        peer.clone()
    }
}

/// Gives the elements the descriptor that a mechanism names by `inode://`.
///
/// In a server chain ([`server`](Self::server)) it is that of the connection's mechanism, or, as
/// long as there is none, of the first kernel preference; the elements below find it in the call's
/// extensions as [`ReceivedFd`], on requests and on closes. A close whose descriptor does not come
/// goes on without.
///
/// A server that answers with a namespace of its own finds that one in the refreshes and closes that
/// follow, and its peer has no descriptor of it. Where that is the process's own, nobody waits. An
/// endpoint that works in no namespace of its clients needs no such layer.
///
/// In a client chain ([`client`](Self::client)) it is that of the answer's mechanism, and as an
/// answer has no extensions, the elements above find it in the connection's
/// [store](nsm_chain::metadata) of the client side. Whoever needs it takes it out: what stays there
/// pins the endpoint's namespace, with every interface in it, for as long as the connection stands,
/// and the next answer brings another one. The layer sits above [`SendFdLayer`], which gives a
/// namespace of our own that the answer names its `file://` back.
///
/// A mechanism that names none by `inode://` gives none, and so does a call that came over another
/// socket than a unix socket.
///
/// [`SendFdLayer`]: super::SendFdLayer
#[derive(Clone, Copy, Debug)]
pub struct RecvFdLayer {
    side: Side,
}

impl RecvFdLayer {
    /// For a client chain, below its [`MetadataLayer`](nsm_chain::MetadataLayer).
    pub fn client() -> Self {
        Self { side: Side::Client }
    }

    /// For a server chain, below `begin`.
    pub fn server() -> Self {
        Self { side: Side::Server }
    }
}

impl<S> Layer<S> for RecvFdLayer {
    type Service = RecvFd<S>;

    fn layer(&self, inner: S) -> RecvFd<S> {
        RecvFd {
            inner,
            side: self.side,
        }
    }
}

/// The service of [`RecvFdLayer`].
///
/// # Errors
///
/// [`ErrorKind::FailedPrecondition`] when a request or its answer names a descriptor that does not
/// come in time, [`ErrorKind::ResourceExhausted`] when it is lost because this process has too
/// many open, [`ErrorKind::Cancelled`] when the connection ends that it would have come over.
#[derive(Clone, Debug)]
pub struct RecvFd<S> {
    inner: S,
    side: Side,
}

impl<S: NetworkService> Service<Call> for RecvFd<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let inner = take_ready(&mut self.inner);
        match self.side {
            Side::Server => Box::pin(receive_with_call(inner, call)),
            Side::Client => Box::pin(receive_with_answer(inner, call)),
        }
    }
}

async fn receive_with_call<S: NetworkService>(
    mut inner: S,
    mut call: Call,
) -> Result<Connection, Error> {
    // What a call brought here before is not this one's.
    call.extensions.remove::<ReceivedFd>();
    if let Some(peer) = call.extensions.get::<Peer>().cloned() {
        let named = Named::by(&call.operation);
        let is_close = matches!(call.operation, Operation::Close(_));
        let is_own = named.wanted.is_some() && named.wanted == own_namespace();
        let mut until = patience::until(call.deadline);
        if is_own {
            until = Instant::now();
        } else if is_close {
            until = until.min(Instant::now() + CLOSE_WAITS);
        }
        for inode in named.others {
            peer.discard(inode);
        }
        if let Some(inode) = named.wanted {
            match peer.descriptor(inode, until).await {
                Ok(fd) => {
                    call.extensions.insert(ReceivedFd(fd));
                }
                Err(error) if is_close || is_own => {
                    tracing::debug!(%error, "the call goes on without descriptor");
                }
                Err(error) => return Err(refused(error)),
            }
        }
    }
    inner.call(call).await
}

async fn receive_with_answer<S: NetworkService>(
    mut inner: S,
    mut call: Call,
) -> Result<Connection, Error> {
    if matches!(call.operation, Operation::Close(_)) {
        return inner.call(call).await;
    }
    let store = Store::of(&call, Side::Client)
        .cloned()
        .ok_or_else(|| Error::new(ErrorKind::Internal, ELEMENT, NoStore))?;
    let carrier = call.extensions.get_or_insert_default::<Carrier>().clone();
    let until = patience::until(call.deadline);

    let connection = inner.call(call).await?;

    let named = connection.mechanism.as_ref().and_then(inode_of);
    let (Some(inode), Some(peer)) = (named, carrier.get()) else {
        store.remove::<ReceivedFd>();
        return Ok(connection);
    };
    let fd = peer.descriptor(inode, until).await.map_err(refused)?;
    store.insert(ReceivedFd(fd));
    Ok(connection)
}

/// The network namespace that this process works in.
fn own_namespace() -> Option<Inode> {
    // Without /proc there is none to compare with, and every name is waited for.
    let (inode, _) = open_to_pass(Path::new("/proc/self/ns/net")).ok()?;
    Some(inode)
}

#[derive(Debug, thiserror::Error)]
#[error("there is no metadata layer of the client side above")]
struct NoStore;

fn refused(error: DescriptorError) -> Error {
    let kind = match &error {
        DescriptorError::NotSent { .. } => ErrorKind::FailedPrecondition,
        DescriptorError::Closed { .. } => ErrorKind::Cancelled,
        DescriptorError::Lost { .. } | DescriptorError::Duplicate { .. } => {
            ErrorKind::ResourceExhausted
        }
    };
    Error::new(kind, ELEMENT, error)
}

fn inode_of(mechanism: &Mechanism) -> Option<Inode> {
    url_of(mechanism)?.parse().ok()
}

/// The descriptors that come with a call.
#[derive(Debug, Default, PartialEq)]
struct Named {
    wanted: Option<Inode>,
    others: Vec<Inode>,
}

impl Named {
    fn by(operation: &Operation) -> Self {
        match operation {
            Operation::Close(connection) => Self {
                wanted: connection.mechanism.as_ref().and_then(inode_of),
                others: Vec::new(),
            },
            Operation::Request(request) => Self::by_request(request),
        }
    }

    fn by_request(request: &NetworkServiceRequest) -> Self {
        let preferences = &request.mechanism_preferences;
        let wanted = match mechanism_of(request) {
            Some(mechanism) => inode_of(mechanism),
            None => preferences
                .iter()
                .filter(|mechanism| mechanism.r#type == KERNEL)
                .find_map(inode_of),
        };
        let mut others: Vec<_> = preferences.iter().filter_map(inode_of).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|inode| Some(*inode) != wanted);
        Self { wanted, others }
    }
}

fn mechanism_of(request: &NetworkServiceRequest) -> Option<&Mechanism> {
    request.connection.as_ref()?.mechanism.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mechanism(r#type: &str, url: &str) -> Mechanism {
        Mechanism {
            r#type: r#type.to_owned(),
            ..Mechanism::default()
        }
        .with_parameter("inodeURL", url)
    }

    fn named(mechanism: Option<Mechanism>, preferences: Vec<Mechanism>) -> Named {
        Named::by(&Operation::Request(NetworkServiceRequest {
            connection: Some(Connection {
                mechanism,
                ..Connection::default()
            }),
            mechanism_preferences: preferences,
        }))
    }

    fn inode(ino: u64) -> Inode {
        Inode { dev: 4, ino }
    }

    #[test]
    fn the_first_kernel_preference_counts_as_long_as_there_is_no_mechanism() {
        let preferences = vec![
            mechanism("MEMIF", "inode://4/1"),
            mechanism("KERNEL", "file:///proc/1/ns/net"),
            mechanism("KERNEL", "inode://4/2"),
            mechanism("KERNEL", "inode://4/3"),
            mechanism("KERNEL", "inode://4/2"),
        ];

        let named = named(None, preferences);

        assert_eq!(named.wanted, Some(inode(2)));
        assert_eq!(named.others, [inode(1), inode(3)]);
    }

    #[test]
    fn the_mechanism_counts_once_there_is_one() {
        let preferences = vec![mechanism("KERNEL", "inode://4/2")];

        let by_inode = named(
            Some(mechanism("KERNEL", "inode://4/1")),
            preferences.clone(),
        );
        let by_file = named(Some(mechanism("KERNEL", "file:///x")), preferences);

        assert_eq!(by_inode.wanted, Some(inode(1)));
        assert_eq!(by_inode.others, [inode(2)]);
        assert_eq!(by_file.wanted, None);
        assert_eq!(by_file.others, [inode(2)]);
    }

    #[test]
    fn a_descriptor_that_does_not_come_is_a_precise_error() {
        let inode = inode(1);
        let kind = |error| refused(error).kind();

        assert_eq!(
            kind(DescriptorError::NotSent { inode }),
            ErrorKind::FailedPrecondition
        );
        assert_eq!(
            kind(DescriptorError::Lost { inode, lost: 1 }),
            ErrorKind::ResourceExhausted
        );
        assert_eq!(
            kind(DescriptorError::Closed { inode }),
            ErrorKind::Cancelled
        );
    }
}
