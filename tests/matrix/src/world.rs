//! The pods of one run, the element in its present life, and those who call it.

use crate::flow::{Act, Call, Flow};
use crate::journal::{Journal, Journalled};
use crate::ledger::Ledger;
use crate::others;
use crate::picture::Picture;
use crate::spoil;
use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{BoxNetworkService, Error};
use nsm_netlink::Namespace;
use nsm_policyroute::{Config, PolicyRouteLayer, Received, ReceivedNamespace};
use policyroute_suite::{Machine, Place, Pod, config, connection, policy};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tower::{Layer, ServiceExt, service_fn};

/// A namespace as the element gets it.
pub type Ground<M> = Journalled<Place<M>>;

/// The element in one life of its process.
#[derive(Debug)]
struct Life<M: Machine> {
    layer: PolicyRouteLayer<ReceivedNamespace<Ground<M>>>,
    chain: BoxNetworkService,
}

impl<M: Machine> Life<M> {
    fn start(config: Config) -> Self {
        let layer = PolicyRouteLayer::new(ReceivedNamespace::any(), config);
        let end = service_fn(|call: nsm_chain::Call| async move {
            let told = call.extensions.get::<Answer>().cloned();
            let answer = told.map_or_else(|| call.connection().clone(), |Answer(answer)| answer);
            Ok::<_, Error>(answer)
        });
        let chain = BoxNetworkService::new(layer.layer(end));
        Self { layer, chain }
    }
}

/// What the rest of the chain answers with.
#[derive(Debug, Clone)]
struct Answer(Connection);

/// One run of a flow.
#[derive(Debug)]
pub struct World<M: Machine> {
    /// The pods.
    pub pods: Vec<Pod<M>>,
    /// What the element asks of the kernel.
    pub journal: Journal,
    /// Who has asked the element for what.
    pub ledger: Ledger,
    grounds: Vec<Arc<Ground<M>>>,
    next_hops: BTreeSet<IpAddr>,
    config: Config,
    life: Life<M>,
}

impl<M: Machine> World<M> {
    /// The world in which the call of a flow is made.
    pub async fn before(flow: &Flow) -> Self {
        let mut world = Self::new(flow);
        world.pods.iter().for_each(others::move_in);
        for act in &flow.before {
            world.act(act).await;
        }
        world.journal.take();
        world.pods.iter().for_each(|pod| drop(pod.watch.bursts()));
        world
    }

    /// The world in which another process has made the call of a flow and has died over it. It
    /// stands already; the element is that process's successor.
    pub fn after_a_death(flow: &Flow) -> Self {
        Self {
            ledger: Ledger::of(flow),
            ..Self::new(flow)
        }
    }

    fn new(flow: &Flow) -> Self {
        let journal = Journal::default();
        let pods: Vec<Pod<M>> = (0..flow.pods()).map(|_| Pod::boot()).collect();
        let ground = |(pod, it): (usize, &Pod<M>)| {
            Arc::new(Journalled::new(it.descriptor(), journal.clone(), pod))
        };
        let grounds = pods.iter().enumerate().map(ground).collect();
        let config = Config {
            fail_closed: flow.fail_closed,
            ..config()
        };
        Self {
            grounds,
            next_hops: flow.next_hops(),
            life: Life::start(config.clone()),
            ledger: Ledger::default(),
            pods,
            journal,
            config,
        }
    }

    async fn act(&mut self, act: &Act) {
        let pod = &self.pods[0];
        match *act {
            Act::Link(name) => self.pods.iter().for_each(|pod| pod.add_link(name)),
            Act::Unlink(name) => pod.delete_link(name),
            Act::Relink(name) => pod.remake_link(name),
            Act::ForbidIpv6(name) => pod.forbid_ipv6(name),
            Act::Call(ref call) => self.call(call).await.unwrap(),
            Act::Restart => self.restart(),
            Act::LoseRule(from) => spoil::lose_rule(pod, from),
            Act::LoseRoutes(from) => spoil::lose_routes(pod, from),
            Act::Misplace(from) => spoil::misplace(pod, from),
            Act::Double(from) => spoil::double(pod, from),
            Act::Share(from, with) => spoil::share(pod, from, with),
            Act::ForeignLeg(from, via) => spoil::foreign_leg(pod, from, via),
        }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// Those of the chain.
    pub async fn call(&mut self, call: &Call) -> Result<(), Error> {
        let chain = self.life.chain.clone();
        let outcome = match call {
            Call::Request {
                pod,
                asked,
                answered,
            } => {
                let mut request = nsm_chain::Call::request(NetworkServiceRequest {
                    connection: Some((**asked).clone()),
                    ..NetworkServiceRequest::default()
                });
                request.extensions.insert(Answer((**answered).clone()));
                chain.oneshot(self.with_descriptor(request, *pod)).await
            }
            Call::Close { pod, connection } => {
                let close = nsm_chain::Call::close((**connection).clone());
                chain.oneshot(self.with_descriptor(close, *pod)).await
            }
            Call::Wait => {
                self.pass_grace().await;
                return Ok(());
            }
        };
        self.ledger.note(call, outcome.is_ok());
        outcome.map(drop)
    }

    fn with_descriptor(&self, mut call: nsm_chain::Call, pod: usize) -> nsm_chain::Call {
        call.extensions
            .insert(Received(Arc::clone(&self.grounds[pod])));
        call
    }

    /// Lets the time pass that a left-over is let stand, and all come to its end that is due.
    pub async fn pass_grace(&self) {
        tokio::time::sleep(self.config.grace).await;
        // Time goes on only when nobody works any more.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// The process ends, and the next one knows nothing.
    pub fn restart(&mut self) {
        self.ledger.restart();
        self.life = Life::start(self.config.clone());
    }

    /// A connection of somebody else comes and goes in each pod: all else there is looked after.
    ///
    /// # Errors
    /// What has failed.
    pub async fn bystander(&mut self) -> Result<(), String> {
        let visitor = || {
            connection("bystander")
                .by("eth0")
                .policy(policy().from("10.77.0.1"))
        };
        for pod in 0..self.pods.len() {
            for call in [Call::request(visitor()), Call::close(visitor())] {
                let outcome = self.call(&call.in_pod(pod)).await;
                outcome.map_err(|error| format!("a bystander: {}", error.report()))?;
            }
        }
        Ok(())
    }

    /// Every connection that has a claim is requested again as it was.
    ///
    /// # Errors
    /// What has failed.
    pub async fn refresh(&mut self) -> Result<(), String> {
        for (pod, connection) in self.ledger.claims() {
            let outcome = self.call(&Call::request(connection).in_pod(pod)).await;
            outcome.map_err(|error| format!("a refresh: {}", error.report()))?;
        }
        Ok(())
    }

    /// What stands in each pod.
    pub fn pictures(&self) -> Vec<Picture> {
        let look = |pod: &Pod<M>| {
            // Below all that goes wrong for the element.
            let mut kernel = pod.descriptor().inner().inner().open().unwrap();
            Picture::of(&mut kernel, &self.next_hops)
        };
        self.pods.iter().map(look).collect()
    }

    /// How many namespaces the element holds.
    pub fn held(&self) -> usize {
        self.life.layer.namespaces_held()
    }
}
