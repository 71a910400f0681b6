//! The whole client, from top to bottom as a call passes it, each element with its name in traces.

use nsm_api::connection::Connection;
use nsm_api::mechanism::KERNEL;
use nsm_chain::begin::{AnswerLayer, reselect};
use nsm_chain::mechanisms::KernelMechanismLayer;
use nsm_chain::token::Unsigned;
use nsm_chain::trace::ElementLayer;
use nsm_chain::{
    BeginLayer, BoxNetworkService, ClientInfoLayer, DeadlineLayer, Elements, ExcludedPrefixesLayer,
    HealLayer, MechanismsLayer, MetadataLayer, RefreshLayer, Side, TokenLayer, TraceLayer,
    UpdatePathLayer,
};
use nsm_dns::DnsLayer;
use nsm_grpc::{Connect, SendFdLayer, Transport};
use nsm_netlink::{Netns, NetnsError};
use nsm_policyroute::{OneNamespace, PolicyRouteLayer};
use nsm_program::TraceContextLayer;
use tower::ServiceBuilder;

use crate::Config;
use crate::config::LivenessSettings;
use crate::liveness::IcmpLiveness;
use crate::ready::ReadyLayer;

/// What the client does with a call. `ready` is told which connections stand.
///
/// # Errors
///
/// When the process cannot tell its own network namespace, and is to install policies there.
pub fn chain(
    config: &Config,
    transport: Transport,
    ready: Option<ReadyLayer>,
) -> Result<BoxNetworkService, NetnsError> {
    let token = Unsigned::new(&config.name, config.calls.max_token_lifetime.get());
    let request_timeout = config.calls.request_timeout.get();
    let policies = match config.policy_route {
        // Opened once, before there is any work: threads that work are in other namespaces at times.
        true => Some((
            ElementLayer::new("policyroute", Side::Client),
            PolicyRouteLayer::new(OneNamespace::new(Netns::current()?), config.policies()),
        )),
        false => None,
    };
    let names = config.names.settings().map(|settings| {
        let span = ElementLayer::new("dns", Side::Client);
        (span, DnsLayer::new(settings))
    });
    let ready = ready.map(|ready| (ElementLayer::new("ready", Side::Client), ready));
    let forwarder = Connect::to(transport);
    let heal = heal(&config.liveness, forwarder.clone());
    Ok(ServiceBuilder::new()
        // Hides the chain's type from those who call.
        .layer(BoxNetworkService::layer())
        // Sees every call with all that happens to it, and logs its error, once.
        .layer(TraceLayer)
        // Nobody waits longer than this. What begin has started goes on.
        .client("deadline", DeadlineLayer::new(request_timeout))
        // The path begins here: with our name, and the connection's id by which others know it.
        .client("updatepath", UpdatePathLayer::new(config.name.as_str()))
        // From here on: one call at a time for a connection, each goes to its end, and a first
        // request that fails is undone.
        .client("begin", BeginLayer::new(Side::Client).reselect(anew))
        // Elements below remember things of a connection.
        .client("metadata", MetadataLayer::new(Side::Client))
        // Which connections stand. Above all that makes them work.
        .option_layer(ready)
        // Asks again before a token ends, ours or that of a hop behind us. Below begin, which knows
        // what to ask for.
        .client("refresh", RefreshLayer::new())
        // Hears from the forwarder what becomes of the connection, feels whether it carries packets,
        // and asks for it again, or for another endpoint.
        .client("heal", heal)
        // A new token with each request, until when we stand for the connection.
        .client("token", TokenLayer::new(Side::Client, token))
        // Where we run, for whoever selects endpoints by that.
        .client(
            "clientinfo",
            ClientInfoLayer::new(config.place.client_info()),
        )
        // The DNS servers that the answer brings. Above the policies: when the pod is sent to them,
        // the way there stands.
        .option_layer(names)
        // Rules and tables in our own namespace, for the answer's policies, where no forwarder makes
        // them. Below begin, and above the call that brings the answer.
        .option_layer(policies)
        // An interface in our own namespace, with a name. Below all that does not care what carries
        // the connection.
        .client("mechanisms", mechanisms())
        // Addresses of our connections are apart. Below what names the interface, by which groups are
        // told.
        .client(
            "excludedprefixes",
            ExcludedPrefixesLayer::new(config.awareness_groups.members()),
        )
        // Sends our namespace as a descriptor, on the very connection that carries the call.
        .client("sendfd", SendFdLayer::client())
        // What the forwarder answered, for the close of a request that fails above.
        .client("answer", AnswerLayer)
        // The span of the call itself, for the forwarder to hang its own on. Below all others.
        .client("connect", TraceContextLayer::new(Side::Client))
        // The forwarder.
        .service(forwarder))
}

fn heal(settings: &LivenessSettings, forwarder: Connect) -> HealLayer {
    let heal = HealLayer::new(forwarder);
    if !settings.liveness_check_enabled {
        return heal;
    }
    let liveness = IcmpLiveness::new(settings.liveness_check_timeout.get());
    heal.liveness(liveness, settings.liveness_check_interval.get())
}

/// Makes of a connection the request for one with another endpoint. The client has brought nothing of
/// its own: what is in the context comes from the endpoint that is given up, and nothing of it
/// travels on.
pub(crate) fn anew(connection: &mut Connection) {
    reselect(connection);
    connection.context = None;
}

/// What can carry a connection.
fn mechanisms() -> MechanismsLayer {
    let span = ElementLayer::new("kernel", Side::Client);
    MechanismsLayer::new().with(KERNEL, (span, KernelMechanismLayer::new()))
}
