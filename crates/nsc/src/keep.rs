//! Keeps one connection: from its first request to its close.
//!
//! A connection is asked for until it stands. From then on the chain refreshes it before its tokens
//! end, and it is asked for here once more whenever the transport to the forwarder has been
//! established anew: the forwarder that answers now may know nothing of it, and may have to make
//! its interface again.

use std::time::Duration;

use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{BoxNetworkService, Call, Error};
use nsm_grpc::Connected;
use nsm_program::shutdown::Shutdown;
use tokio::sync::watch;
use tokio::time::sleep;
use tower::ServiceExt;
use tracing::info;

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
#[derive(Clone, Debug)]
pub struct Keeper {
    chain: BoxNetworkService,
    request: NetworkServiceRequest,
    /// What the transport has connected.
    connected: watch::Receiver<Connected>,
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
        }
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
        loop {
            let carrier = self.stand().await;
            self.connected_after(carrier).await;
        }
    }

    /// Asks until the connection stands, and tells which connection of the transport has carried
    /// that.
    async fn stand(&mut self) -> u64 {
        let mut pause = PAUSE.0;
        loop {
            let before = *self.connected.borrow();
            // It is carried by the connection that stands, or else by the next one.
            let carrier = before.generation + u64::from(!before.stands);
            // An error is logged by the chain.
            if self.ask().await.is_ok() {
                return carrier;
            }
            // If none came, it was carried by none.
            let carrier = carrier.min(self.connected.borrow().generation);
            tokio::select! {
                () = sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)) => {}
                () = self.connected_after(carrier) => {}
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Waits until the transport has another connection.
    async fn connected_after(&mut self, generation: u64) {
        let another = self.connected.wait_for(|now| now.generation > generation);
        // The transport lives as long as the chain does.
        if another.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn ask(&mut self) -> Result<(), Error> {
        let call = Call::request(self.request.clone());
        let connection = self.chain.clone().oneshot(call).await?;
        let kernel = connection.kernel_mechanism();
        info!(
            connection.id = connection.id,
            service = connection.network_service,
            interface = kernel.and_then(|kernel| kernel.interface_name()),
            addresses = connection.src_ip_addrs().join(","),
            policies = connection.policies().len(),
            "the connection stands"
        );
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

#[cfg(test)]
mod tests {
    use super::*;
    use nsm_chain::NetworkService;
    use nsm_chain::test_util::{FailOn, Recorder, echo};
    use std::sync::{Arc, OnceLock};
    use tokio::time::Instant;
    use tower::ServiceBuilder;

    /// A keeper over a chain in which something goes wrong, what it calls, and its transport.
    fn keeper(wrong: FailOn) -> (Keeper, Recorder, watch::Sender<Connected>) {
        keeper_of(ServiceBuilder::new().layer(wrong).service(echo()))
    }

    fn keeper_of(chain: impl NetworkService) -> (Keeper, Recorder, watch::Sender<Connected>) {
        let below = Recorder::new();
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(below.clone())
            .service(chain);
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

    /// A far end that is reached by a connection which comes while the call waits.
    fn reached_late(
        transport: Arc<OnceLock<watch::Sender<Connected>>>,
        wrong: FailOn,
    ) -> impl NetworkService {
        ServiceBuilder::new()
            .map_request(move |call: Call| {
                let connected = transport.get().unwrap();
                let generation = connected.borrow().generation + 1;
                connected.send_if_modified(|now| {
                    let comes = !now.stands;
                    if comes {
                        *now = standing(generation);
                    }
                    comes
                });
                call
            })
            .layer(wrong)
            .service(echo())
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
    async fn it_is_asked_for_again_as_soon_as_the_transport_is_back() {
        let (keeper, below, transport) = keeper(FailOn::request(0));
        let (_trigger, shutdown) = Shutdown::new();
        let kept = tokio::spawn(keeper.keep_until(shutdown));
        transport.send_replace(standing(1));
        settle().await;
        assert_eq!(below.operations().len(), 1);

        for generation in 2..5 {
            transport.send_replace(standing(generation));
            settle().await;
            assert_eq!(below.operations().len() as u64, generation);
        }
        kept.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_the_forwarder_refuses_is_made_again_after_a_pause() {
        let late = Arc::new(OnceLock::new());
        let (keeper, below, transport) =
            keeper_of(reached_late(Arc::clone(&late), FailOn::request(1)));
        late.set(transport).unwrap();
        let (_trigger, shutdown) = Shutdown::new();
        let start = Instant::now();
        let kept = tokio::spawn(keeper.keep_until(shutdown));

        while below.operations().len() < 2 {
            settle().await;
        }
        assert!(start.elapsed() >= PAUSE.0 / 2, "{:?}", start.elapsed());
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(below.operations(), ["request"; 2]);
        kept.abort();
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
    async fn a_request_that_has_waited_for_the_transport_is_not_made_twice() {
        let late = Arc::new(OnceLock::new());
        let (keeper, below, transport) =
            keeper_of(reached_late(Arc::clone(&late), FailOn::request(0)));
        // There was a connection, and it has ended.
        transport.send_replace(Connected {
            generation: 7,
            stands: false,
        });
        late.set(transport).unwrap();
        let (_trigger, shutdown) = Shutdown::new();
        let kept = tokio::spawn(keeper.keep_until(shutdown));

        sleep(Duration::from_secs(3600)).await;

        assert_eq!(below.operations(), ["request"]);
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
