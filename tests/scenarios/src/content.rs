//! What a connection carries, and how client and endpoint say it.

use crate::model::{Ask, NetnsReference, PolicyText};
use crate::wanted::{Routes, wanted};
use nsm_api::connection::{Connection, Mechanism, Path, PathSegment};
use nsm_api::connectioncontext::{PolicyRoute, Route};
use nsm_api::mechanism::{INTERFACE_NAME, NETNS_URL};
use nsm_netlink::Selector;
use std::collections::BTreeMap;

/// What an endpoint answers with, and where the connection's interface is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// The pod that the interface is in.
    pub pod: String,
    /// Whether the reference to the pod's namespace leads nowhere.
    pub gone: bool,
    /// The element that is asked.
    pub element: String,
    /// The name of the interface.
    pub interface: String,
    /// Its addresses.
    pub sources: Vec<String>,
    /// The policies.
    pub policies: Vec<PolicyText>,
}

impl Content {
    /// What a step says. What it does not say is as in `former`.
    pub fn said(former: Option<&Self>, ask: &Ask, pod: Option<&str>) -> Self {
        let former = former.cloned().unwrap_or_default();
        Self {
            pod: pod.map_or(former.pod, str::to_owned),
            // A broken reference is of one call: the next one is good again.
            gone: ask.netns == Some(NetnsReference::Gone),
            element: ask.element.clone().unwrap_or(former.element),
            interface: ask.interface.clone().unwrap_or(former.interface),
            sources: ask.sources.clone().unwrap_or(former.sources),
            policies: ask.policies.clone().unwrap_or(former.policies),
        }
    }

    /// What it wants installed.
    ///
    /// # Errors
    /// When a policy makes no sense.
    pub fn wants(&self) -> Result<BTreeMap<Selector, Routes>, String> {
        wanted(&self.policies, &self.sources)
    }

    /// Writes it into a connection: context and mechanism.
    pub fn write(&self, connection: &mut Connection) {
        let context = connection.ip_context_mut();
        context.src_ip_addrs.clone_from(&self.sources);
        context.policies = self.policies.iter().map(policy_route).collect();
        let mechanism = Mechanism::kernel()
            .with_parameter(INTERFACE_NAME, &self.interface)
            .with_parameter(NETNS_URL, self.netns_url());
        connection.mechanism = Some(mechanism);
    }

    /// As the endpoint answers: with a segment of its own in the path.
    pub fn answer(&self, connection: &mut Connection) {
        const ENDPOINT: &str = "endpoint";
        self.write(connection);
        ENDPOINT.clone_into(&mut connection.network_service_endpoint_name);
        let path = connection.path.get_or_insert_with(Path::default);
        let next = path.index as usize + 1;
        path.path_segments.truncate(next);
        path.path_segments.push(PathSegment {
            name: ENDPOINT.to_owned(),
            id: format!("{}-at-the-endpoint", connection.id),
            ..PathSegment::default()
        });
    }

    /// What the mechanism calls the pod's namespace.
    fn netns_url(&self) -> String {
        if self.gone {
            GONE.to_owned()
        } else {
            netns_url(&self.pod)
        }
    }
}

/// A reference to a namespace that no pod has.
const GONE: &str = "pod:///gone";

/// The reference to a pod's namespace.
pub fn netns_url(pod: &str) -> String {
    format!("pod://{pod}/")
}

fn policy_route(policy: &PolicyText) -> PolicyRoute {
    PolicyRoute {
        from: policy.from.clone(),
        proto: policy.proto.clone(),
        dst_port: policy.dstport.clone(),
        src_port: policy.srcport.clone(),
        routes: policy
            .routes
            .iter()
            .map(|route| Route {
                prefix: route.prefix.clone(),
                next_hop: route.nexthop.clone(),
            })
            .collect(),
    }
}
