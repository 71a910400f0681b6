//! An endpoint with all that this crate has, behind a hop that dies and comes back.

mod addresses;
mod changes;
mod failures;
mod policies;
mod returns;

use nsm_api::connection::{Connection, Mechanism, Path, PathSegment};
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::begin::AnswerLayer;
use nsm_chain::test_util::{FailOn, echo};
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, Error, MetadataLayer, Monitor, MonitorLayer, Side,
    UpdatePathLayer,
};
use tower::{ServiceBuilder, ServiceExt};

use crate::{
    IpamLayer, IpamPolicy, MechanismsLayer, Offer, Policies, PoliciesLayer, PolicyList,
    ServicesLayer,
};

/// An endpoint and what it remembers. Another one of the same settings is the same after a
/// restart.
struct Endpoint {
    chain: BoxNetworkService,
    ipam: IpamLayer,
    monitor: Monitor,
    policies: Policies,
}

/// What an endpoint is made with.
struct Settings {
    prefixes: &'static str,
    policy: IpamPolicy,
    list: &'static str,
}

const SETTINGS: Settings = Settings {
    prefixes: "172.16.1.0/24,fd00:1::/64",
    policy: IpamPolicy::Polite,
    list: "",
};

fn list(yaml: &str) -> PolicyList {
    PolicyList::parse("policies.yaml", yaml).unwrap()
}

impl Settings {
    fn start(&self) -> Endpoint {
        self.start_above(FailOn::request(0))
    }

    /// An endpoint in which something goes wrong below the elements.
    fn start_above(&self, wrong: FailOn) -> Endpoint {
        let ipam = IpamLayer::new(self.prefixes.parse().unwrap(), self.policy);
        let monitor = Monitor::new();
        let policies = Policies::new(list(self.list), monitor.clone());
        let chain = ServiceBuilder::new()
            .layer(BoxNetworkService::layer())
            .layer(UpdatePathLayer::new("nse"))
            .layer(BeginLayer::new(Side::Server))
            .layer(MetadataLayer::new(Side::Server))
            .layer(MonitorLayer::new(monitor.clone()))
            .layer(ServicesLayer::new(["icmp-responder"], "ETHERNET"))
            .layer(ipam.clone())
            .layer(PoliciesLayer::new(policies.clone()))
            .layer(MechanismsLayer::new([Offer::kernel(), Offer::Noop]))
            .layer(wrong)
            .service(echo());
        Endpoint {
            chain,
            ipam,
            monitor,
            policies,
        }
    }
}

/// A forwarder in front of an endpoint. Another one is the same after a restart: it has forgotten
/// everything.
fn forwarder(endpoint: &Endpoint, dies: FailOn) -> BoxNetworkService {
    ServiceBuilder::new()
        .layer(BoxNetworkService::layer())
        .layer(UpdatePathLayer::new("forwarder"))
        .layer(BeginLayer::new(Side::Server))
        .layer(dies)
        .layer(AnswerLayer)
        // What elements told each other ends at the hop.
        .map_request(|call: Call| Call {
            extensions: Default::default(),
            ..call
        })
        .service(endpoint.chain.clone())
}

fn works() -> FailOn {
    FailOn::request(0)
}

/// A client, which brings what it was answered last.
struct Client {
    connection: Connection,
}

impl Client {
    fn new(name: &str) -> Self {
        let segment = PathSegment {
            name: "nsc".to_owned(),
            id: name.to_owned(),
            ..PathSegment::default()
        };
        Self {
            connection: Connection {
                id: name.to_owned(),
                network_service: "icmp-responder".to_owned(),
                path: Some(Path {
                    index: 0,
                    path_segments: vec![segment],
                }),
                ..Connection::default()
            },
        }
    }

    async fn request(&mut self, by: &BoxNetworkService) -> Result<(), Error> {
        let request = NetworkServiceRequest {
            connection: Some(self.connection.clone()),
            mechanism_preferences: vec![Mechanism::kernel()],
        };
        self.connection = by.clone().oneshot(Call::request(request)).await?;
        Ok(())
    }

    async fn close(&self, by: &BoxNetworkService) -> Result<(), Error> {
        by.clone()
            .oneshot(Call::close(self.connection.clone()))
            .await?;
        Ok(())
    }

    fn src(&self) -> &[String] {
        self.connection.src_ip_addrs()
    }

    fn dst(&self) -> &[String] {
        self.connection.dst_ip_addrs()
    }
}
