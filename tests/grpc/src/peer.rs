//! A plain connection for the generated clients, without anything of the edge in it.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tonic::body::Body;
use tower::Service;

/// A plain connection over a unix socket.
#[derive(Clone, Debug)]
pub struct Channel(SendRequest<Body>);

impl Channel {
    /// Connects.
    pub async fn connect(path: &Path) -> Self {
        Self::over(UnixStream::connect(path).await.unwrap()).await
    }

    /// Speaks HTTP/2 over a connection.
    pub async fn over(stream: UnixStream) -> Self {
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self(sender)
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        // A client that is given no origin leaves out scheme and authority.
        let path = parts.uri.path().to_owned();
        let uri = Uri::builder().scheme("http").authority("localhost");
        parts.uri = uri.path_and_query(path).build().unwrap();
        Box::pin(self.0.send_request(Request::from_parts(parts, body)))
    }
}
