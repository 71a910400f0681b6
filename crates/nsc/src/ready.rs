//! A file that is there while all connections stand, for a probe of readiness.
//!
//! A connection *stands* from a request that succeeds, with its interface, addresses and policies
//! as they were answered, until it is closed: at the end, or on the way to another endpoint because
//! this one is lost. A refresh that fails changes nothing by itself, and neither does a forwarder
//! that is away: what it has made is in the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use nsm_api::ConnectionId;
use nsm_api::connection::Connection;
use nsm_chain::{BoxFuture, Call, Error, ErrorKind, NetworkService, Operation, take_ready};
use tower::{Layer, Service};
use tracing::{info, warn};

/// Makes a file when all connections stand, and removes it when one no longer does. See the
/// [module](self).
///
/// It sits below `begin`, which lets it see what the chain does by itself, and above all that makes
/// a connection work. Clones are of one file.
#[derive(Clone, Debug)]
pub struct ReadyLayer {
    standing: Arc<Mutex<Standing>>,
}

#[derive(Debug)]
struct Standing {
    file: PathBuf,
    /// How many connections there are to be.
    all: usize,
    ids: BTreeSet<ConnectionId>,
    /// Whether the file is there.
    ready: bool,
    /// Whether it was said that something is wrong with it.
    warned: bool,
    ended: bool,
}

impl ReadyLayer {
    /// A file for so many connections, none of which stands. One that a process has left that was
    /// killed is removed.
    pub fn new(file: PathBuf, all: usize) -> Self {
        let mut standing = Standing {
            file,
            all,
            ids: BTreeSet::new(),
            ready: false,
            warned: false,
            ended: false,
        };
        standing.ready = !standing.remove();
        Self {
            standing: Arc::new(Mutex::new(standing)),
        }
    }

