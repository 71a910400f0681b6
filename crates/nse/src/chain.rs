//! The whole endpoint, from top to bottom as a call passes it, each element with its name in traces.

use nsm_chain::token::Unsigned;
use nsm_chain::{
    BeginLayer, BoxNetworkService, DeadlineLayer, Elements, End, MetadataLayer, Side, TimeoutLayer,
    TokenLayer, TraceLayer, UpdatePathLayer,
};
use nsm_endpoint::{IpamLayer, MechanismsLayer, Offer, Policies, PoliciesLayer, ServicesLayer};
use nsm_grpc::{RecvFdLayer, SendFdLayer};
use nsm_program::TraceContextLayer;
use tower::ServiceBuilder;

use crate::Config;

/// What the endpoint does with a call.
pub fn chain(config: &Config, policies: Policies) -> BoxNetworkService {
    let token = Unsigned::new(&config.name, config.max_token_lifetime.get());
    let services = config.service_names.iter().cloned();
    let prefixes = config.cidr_prefix.clone();
    ServiceBuilder::new()
        // Hides the chain's type from the server.
        .layer(BoxNetworkService::layer())
        // The caller's trace, before there is a span of ours.
        .layer(TraceContextLayer::new(Side::Server))
        // Sees every call with all that happens to it, and logs its error, once.
        .layer(TraceLayer)
        // The caller waits no longer than he says. What begin has started goes on.
        .server("deadline", DeadlineLayer::new(config.request_timeout.get()))
        // Gives the connection its id of this hop, by which begin tells connections apart.
        .server("updatepath", UpdatePathLayer::new(config.name.as_str()))
        // From here on: one call at a time for a connection, each goes to its end, and a first
        // request that fails is undone.
        .server("begin", BeginLayer::new(Side::Server))
        // Until when the forwarder stands for the connection, and we do.
        .server("updatetoken", TokenLayer::new(Side::Server, token))
        // Elements below remember things of a connection.
        .server("metadata", MetadataLayer::new(Side::Server))
        // Below the tokens: closes what the forwarder has not asked for again in time.
        .server("timeout", TimeoutLayer::new())
        // Takes the descriptor that a forwarder may send of the client's namespace, so that it does
        // not lie about for as long as the forwarder's transport lives.
        .server("recvfd", RecvFdLayer::server())
        // Above everything that gives a connection something: what is meant for others gets nothing.
        .server(
            "services",
            ServicesLayer::new(services, config.payload.as_str()),
        )
        // Addresses for both ends, the same ones over refreshes and restarts.
        .server(
            "point2pointipam",
            IpamLayer::new(prefixes, config.ipam_policy),
        )
        // Below the IPAM, whose addresses it must see: a policy's source becomes one of the client's.
        .server("policyroute", PoliciesLayer::new(policies))
        // An interface in our own namespace, or none where the client wants none.
        .server(
            "mechanisms",
            MechanismsLayer::new([Offer::kernel(), Offer::Noop]),
        )
        // Right behind it: what was named there goes along with the answer as a descriptor.
        .server("sendfd", SendFdLayer::server())
        // Nothing comes behind an endpoint.
        .service(End)
}
