//! Keeps one connection: from its first request to its close.
//!
//! A connection is asked for until it stands, and first of all as the forwarder knows it, if it does
//! (see [`resume`]). From then on the chain keeps it: it refreshes it before its tokens end, and
//! heals it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::heal::announce;
use nsm_chain::monitor::Watch;
use nsm_chain::{BoxNetworkService, Call, Error, ErrorKind};
use nsm_grpc::Connected;
use nsm_program::shutdown::Shutdown;
use tokio::sync::watch;
use tokio::time::sleep;
use tower::ServiceExt;
use tracing::info;

use crate::chain::anew;
use crate::resume::{Client, resume};

/// The pauses between attempts: at first, and at most. An attempt that finds nobody has waited for
/// the whole time of a request already.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Everybody knows.
    Yes,
    /// The close failed, and was logged.
    No,
}

/// One connection.
pub struct Keeper {
    chain: BoxNetworkService,
    request: NetworkServiceRequest,
    /// What the transport has connected.
    connected: watch::Receiver<Connected>,
    /// Whose connections may stand already, and who knows of them.
    former: Option<(Client, Arc<dyn Watch>)>,
}

impl Keeper {
    /// Keeps the connection of that request.
    pub fn new(
        chain: BoxNetworkService,
        request: NetworkServiceRequest,
        connected: watch::Receiver<Connected>,
    ) -> Self {
        Self {
            chain,
            request,
            connected,
            former: None,
        }
    }

    /// First of all asks the next hop whether a former process of that client has left the
    /// connection standing.
    #[must_use]
    pub fn resuming(mut self, client: Client, watch: Arc<dyn Watch>) -> Self {
        self.former = Some((client, watch));
        self
    }

    /// Keeps the connection until the end is asked for, and closes it then.
    ///
    /// A request that is under way when the end is asked for is not waited for here: the close waits
    /// for its turn behind it.
    pub async fn keep_until(mut self, shutdown: Shutdown) -> Closed {
        tokio::select! {
            () = self.keep() => {}
            () = shutdown.requested() => {}
        }
        self.close().await
    }

    async fn keep(&mut self) {
        if let Some((client, watch)) = &self.former {
            self.request = resume(self.request.clone(), client, &**watch).await;
        }
        self.stand().await;
        // The chain keeps it from now on.
        std::future::pending().await
    }

    /// Asks until the connection stands.
    async fn stand(&mut self) {
        let mut pause = PAUSE.0;
        // An error is logged by the chain.
        while let Err(error) = self.ask().await {
            if error.kind() == ErrorKind::NotFound
                && let Some(connection) = &mut self.request.connection
            {
                // What a former process has left names an endpoint that is gone.
                anew(connection);
            }
            tokio::select! {
                () = sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)) => {}
                () = self.connected_anew() => {}
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Waits until the transport has another connection.
    async fn connected_anew(&mut self) {
        let generation = self.connected.borrow().generation;
        let another = self.connected.wait_for(|now| now.generation > generation);
        // The transport lives as long as the chain does.
        if another.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn ask(&mut self) -> Result<(), Error> {
        let call = Call::request(self.request.clone());
        let connection = self.chain.clone().oneshot(call).await?;
        announce(&connection);
        self.request.connection = Some(connection);
        Ok(())
    }

    async fn close(self) -> Closed {
        let connection: Connection = self.request.connection.unwrap_or_default();
        let id = connection.id.clone();
        match self.chain.oneshot(Call::close(connection)).await {
            Ok(_) => {
                info!(connection.id = id, "the connection is closed");
                Closed::Yes
            }
            Err(_) => Closed::No,
        }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field(
                "connection.id",
                &self.request.connection.as_ref().map(|it| &it.id),
            )
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_chain::test_util::{FailOn, Fault, Recorder, echo};
    use tokio::time::Instant;
    use tower::ServiceBuilder;

    /// A keeper over a chain in which something goes wrong, what it calls, and its transport.
    fn keeper(wrong: FailOn) -> (Keeper, Recorder, watch::Sender<Connected>) {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(below.clone())
            .layer(wrong)
            .service(echo());
        let (transport, connected) = watch::channel(Connected::default());
        let request = NetworkServiceRequest {
            connection: Some(Connection {
                id: "nsc-0".to_owned(),
                ..Connection::default()
            }),
            ..NetworkServiceRequest::default()
        };
        (Keeper::new(chain, request, connected), below, transport)
    }

    /// A connection of that number.
    fn standing(generation: u64) -> Connected {
        Connected {
            generation,
            stands: true,
        }
    }

    /// Lets everybody do what there is to do.
    async fn settle() {
        sleep(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_asked_for_until_it_stands() {
        let (keeper, below, transport) = keeper(FailOn::request(1));
        let (trigger, shutdown) = Shutdown::new();
        let start = Instant::now();
        let kept = tokio::spawn(keeper.keep_until(shutdown));

        while below.operations().len() < 2 {
            settle().await;
        }
        assert!(start.elapsed() <= PAUSE.0 * 2);
        transport.send_replace(standing(1));
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(below.operations(), ["request"; 2], "it stands");

        trigger.request();
        assert_eq!(kept.await.unwrap(), Closed::Yes);
        assert_eq!(below.operations().last(), Some(&"close"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_found_no_transport_is_made_again_as_soon_as_there_is_one() {
        let (keeper, below, transport) = keeper(FailOn::request(1));
        let (_trigger, shutdown) = Shutdown::new();
        let kept = tokio::spawn(keeper.keep_until(shutdown));
        settle().await;
        assert_eq!(below.operations(), ["request"], "and it has failed");

        transport.send_replace(standing(1));
        settle().await;

        assert_eq!(below.operations(), ["request"; 2]);
        kept.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_former_process_has_left_at_an_endpoint_that_is_gone_is_asked_for_elsewhere() {
        let gone = FailOn::request(1).with(Fault::Error(ErrorKind::NotFound));
        let (mut keeper, below, _transport) = keeper(gone);
        let left = keeper.request.connection.get_or_insert_default();
        left.network_service_endpoint_name = "nse-0".to_owned();
        let (_trigger, shutdown) = Shutdown::new();
        let kept = tokio::spawn(keeper.keep_until(shutdown));

        while below.operations().len() < 2 {
            settle().await;
        }
        let asked = below.last();
        assert_eq!(asked.connection().network_service_endpoint_name, "");
        assert_eq!(asked.connection().id, "nsc-0");
        kept.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_close_that_fails_is_told() {
        let (keeper, _, _transport) = keeper(FailOn::close(1));
        let (trigger, shutdown) = Shutdown::new();
        let kept = tokio::spawn(keeper.keep_until(shutdown));
        settle().await;

        trigger.request();

        assert_eq!(kept.await.unwrap(), Closed::No);
    }
}
