//! Sends the descriptor of a network namespace along with the message that names it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::{Connection, Mechanism};
use nsm_chain::{
    BoxFuture, Call, Error, ErrorChain, ErrorKind, NetworkService, Operation, Side, take_ready,
};
use tower::{Layer, Service};

use super::open::{file_of, open_to_pass, set_url, url_of};
use super::{Inode, OpenError, Peer};

const ELEMENT: &str = "send_fd";

/// The descriptors that go with a call. [`Connect`](crate::Connect) sends them over the very
/// connection that carries the call.
#[derive(Clone)]
pub(crate) struct Outgoing(pub(crate) Arc<Vec<OwnedFd>>);

/// Sends the network namespaces that a message names by `file://`, and names them by `inode://`.
///
/// In a client chain it sits right above [`Connect`](crate::Connect): the namespace of each
/// mechanism preference and of the connection's mechanism goes out with a request, that of the
/// mechanism with a close. Where the answer names one of them, it gets its `file://` back.
///
/// In a server chain ([`server`](Self::server)) it does the same for the mechanism of the answer
/// to a request.
#[derive(Clone, Copy, Debug)]
pub struct SendFdLayer {
    side: Side,
}

impl SendFdLayer {
    /// For a client chain.
    pub fn client() -> Self {
        Self { side: Side::Client }
    }

    /// For a server chain.
    pub fn server() -> Self {
        Self { side: Side::Server }
    }
}

impl<S> Layer<S> for SendFdLayer {
    type Service = SendFd<S>;

    fn layer(&self, inner: S) -> SendFd<S> {
        SendFd {
            inner,
            side: self.side,
        }
    }
}

/// The service of [`SendFdLayer`].
///
/// # Errors
///
/// [`ErrorKind::FailedPrecondition`] when a namespace of a request or of its answer cannot be
/// opened, or the answer would have to name one to a peer that is not on a unix socket;
/// [`ErrorKind::ResourceExhausted`] when too many descriptors are open for that. A close goes on
/// without.
#[derive(Clone, Debug)]
pub struct SendFd<S> {
    inner: S,
    side: Side,
}

impl<S: NetworkService> Service<Call> for SendFd<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        match self.side {
            Side::Client => Box::pin(send_with_call(inner, call)),
            Side::Server => Box::pin(async move {
                let peer = call.extensions.get::<Peer>().cloned();
                let is_request = matches!(call.operation, Operation::Request(_));
                let mut connection = inner.call(call).await?;
                if is_request && let Some(mechanism) = &mut connection.mechanism {
                    send_with_answer(mechanism, peer)?;
                }
                Ok(connection)
            }),
        }
    }
}

async fn send_with_call<S: NetworkService>(
    mut inner: S,
    mut call: Call,
) -> Result<Connection, Error> {
    let mut sent = Sent::default();
    match &mut call.operation {
        Operation::Request(request) => {
            let connection = request.connection.iter_mut();
            let mechanisms = connection.filter_map(|connection| connection.mechanism.as_mut());
            for mechanism in mechanisms.chain(&mut request.mechanism_preferences) {
                sent.swap(mechanism).map_err(refused)?;
            }
        }
        Operation::Close(connection) => {
            if let Some(mechanism) = &mut connection.mechanism
                && let Err(error) = sent.swap(mechanism)
            {
                // The namespace may be gone: the more reason to close.
                tracing::debug!(error = %ErrorChain(&error), "the close goes on without descriptor");
            }
        }
    }
    let urls = sent.urls;
    if !sent.fds.is_empty() {
        call.extensions.insert(Outgoing(Arc::new(sent.fds)));
    }
    let mut connection = inner.call(call).await?;
    if let Some(mechanism) = &mut connection.mechanism
        && let Some(file) = url_of(mechanism).and_then(|url| urls.get(url))
    {
        set_url(mechanism, file);
    }
    Ok(connection)
}

fn send_with_answer(mechanism: &mut Mechanism, peer: Option<Peer>) -> Result<(), Error> {
    let Some(path) = file_of(mechanism).map_err(refused)? else {
        return Ok(());
    };
    let peer = peer.ok_or_else(|| Error::new(ErrorKind::FailedPrecondition, ELEMENT, NoSocket))?;
    let (inode, fd) = open_to_pass(&path).map_err(refused)?;
    peer.send(fd)
        .map_err(|full| Error::new(ErrorKind::ResourceExhausted, ELEMENT, full))?;
    set_url(mechanism, inode.to_string());
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("descriptors travel over unix sockets only, and the call came over another")]
struct NoSocket;

