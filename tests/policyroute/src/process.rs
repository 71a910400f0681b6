use crate::{Draft, Machine, OWNER, Place, Pod};
use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::{
    BeginLayer, BoxFuture, BoxNetworkService, Call, Error, ErrorKind, NetworkService, Side,
    TraceLayer,
};
use nsm_policyroute::{Config, PolicyRouteLayer, Received, ReceivedNamespace};
use std::task::{Context, Poll};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

/// The settings of the element in most cases.
pub fn config() -> Config {
    Config::new(OWNER)
}

/// The element in one life of its process. A restart is the next one; clones are the same.
#[derive(Debug)]
pub struct Process<M: Machine> {
    pod: Pod<M>,
    config: Config,
    layer: PolicyRouteLayer<ReceivedNamespace<Place<M>>>,
    chain: BoxNetworkService,
}

impl<M: Machine> Clone for Process<M> {
    fn clone(&self) -> Self {
        Self {
            pod: self.pod.clone(),
            config: self.config.clone(),
            layer: self.layer.clone(),
            chain: self.chain.clone(),
        }
    }
}

impl<M: Machine> Process<M> {
    /// Starts the element. Calls come with the descriptor of this pod.
    pub fn start(pod: &Pod<M>) -> Self {
        Self::start_with(pod, config())
    }

    /// Starts the element with other settings.
    pub fn start_with(pod: &Pod<M>, config: Config) -> Self {
        Self::above(pod, config, AnswerAsTold)
    }

    /// Starts the element above some other end of the chain.
    pub fn above(pod: &Pod<M>, config: Config, end: impl NetworkService) -> Self {
        let layer = PolicyRouteLayer::new(ReceivedNamespace::any(), config.clone());
        let chain = BoxNetworkService::new(layer.layer(end));
        Self {
            pod: pod.clone(),
            config,
            layer,
            chain,
        }
    }

    /// The same process with `begin` above the element, as in a whole chain.
    #[must_use]
    pub fn below_begin(self) -> Self {
        let begin = BeginLayer::new(Side::Server);
        let chain = ServiceBuilder::new().layer(begin).service(self.chain);
        Self {
            chain: BoxNetworkService::new(chain),
            ..self
        }
    }

    /// The same process with `trace` above all, which logs the errors of calls.
    #[must_use]
    pub fn below_trace(self) -> Self {
        Self {
            chain: BoxNetworkService::new(TraceLayer.layer(self.chain)),
            ..self
        }
    }

    /// Requests a connection. Whatever becomes of it, what others have made stays as it is.
    ///
    /// # Errors
    /// Those of the chain.
    pub async fn request(&self, connection: &Draft) -> Result<Connection, Error> {
        self.beside_others(request(connection, &self.pod)).await
    }

    /// Requests a connection by a call that is answered with another one.
    ///
    /// # Errors
    /// Those of the chain.
    pub async fn request_answered(
        &self,
        asked: &Draft,
        answered: &Draft,
    ) -> Result<Connection, Error> {
        let mut call = request(asked, &self.pod);
        call.extensions.insert(Answer((**answered).clone()));
        self.beside_others(call).await
    }

    /// Closes a connection. Whatever becomes of it, what others have made stays as it is.
    ///
    /// # Errors
    /// Those of the chain.
    pub async fn close(&self, connection: &Draft) -> Result<Connection, Error> {
        self.beside_others(close(connection, &self.pod)).await
    }

    /// Makes any call, and does not look at what others have made meanwhile.
    ///
    /// # Errors
    /// Those of the chain.
    pub fn call(&self, call: Call) -> impl Future<Output = Result<Connection, Error>> + use<M> {
        self.chain.clone().oneshot(call)
    }

    /// How many namespaces the process holds.
    pub fn namespaces_held(&self) -> usize {
        self.layer.namespaces_held()
    }

    async fn beside_others(&self, call: Call) -> Result<Connection, Error> {
        let others = || self.pod.snapshot().without(self.config.owner);
        let before = others();
        let answer = self.call(call).await;
        assert_eq!(others(), before, "others have been touched");
        answer
    }
}

/// A request with the descriptor of a pod.
pub fn request<M: Machine>(connection: &Connection, pod: &Pod<M>) -> Call {
    with_descriptor(
        Call::request(NetworkServiceRequest {
            connection: Some(connection.clone()),
            ..NetworkServiceRequest::default()
        }),
        pod,
    )
}

/// A close with the descriptor of a pod.
pub fn close<M: Machine>(connection: &Connection, pod: &Pod<M>) -> Call {
    with_descriptor(Call::close(connection.clone()), pod)
}

fn with_descriptor<M: Machine>(mut call: Call, pod: &Pod<M>) -> Call {
    call.extensions.insert(Received(pod.descriptor()));
    call
}

/// Asserts that a call fails so, and that its report has all these words in it.
///
/// # Panics
/// When it does not.
#[track_caller]
pub fn assert_fails(answer: Result<Connection, Error>, kind: ErrorKind, says: &[&str]) {
    let Err(error) = answer else {
        panic!("the call went well");
    };
    let report = error.report().to_string();
    assert_eq!(error.kind(), kind, "{report}");
    for words in says {
        assert!(report.contains(words), "no {words:?} in {report:?}");
    }
}

#[derive(Debug, Clone)]
struct Answer(Connection);

/// The end of the chain: answers with what the call brings along to be answered, or else with
/// what it is asked for.
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
        let told = call.extensions.get::<Answer>().cloned();
        let answer = told.map_or_else(|| call.connection().clone(), |Answer(answer)| answer);
        Box::pin(async move { Ok(answer) })
    }
}
