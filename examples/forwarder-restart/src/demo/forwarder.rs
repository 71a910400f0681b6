//! The forwarding side: a chain with the middleware in it, and an endpoint in the same process.

use super::cli::Recovery;
use super::recreate::RecreateLayer;
use super::topology::{Interface, Policy, Topology};
use nsm_api::connection::{Connection, Mechanism, Path, PathSegment};
use nsm_api::connectioncontext::PolicyRoute;
use nsm_api::mechanism::INTERFACE_NAME;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::begin::AnswerLayer;
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, ErrorChain, NetworkService, Operation, Side,
    UpdatePathLayer,
};
use nsm_netlink::{Netns, Owner, TableRange};
use nsm_policyroute::{Config, OneNamespace, PolicyRouteLayer};
use std::collections::HashMap;
use std::error::Error;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

/// The mark of a forwarder's rules and routes.
pub const PROTOCOL: u8 = 78;
/// The tables that a forwarder hands out.
pub const TABLES: RangeInclusive<u32> = 20000..=24999;

/// One life of a forwarder. It has a runtime of its own, so that nothing of it is left when it is
/// dropped: no task, no memory, no descriptor.
#[derive(Debug)]
pub struct Forwarder {
    runtime: Runtime,
    chain: BoxNetworkService,
}

impl Forwarder {
    /// Starts with an empty memory.
    pub fn start(
        pod: &Netns,
        topology: &Topology,
        recovery: Recovery,
    ) -> Result<Self, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let pod = Netns::from_fd(pod)?;
        let endpoint = AnswerLayer.layer(endpoint(topology));
        let policies = match recovery {
            Recovery::Reattach | Recovery::ReattachFailClosed => {
                let owner = Owner {
                    protocol: PROTOCOL.try_into()?,
                    tables: TableRange::new(*TABLES.start(), *TABLES.end())?,
                };
                let fail_closed = recovery == Recovery::ReattachFailClosed;
                let config = Config {
                    fail_closed,
                    // However many return at once, and in a debug build, each has its turn.
                    timeout: Duration::from_secs(60),
                    ..Config::new(owner)
                };
                let layer = PolicyRouteLayer::new(OneNamespace::new(pod), config);
                BoxNetworkService::new(layer.layer(endpoint))
            }
            Recovery::Recreate => BoxNetworkService::new(RecreateLayer::new(pod).layer(endpoint)),
        };
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            // A forwarder that keeps its name keeps the ids of its connections.
            .layer(UpdatePathLayer::new("forwarder-1"))
            // One call at a time for a connection; different connections go in parallel.
            .layer(BeginLayer::new(Side::Server))
            // The product, or what it is held against; below it the endpoint.
            .service(policies);
        Ok(Self { runtime, chain })
    }

    /// Handles all these requests at once, begun in this order. Each answer is handed on as soon
    /// as it is there. Gives the reasons of those that failed.
    pub fn handle(
        &self,
        asked: impl IntoIterator<Item = (usize, NetworkServiceRequest)>,
        mut answered: impl FnMut(usize, Connection),
    ) -> Vec<String> {
        self.runtime.block_on(async {
            let mut requests = JoinSet::new();
            for (index, request) in asked {
                let answer = self.chain.clone().oneshot(Call::request(request));
                requests.spawn(async move { (index, answer.await) });
            }
            let mut failures = Vec::new();
            while let Some(request) = requests.join_next().await {
                match request {
                    Ok((index, Ok(connection))) => answered(index, connection),
                    Ok((_, Err(error))) => failures.push(error.report().to_string()),
                    Err(lost) => failures.push(ErrorChain(&lost).to_string()),
                }
            }
            failures
        })
    }
}

/// What a client asks for the first time.
pub fn first_request(index: usize, interface: &Interface) -> NetworkServiceRequest {
    let name = format!("nsc-{index}");
    let segment = PathSegment {
        name: name.clone(),
        id: name.clone(),
        ..PathSegment::default()
    };
    let mut connection = Connection {
        id: name,
        network_service: service_name(index),
        path: Some(Path {
            index: 0,
            path_segments: vec![segment],
        }),
        ..Connection::default()
    };
    connection.ip_context_mut().src_ip_addrs = interface
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    let mechanism = Mechanism::kernel().with_parameter(INTERFACE_NAME, &interface.name);
    NetworkServiceRequest {
        connection: Some(connection),
        mechanism_preferences: vec![mechanism],
    }
}

fn service_name(index: usize) -> String {
    format!("service-{index}")
}

/// Takes the mechanism that the client likes best, and adds the policies of the network service.
fn endpoint(topology: &Topology) -> impl NetworkService + use<> {
    let policies = |index| topology.policies_of(index).map(Policy::to_api).collect();
    let services: HashMap<String, Vec<PolicyRoute>> = (0..topology.connections.len())
        .map(|index| (service_name(index), policies(index)))
        .collect();
    let services = Arc::new(services);
    service_fn(move |call: Call| {
        let services = Arc::clone(&services);
        async move {
            let request = match call.operation {
                Operation::Request(request) => request,
                Operation::Close(connection) => return Ok(connection),
            };
            let mut connection = request.connection.unwrap_or_default();
            let liked = request.mechanism_preferences.into_iter().next();
            connection.mechanism = connection.mechanism.or(liked);
            if let Some(policies) = services.get(&connection.network_service) {
                connection.ip_context_mut().policies.clone_from(policies);
            }
            Ok(connection)
        }
    })
}
