//! The element.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};
use tokio::sync::Mutex;
use tower::{Layer, Service};

use crate::local::{Local, Settings};

/// Lets a client use the DNS servers of its connections. See the [crate](crate).
///
/// It sits below `begin`, in a client. The layer holds the proxy: services made by one layer, or by
/// its clones, share it, and when all are gone everything is as it was before.
///
/// It works in the network and mount namespace of the process.
#[derive(Clone, Debug)]
pub struct DnsLayer {
    local: Arc<Mutex<Local>>,
}

impl DnsLayer {
    /// Undoes what a process that was killed has left in the file; besides that, nothing is done
    /// before a connection tells of servers.
    pub fn new(settings: Settings) -> Self {
        Self {
            local: Arc::new(Mutex::new(Local::new(settings))),
        }
    }

    /// Where the proxy listens, if there is one.
    pub async fn address(&self) -> Option<SocketAddr> {
        self.local.lock().await.address()
    }
}

impl<S> Layer<S> for DnsLayer {
    type Service = Dns<S>;

    fn layer(&self, inner: S) -> Dns<S> {
        Dns {
            inner,
            local: Arc::clone(&self.local),
        }
    }
}

/// The service of [`DnsLayer`].
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if the connection has no id. What goes wrong with the proxy or
/// the file is warned about, once; the connection stands all the same.
#[derive(Clone, Debug)]
pub struct Dns<S> {
    inner: S,
    local: Arc<Mutex<Local>>,
}

impl<S: NetworkService> Service<Call> for Dns<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let local = Arc::clone(&self.local);
        Box::pin(async move {
            let id = call
                .connection_id()
                .map_err(|empty| Error::new(ErrorKind::InvalidArgument, "dns", empty))?;
            if matches!(call.operation, Operation::Close(_)) {
                // Its servers are reached no more when the close is done.
                local.lock().await.remove(&id);
                return inner.call(call).await;
            }
            let connection = inner.call(call).await?;
            let context = connection.context.as_ref();
            let dns = context.and_then(|context| context.dns_context.clone());
            let configs = dns.unwrap_or_default().configs;
            local.lock().await.set(id, configs).await;
            Ok(connection)
        })
    }
}
