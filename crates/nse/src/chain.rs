//! The whole endpoint, from top to bottom as a call passes it.

use nsm_chain::token::Unsigned;
use nsm_chain::{
    BeginLayer, BoxNetworkService, DeadlineLayer, End, MetadataLayer, Side, TimeoutLayer,
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
    ServiceBuilder::new()
        // Hides the chain's type from the server.
        .layer(BoxNetworkService::layer())
        // The caller's trace, before there is a span of ours.
        .layer(TraceContextLayer::new(Side::Server))
        // Sees every call with all that happens to it, and logs its error, once.
        .layer(TraceLayer)
        // The caller waits no longer than he says. What begin has started goes on.
        .layer(DeadlineLayer::new(config.request_timeout.get()))
        // Gives the connection its id of this hop, by which begin tells connections apart.
        .layer(UpdatePathLayer::new(config.name.as_str()))
        // From here on: one call at a time for a connection, each goes to its end, and a first
        // request that fails is undone.
        .layer(BeginLayer::new(Side::Server))
        // Until when the forwarder stands for the connection, and we do.
        .layer(TokenLayer::new(Side::Server, token))
        // Elements below remember things of a connection.
        .layer(MetadataLayer::new(Side::Server))
        // Below the tokens: closes what the forwarder has not asked for again in time.
        .layer(TimeoutLayer::new())
        // Takes the descriptor that a forwarder may send of the client's namespace, so that it does
        // not lie about for as long as the forwarder's transport lives.
        .layer(RecvFdLayer::server())
        // Above everything that gives a connection something: what is meant for others gets nothing.
        .layer(ServicesLayer::new(
            config.service_names.iter().cloned(),
            config.payload.as_str(),
        ))
        // Addresses for both ends, the same ones over refreshes and restarts.
        .layer(IpamLayer::new(
            config.cidr_prefix.clone(),
            config.ipam_policy,
        ))
        // Below the IPAM, whose addresses it must see: a policy's source becomes one of the client's.
        .layer(PoliciesLayer::new(policies))
        // An interface in our own namespace, or none where the client wants none.
        .layer(MechanismsLayer::new([Offer::kernel(), Offer::Noop]))
        // Right behind it: what was named there goes along with the answer as a descriptor.
        .layer(SendFdLayer::server())
        // Nothing comes behind an endpoint.
        .service(End)
}
