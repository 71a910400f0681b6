//! The client's chain in the process of the suite, where a case has to say when it calls.

use clap::Parser;
use futures_util::StreamExt;
use http::Extensions;
use nsm_api::connection::{Connection, ConnectionEvent, State};
use nsm_api::mechanism::{INTERFACE_NAME, KERNEL, NETNS_URL};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::begin::AnswerLayer;
use nsm_chain::monitor::{EventStream, Watch, of_segment};
use nsm_chain::token::Unsigned;
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, DeadlineLayer, Error, MetadataLayer, RefreshLayer, Side,
    TokenLayer, UpdatePathLayer,
};
use nsm_grpc::{Connect, SendFdLayer, Transport};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tower::{ServiceBuilder, ServiceExt};

/// A client that calls when it is told to, and does nothing by itself but refresh.
///
/// All its calls go over one transport.
#[derive(Debug)]
pub struct Caller {
    runtime: Runtime,
    chain: BoxNetworkService,
    config: nsc::Config,
}

/// That of `nsc`, without what it knows of itself and what works by itself.
fn chain(config: &nsc::Config, transport: Transport) -> BoxNetworkService {
    let token = Unsigned::new(&config.name, config.calls.max_token_lifetime.get());
    ServiceBuilder::new()
        .layer(BoxNetworkService::layer())
        .layer(DeadlineLayer::new(config.calls.request_timeout.get()))
        .layer(UpdatePathLayer::new(config.name.as_str()))
        .layer(BeginLayer::new(Side::Client))
        .layer(MetadataLayer::new(Side::Client))
        .layer(RefreshLayer::new())
        .layer(TokenLayer::new(Side::Client, token))
        .layer(SendFdLayer::client())
        .layer(AnswerLayer)
        .service(Connect::to(transport))
}

impl Caller {
    /// A client of the forwarder, or endpoint, at that address.
    pub fn new(url: &str, more: &[&str]) -> Self {
        let own = ["nsc", "--network-services=net-0", "--connect-to", url];
        let config = nsc::Config::parse_from(own.iter().chain(more));
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let chain = {
            let _entered = runtime.enter();
            let timeout = config.dial_timeout.get();
            let transport = Transport::new(config.connect_to.clone(), timeout);
            chain(&config, transport)
        };
        Self {
            chain,
            runtime,
            config,
        }
    }

    /// What asks for a connection to `net-0` with that id and an interface of that name in the pod.
    /// The descriptor has to stay open as long as it is asked for.
    pub fn ask_for(&self, id: &str, pod: impl AsFd, interface: &str) -> NetworkServiceRequest {
        let mut request = nsc::request::first_requests(&self.config).remove(0);
        request.connection.get_or_insert_default().id = id.to_owned();
        for mechanism in &mut request.mechanism_preferences {
            assert_eq!(mechanism.r#type, KERNEL);
            let netns = format!("file:///proc/self/fd/{}", pod.as_fd().as_raw_fd());
            let parameters = &mut mechanism.parameters;
            parameters.insert(NETNS_URL.to_owned(), netns);
            parameters.insert(INTERFACE_NAME.to_owned(), interface.to_owned());
        }
        request
    }

    /// Requests.
    ///
    /// # Errors
    /// Those of the chain, and of all behind it.
    pub fn request(&self, request: NetworkServiceRequest) -> Result<Connection, Error> {
        let chain = self.chain.clone();
        self.runtime.block_on(chain.oneshot(Call::request(request)))
    }

    /// Listens at the forwarder, as a client does that wants to know what becomes of a connection.
    pub fn listen(&self, connection: &Connection) -> Listening<'_> {
        let path = connection.path.as_ref().unwrap();
        let ours = &path.path_segments[path.index as usize];
        let timeout = self.config.dial_timeout.get();
        let forwarder = Connect::to(Transport::new(self.config.connect_to.clone(), timeout));
        let events = forwarder.watch(&Extensions::new(), of_segment(ours));
        let mut listening = Listening {
            runtime: &self.runtime,
            events,
        };
        listening.next();
        listening
    }

    /// Closes.
    ///
    /// # Errors
    /// Those of the chain, and of all behind it.
    pub fn close(&self, connection: Connection) -> Result<Connection, Error> {
        let chain = self.chain.clone();
        self.runtime
            .block_on(chain.oneshot(Call::close(connection)))
    }
}

/// What a client hears of a connection.
pub struct Listening<'a> {
    runtime: &'a Runtime,
    events: EventStream,
}

impl Listening<'_> {
    fn next(&mut self) -> ConnectionEvent {
        let next = async { timeout(Duration::from_secs(30), self.events.next()).await };
        let next = self.runtime.block_on(next);
        next.expect("there is an event").unwrap().unwrap()
    }

    /// Waits until the connection is to be refreshed.
    pub fn until_asked(&mut self) {
        while !asks(&self.next()) {}
    }

    /// Whether it was to be refreshed meanwhile.
    pub fn was_asked(&mut self) -> bool {
        // What has come is read by tasks of the runtime.
        let pause = Duration::from_millis(50);
        let mut asked = false;
        while let Ok(Some(event)) = self
            .runtime
            .block_on(async { timeout(pause, self.events.next()).await })
        {
            asked |= asks(&event.unwrap());
        }
        asked
    }
}

impl fmt::Debug for Listening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}

fn asks(event: &ConnectionEvent) -> bool {
    let mut connections = event.connections.values();
    connections.any(|it| it.state() == State::RefreshRequested)
}
