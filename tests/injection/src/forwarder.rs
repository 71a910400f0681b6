//! A forwarder: what a process of it holds in memory is this value.

use crate::FarEnd;
use nsm_chain::begin::AnswerLayer;
use nsm_chain::{
    BeginLayer, BoxNetworkService, MetadataLayer, NetworkService, Side, UpdatePathLayer,
};
use nsm_kernel::{Config, KernelLayer};
use nsm_netlink::{Netns, Owner};
use nsm_policyroute::{PolicyRouteLayer, ReceivedNamespace};
use tower::ServiceBuilder;

/// A forwarder's chain.
#[derive(Debug, Clone)]
pub struct Forwarder {
    /// The chain.
    pub chain: BoxNetworkService,
    kernel: KernelLayer,
    metadata: MetadataLayer,
}

impl Forwarder {
    /// A process that has just started.
    pub fn start(far_end: &FarEnd) -> Self {
        Self::start_as("forwarder", 78, far_end)
    }

    /// One with another name and number.
    pub fn start_as(name: &str, protocol: u8, far_end: &FarEnd) -> Self {
        let config = Config::new(protocol.try_into().unwrap());
        Self::above(name, config, far_end.clone())
    }

    /// One above what else there is of an endpoint.
    pub fn above(name: &str, config: Config, far_end: impl NetworkService) -> Self {
        let protocol = config.protocol;
        let kernel = KernelLayer::new(config).unwrap();
        let metadata = MetadataLayer::new(Side::Server);
        let owner = Owner {
            protocol,
            tables: "20000-24999".parse().unwrap(),
        };
        let own = nsm_netlink::Namespace::id(&Netns::current().unwrap());
        let policies = ReceivedNamespace::<Netns>::except(own);
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(UpdatePathLayer::new(name))
            .layer(BeginLayer::new(Side::Server))
            .layer(metadata.clone())
            .layer(PolicyRouteLayer::new(
                policies,
                nsm_policyroute::Config::new(owner),
            ))
            .layer(kernel.clone())
            .layer(AnswerLayer)
            .service(far_end);
        Self {
            chain,
            kernel,
            metadata,
        }
    }

    /// How many clients' namespaces it holds for its interfaces.
    pub fn namespaces_held(&self) -> usize {
        self.kernel.namespaces_held()
    }

    /// How many connections it remembers.
    pub fn connections(&self) -> usize {
        self.metadata.connections()
    }
}
