//! An element at work in the pod, as the model sees it: calls go in, answers come out.

use crate::content::Content;
use crate::record::{Recorded, Recorder};
use crate::small_world::{GRACE, Who};
use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{BoxFuture, BoxNetworkService, Call, Error, ErrorKind};
use nsm_netlink::fault::{Faults, Faulty};
use nsm_policyroute::{Config, OneNamespace, PolicyRouteLayer};
use policyroute_suite::Machine;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{Layer, Service, ServiceExt};

/// The pod's namespace as an element has it: with its faults above, and what it writes below.
type Place<M> = Faulty<Recorded<<M as Machine>::Namespace>>;

/// One element, in one life of its process after the other.
#[derive(Debug)]
pub struct Element<M: Machine> {
    config: Config,
    place: Place<M>,
    /// What it writes.
    pub recorder: Recorder,
    layer: PolicyRouteLayer<OneNamespace<Place<M>>>,
    chain: BoxNetworkService,
}

/// What an element says to a call: the kind of an error, and its whole report.
pub type Answer = Result<(), (ErrorKind, String)>;

impl<M: Machine> Element<M> {
    /// Starts an element.
    pub fn start(who: Who, fail_closed: bool, machine: &M, faults: &Faults) -> Self {
        let recorder = Recorder::default();
        let namespace = Arc::clone(machine.namespace());
        let tables = who.owner().tables.numbers();
        let recorded = Recorded::new(namespace, recorder.clone(), tables);
        let place = Faulty::new(recorded, faults.clone());
        let config = Config {
            fail_closed,
            grace: GRACE,
            ..Config::new(who.owner())
        };
        let (layer, chain) = process(&place, &config);
        Self {
            config,
            place,
            recorder,
            layer,
            chain,
        }
    }

    /// Starts it anew: another process, which remembers nothing.
    pub fn restart(&mut self) {
        (self.layer, self.chain) = process(&self.place, &self.config);
    }

    /// Asks for a connection; the request still says what the client knows.
    pub async fn request(&self, id: &str, known: Option<&Content>, answer: &Content) -> Answer {
        let request = NetworkServiceRequest {
            connection: Some(known.map_or_else(|| unknown(id), |known| known.connection(id))),
            ..NetworkServiceRequest::default()
        };
        let mut call = Call::request(request);
        call.extensions.insert(Told(answer.connection(id)));
        self.call(call).await
    }

    /// Closes a connection.
    pub async fn close(&self, id: &str, known: Option<&Content>) -> Answer {
        let connection = known.map_or_else(|| unknown(id), |known| known.connection(id));
        self.call(Call::close(connection)).await
    }

    /// How many namespaces it holds.
    pub fn holds(&self) -> usize {
        self.layer.namespaces_held()
    }

    async fn call(&self, call: Call) -> Answer {
        let answer = self.chain.clone().oneshot(call).await;
        let error = |error: Error| (error.kind(), error.report().to_string());
        answer.map(drop).map_err(error)
    }
}

fn process<N: nsm_netlink::Namespace + Clone>(
    place: &N,
    config: &Config,
) -> (PolicyRouteLayer<OneNamespace<N>>, BoxNetworkService) {
    let layer = PolicyRouteLayer::new(OneNamespace::new(place.clone()), config.clone());
    let chain = BoxNetworkService::new(layer.layer(AnswerAsTold));
    (layer, chain)
}

fn unknown(id: &str) -> Connection {
    Connection {
        id: id.to_owned(),
        ..Connection::default()
    }
}

#[derive(Debug, Clone)]
struct Told(Connection);

/// The end of the chain: answers with what the call brings along to be answered.
#[derive(Debug, Clone, Copy)]
struct AnswerAsTold;

impl Service<Call> for AnswerAsTold {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let told = call.extensions.get::<Told>().cloned();
        let answer = told.map_or_else(|| call.connection().clone(), |Told(answer)| answer);
        Box::pin(async move { Ok(answer) })
    }
}
