//! The whole forwarder, from top to bottom as a call passes it, each element with its name in
//! traces, on the side of the client (`server`) or of the endpoint (`client`).
//!
//! What an element does before it calls the one below happens on the way down, what it does after
//! that on the way up: the interfaces of `kernel` stand before `policyroute` makes rules that lead
//! to them, and on a close the rules go before the interfaces do.

use nsm_chain::begin::AnswerLayer;
use nsm_chain::monitor::{Monitor, MonitorLayer, RelayLayer};
use nsm_chain::token::Unsigned;
use nsm_chain::trace::ElementLayer;
use nsm_chain::{
    BeginLayer, BoxNetworkService, DeadlineLayer, Elements, MetadataLayer, Side, TimeoutLayer,
    TokenLayer, TraceLayer, UpdatePathLayer,
};
use nsm_grpc::{Connect, ReceivedFd, RecvFdLayer, Transports};
use nsm_kernel::{KernelLayer, ReceivedNetnsLayer};
use nsm_netlink::{Namespace, Netns};
use nsm_policyroute::{PolicyRouteLayer, ReceivedNamespace};
use nsm_program::TraceContextLayer;
use tower::ServiceBuilder;

use crate::directory::Directory;
use crate::discover::DiscoverLayer;
use crate::mechanism::MechanismLayer;
use crate::reunite::ReuniteLayer;
use crate::round_robin::RoundRobinLayer;
use crate::standing::StandingLayer;
use crate::{Config, Error};

/// What the forwarder does with a call, and which connections stand by it.
#[derive(Debug)]
pub struct Forwarder {
    /// The chain.
    pub chain: BoxNetworkService,
    /// The connections that stand.
    pub standing: StandingLayer,
    /// What becomes of them, for clients to hear.
    pub monitor: Monitor,
}

impl Forwarder {
    /// A forwarder that remembers nothing, as after a restart.
    ///
    /// # Errors
    ///
    /// When the process cannot tell where it is. Nothing is touched.
    pub fn new(config: &Config) -> Result<Self, Error> {
        // Once, before there is any work: threads that work are in other namespaces at times.
        let own = Netns::current()?.id();
        let token = Unsigned::new(&config.name, config.calls.max_token_lifetime.get());
        let request_timeout = config.calls.request_timeout.get();
        let standing = StandingLayer::default();
        let policies = config.policy_route.then(|| {
            let pods = ReceivedNamespace::<Netns>::except(own);
            (
                ElementLayer::new("policyroute", Side::Server),
                PolicyRouteLayer::new(pods, config.policies()),
            )
        });
        let kernel = nsm_kernel::Config::new(config.interface_protocol());
        let kernel = KernelLayer::new(kernel).map_err(Error::Kernel)?;
        let transports = Transports::new(config.dial_timeout.get());
        let endpoints = config.endpoints.clone().into_inner();
        let directory = Directory::new(endpoints, transports.clone());
        // One transport for each endpoint, for calls and for what becomes of connections.
        let connect = Connect::by_next_hop(transports);
        let monitor = Monitor::new();

        let chain = ServiceBuilder::new()
            // Hides the chain's type from the server.
            .layer(BoxNetworkService::layer())
            // The caller's trace, before there is a span of ours.
            .layer(TraceContextLayer::new(Side::Server))
            // Sees every call with all that happens to it, and logs its error, once.
            .layer(TraceLayer)
            // The caller waits no longer than he says. What begin has started goes on.
            .server("deadline", DeadlineLayer::new(request_timeout))
            // A client that was killed and has forgotten its way gets it back: above update_path, which
            // makes a new one otherwise.
            .server("reunite", ReuniteLayer::new(standing.clone()))
            // Gives the connection its id of this hop, by which begin tells connections apart.
            .server("updatepath", UpdatePathLayer::new(config.name.as_str()))
            // From here on: one call at a time for a connection, each goes to its end, and a first
            // request that fails is undone.
            .server("begin", BeginLayer::new(Side::Server))
            // Until when the client stands for the connection, and we do.
            .server("updatetoken", TokenLayer::new(Side::Server, token.clone()))
            // Elements below remember things of a connection: of the client's side, and of the
            // endpoint's. One begin is above both, so that both are remembered and forgotten at once.
            .server("metadata", MetadataLayer::new(Side::Server))
            .client("metadata", MetadataLayer::new(Side::Client))
            // Below the tokens: closes what the client has not asked for again in time.
            .server("timeout", TimeoutLayer::new())
            // Tells those who listen what becomes of a connection.
            .server("monitor", MonitorLayer::new(monitor.clone()))
            // Which connections there are, for an end that closes them and for `reunite`.
            .server("standing", standing.clone())
            // The client's namespace: the descriptor that came with the call, ...
            .server("recvfd", RecvFdLayer::server())
            // ... if it is one of a network namespace, and not our own: that one is the node's.
            .server(
                "netns",
                ReceivedNetnsLayer::of_client(|extensions| {
                    extensions.get().map(|ReceivedFd(fd)| fd.clone())
                })
                .except(own),
            )
            // Which endpoints there are for the connection. Above all that writes: where there is none
            // nothing is written.
            .server("discover", DiscoverLayer::new(directory.clone()))
            // Rules and tables of the client, for the answer's policies. Above the interfaces: they
            // must stand for a route to lead to them, and on a close they go last.
            .option_layer(policies)
            // The pair of interfaces, born in the two namespaces, with all that stands on it:
            // addresses, routes, neighbours, MTU.
            .server("kernel", kernel)
            // Above this the mechanism is the client's, below it is the endpoint's.
            .client("mechanismtranslation", MechanismLayer)
            // The endpoint's namespace: the descriptor that came with the answer. It is taken out and
            // held no longer than the work on it takes: an endpoint that goes takes its end along.
            .client(
                "netns",
                ReceivedNetnsLayer::of_endpoint(|store| store.remove().map(|ReceivedFd(fd)| fd))
                    .except(own),
            )
            .client("recvfd", RecvFdLayer::client())
            // Until when we stand for the connection, for the endpoint to know.
            .client("token", TokenLayer::new(Side::Client, token))
            // What the endpoint answered, for the close of a request that fails above.
            .client("answer", AnswerLayer)
            // Which of these endpoints it is: below this the call has one next hop, and may be another
            // call for another one. A close goes where the connection stands, or ends here.
            .client("roundrobin", RoundRobinLayer::new(directory))
            // Listens at the endpoint, and tells the client on what it hears.
            .client("monitor", RelayLayer::new(monitor.clone(), connect.clone()))
            // The span of the call itself, for the endpoint to hang its own on. Below all others.
            .client("connect", TraceContextLayer::new(Side::Client))
            // Our own name is in the path already, and no namespace of ours goes out, so that a client
            // chain has no more than this.
            .service(connect);
        Ok(Self {
            chain,
            standing,
            monitor,
        })
    }
}