    /// Removes the file, whatever stands, and makes it no more.
    pub fn end(&self) {
        let mut standing = self.standing();
        standing.ended = true;
        standing.tell();
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    /// Makes or removes the file if it is not as it should be. What fails is tried again the next time
    /// that something is heard of a connection.
    fn tell(&mut self) {
        let ready = !self.ended && self.ids.len() == self.all;
        if ready == self.ready {
            return;
        }
        let done = if ready { self.make() } else { self.remove() };
        if done {
            self.ready = ready;
        }
    }

    fn make(&mut self) -> bool {
        match fs::write(&self.file, "") {
            Ok(()) => self.is_done("ready"),
            Err(error) => self.fails(&error, "ready, but the file cannot be made"),
        }
    }

    fn remove(&mut self) -> bool {
        match fs::remove_file(&self.file) {
            Ok(()) => self.is_done("not ready"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => self.fails(&error, "not ready, but the file cannot be removed"),
        }
    }

    fn is_done(&mut self, what: &str) -> bool {
        self.warned = false;
        info!(file = %self.file.display(), "{what}");
        true
    }

    /// Warns once: refreshes go on for days.
    fn fails(&mut self, error: &io::Error, what: &str) -> bool {
        if !std::mem::replace(&mut self.warned, true) {
            warn!(file = %self.file.display(), %error, "{what}");
        }
        false
    }
}

impl<S> Layer<S> for ReadyLayer {
    type Service = Ready<S>;

    fn layer(&self, inner: S) -> Ready<S> {
        Ready {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service of [`ReadyLayer`].
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] if the connection has no id. What goes wrong with the file is
/// logged.
#[derive(Clone, Debug)]
pub struct Ready<S> {
    inner: S,
    layer: ReadyLayer,
}

impl<S: NetworkService> Service<Call> for Ready<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let layer = self.layer.clone();
        Box::pin(async move {
            let id = call
                .connection_id()
                .map_err(|empty| Error::new(ErrorKind::InvalidArgument, "ready", empty))?;
            let is_request = matches!(call.operation, Operation::Request(_));
            if !is_request {
                // It stands no more before anything of it goes.
                let mut standing = layer.standing();
                standing.ids.remove(&id);
                standing.tell();
            }
            let connection = inner.call(call).await?;
            if is_request {
                let mut standing = layer.standing();
                standing.ids.insert(id);
                standing.tell();
            }
            Ok(connection)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_api::networkservice::NetworkServiceRequest;
    use nsm_chain::begin::Events;
    use nsm_chain::test_util::{FailOn, Recorder, echo};
    use nsm_chain::{BeginLayer, BoxNetworkService, Side};
    use tower::{ServiceBuilder, ServiceExt};

    /// A client of two connections with a file of its own, in whose chain something goes wrong.
    struct Client {
        file: PathBuf,
        ready: ReadyLayer,
        below: Recorder,
        chain: BoxNetworkService,
    }

    impl Client {
        fn new(test: &str, wrong: FailOn) -> Self {
            let name = format!("nsc-ready-{test}-{}", std::process::id());
            let file = std::env::temp_dir().join(name);
            fs::write(&file, "of a process that was killed").unwrap();
            let ready = ReadyLayer::new(file.clone(), 2);
            let below = Recorder::new();
            let chain = ServiceBuilder::new()
                .layer(BoxNetworkService::layer())
                .layer(BeginLayer::new(Side::Client))
                .layer(ready.clone())
                .layer(below.clone())
                .layer(wrong)
                .service(echo());
            Self {
                file,
                ready,
                below,
                chain,
            }
        }

        async fn request(&self, id: &str) -> bool {
            let call = Call::request(NetworkServiceRequest {
                connection: Some(of(id)),
                ..NetworkServiceRequest::default()
            });
            self.chain.clone().oneshot(call).await.is_ok()
        }

        async fn close(&self, id: &str) {
            let call = Call::close(of(id));
            self.chain.clone().oneshot(call).await.unwrap();
        }

        fn is_ready(&self) -> bool {
            self.file.exists()
        }
    }

    impl Drop for Client {
        fn drop(&mut self) {
            self.ready.end();
        }
    }

    fn of(id: &str) -> Connection {
        Connection {
            id: id.to_owned(),
            ..Connection::default()
        }
    }

    #[tokio::test]
    async fn the_file_is_there_from_the_last_connection_that_comes_to_the_first_that_goes() {
        let client = Client::new("life", FailOn::request(0));
        assert!(!client.is_ready(), "what was left is gone");
        for id in ["0", "0"] {
            assert!(client.request(id).await);
            assert!(!client.is_ready());
        }
        assert!(client.request("1").await);
        assert!(client.is_ready());

        client.close("0").await;
        assert!(!client.is_ready());
    }

    #[tokio::test]
    async fn a_refresh_that_fails_changes_nothing() {
        let client = Client::new("refresh", FailOn::request(3));
        assert!(client.request("0").await && client.request("1").await);

        assert!(!client.request("1").await);

        assert!(client.is_ready());
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_made_is_made_at_a_later_refresh() {
        let client = Client::new("late", FailOn::request(0));
        fs::create_dir(&client.file).unwrap();
        assert!(client.request("0").await && client.request("1").await);
        assert!(client.file.is_dir());
        fs::remove_dir(&client.file).unwrap();

        assert!(client.request("0").await);

        assert!(client.file.is_file());
    }

    #[tokio::test]
    async fn a_connection_that_looks_for_another_endpoint_does_not_stand_until_it_has_one() {
        let client = Client::new("reselect", FailOn::request(3));
        assert!(client.request("0").await && client.request("1").await);
        let events = client.below.last().extensions.get::<Events>().cloned();
        let events = events.unwrap();

        events.reselect().await.unwrap_err();
        assert!(!client.is_ready());

        events.reselect().await.unwrap();
        assert!(client.is_ready());
    }

    #[tokio::test]
    async fn from_the_end_on_nothing_makes_it_ready() {
        let client = Client::new("end", FailOn::request(0));
        assert!(client.request("0").await && client.request("1").await);

        client.ready.end();
        assert!(!client.is_ready());

        assert!(client.request("0").await);
        assert!(!client.is_ready());
    }
}