fn refused(error: OpenError) -> Error {
    let kind = match error.is_for_want_of_descriptors() {
        true => ErrorKind::ResourceExhausted,
        false => ErrorKind::FailedPrecondition,
    };
    Error::new(kind, ELEMENT, error)
}

/// What goes out with a call.
#[derive(Default)]
struct Sent {
    /// One for each file, however often it is named.
    fds: Vec<OwnedFd>,
    /// `inode://` to `file://`.
    urls: BTreeMap<String, String>,
}

impl Sent {
    /// Names the namespace of a mechanism by its descriptor.
    fn swap(&mut self, mechanism: &mut Mechanism) -> Result<(), OpenError> {
        let (Some(path), Some(file)) = (file_of(mechanism)?, url_of(mechanism)) else {
            return Ok(());
        };
        let file = file.to_owned();
        let (inode, fd): (Inode, _) = open_to_pass(&path)?;
        let url = inode.to_string();
        if !self.urls.contains_key(&url) {
            self.fds.push(fd);
            self.urls.insert(url.clone(), file);
        }
        set_url(mechanism, url);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::networkservice::NetworkServiceRequest;
    use nsm_chain::test_util::{Recorder, echo};
    use tower::{ServiceBuilder, ServiceExt};

    fn kernel(url: &str) -> Mechanism {
        Mechanism::kernel().with_parameter("inodeURL", url)
    }

    fn null() -> String {
        let file = std::fs::File::open("/dev/null").unwrap();
        Inode::of(&file).unwrap().to_string()
    }

    fn connection(url: &str) -> Connection {
        Connection {
            mechanism: Some(kernel(url)),
            ..Connection::default()
        }
    }

    #[tokio::test]
    async fn a_request_carries_each_namespace_once_and_names_it_by_its_inode() {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(SendFdLayer::client())
            .layer(below.clone())
            .service(echo());
        let request = NetworkServiceRequest {
            connection: Some(connection("file:///dev/null")),
            mechanism_preferences: vec![
                kernel("file:///dev/null"),
                kernel("file:///dev/zero"),
                kernel("inode://1/2"),
            ],
        };

        let answer = chain.oneshot(Call::request(request)).await.unwrap();

        let call = below.last();
        assert_eq!(call.extensions.get::<Outgoing>().unwrap().0.len(), 2);
        assert_eq!(call.connection().mechanism, Some(kernel(&null())));
        let Operation::Request(request) = call.operation else {
            panic!("it was a request");
        };
        let preferences = request.mechanism_preferences;
        assert_eq!(preferences[0], kernel(&null()));
        assert!(url_of(&preferences[1]).unwrap().starts_with("inode://"));
        assert_eq!(preferences[2], kernel("inode://1/2"));
        assert_eq!(answer, connection("file:///dev/null"));
    }

    #[tokio::test]
    async fn a_namespace_that_cannot_be_opened_fails_a_request_and_not_a_close() {
        let chain = ServiceBuilder::new()
            .layer(SendFdLayer::client())
            .service(echo());
        for url in ["file:///proc/0/ns/net", "file://", "file:///dev/null%0"] {
            let gone = connection(url);
            let request = NetworkServiceRequest {
                connection: Some(gone.clone()),
                ..NetworkServiceRequest::default()
            };

            let failed = chain.clone().oneshot(Call::request(request)).await;
            let closed = chain.clone().oneshot(Call::close(gone.clone())).await;

            assert_eq!(failed.unwrap_err().kind(), ErrorKind::FailedPrecondition);
            assert_eq!(closed.unwrap(), gone);
        }
    }

    #[tokio::test]
    async fn the_path_of_a_namespace_may_be_encoded() {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(SendFdLayer::client())
            .layer(below.clone())
            .service(echo());
        let request = NetworkServiceRequest {
            connection: Some(connection("file:///dev/n%75ll")),
            ..NetworkServiceRequest::default()
        };

        chain.oneshot(Call::request(request)).await.unwrap();

        assert_eq!(below.last().connection().mechanism, Some(kernel(&null())));
    }

    #[tokio::test]
    async fn a_server_has_no_descriptor_for_a_peer_that_is_on_no_unix_socket() {
        let chain = ServiceBuilder::new()
            .layer(SendFdLayer::server())
            .service(echo());
        let request = NetworkServiceRequest {
            connection: Some(connection("file:///dev/null")),
            ..NetworkServiceRequest::default()
        };

        let error = chain.oneshot(Call::request(request)).await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    }
}
