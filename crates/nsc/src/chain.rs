//! The whole client, from top to bottom as a call passes it.

use nsm_chain::begin::AnswerLayer;
use nsm_chain::token::Unsigned;
use nsm_chain::{
    BeginLayer, BoxNetworkService, DeadlineLayer, MetadataLayer, RefreshLayer, Side, TokenLayer,
    TraceLayer, UpdatePathLayer,
};
use nsm_grpc::{Connect, SendFdLayer, Transport};
use nsm_netlink::{Netns, NetnsError};
use nsm_policyroute::{OneNamespace, PolicyRouteLayer};
use nsm_program::TraceContextLayer;
use tower::ServiceBuilder;

use crate::Config;

/// What the client does with a call.
///
/// # Errors
///
/// When the process cannot tell its own network namespace, and is to install policies there.
pub fn chain(config: &Config, transport: Transport) -> Result<BoxNetworkService, NetnsError> {
    let token = Unsigned::new(&config.name, config.max_token_lifetime.get());
    let policies = match config.policy_route {
        // Opened once, before there is any work: threads that work are in other namespaces at times.
        true => Some(PolicyRouteLayer::new(
            OneNamespace::new(Netns::current()?),
            config.policies(),
        )),
        false => None,
    };
    Ok(ServiceBuilder::new()
        // Hides the chain's type from those who call.
        .layer(BoxNetworkService::layer())
        // Sees every call with all that happens to it, and logs its error, once.
        .layer(TraceLayer)
        // Nobody waits longer than this. What begin has started goes on.
        .layer(DeadlineLayer::new(config.request_timeout.get()))
        // The path begins here: with our name, and the connection's id by which others know it.
        .layer(UpdatePathLayer::new(config.name.as_str()))
        // From here on: one call at a time for a connection, each goes to its end, and a first
        // request that fails is undone.
        .layer(BeginLayer::new(Side::Client))
        // Elements below remember things of a connection.
        .layer(MetadataLayer::new(Side::Client))
        // Asks again before a token ends, ours or that of a hop behind us. Below begin, which knows
        // what to ask for.
        .layer(RefreshLayer::new())
        // A new token with each request, until when we stand for the connection.
        .layer(TokenLayer::new(Side::Client, token))
        // Rules and tables in our own namespace, for the answer's policies, where no forwarder makes
        // them. Below begin, and above the call that brings the answer.
        .option_layer(policies)
        // Sends our namespace as a descriptor, on the very connection that carries the call.
        .layer(SendFdLayer::client())
        // What the forwarder answered, for the close of a request that fails above.
        .layer(AnswerLayer)
        // Our span, for the forwarder to hang its own on. Below all spans.
        .layer(TraceContextLayer::new(Side::Client))
        // The forwarder.
        .service(Connect::to(transport)))
}
