//! Which service answers a call.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use nsm_api::connection::monitor_connection_server::{self, MonitorConnectionServer};
use nsm_api::networkservice::network_service_server::{NetworkServiceServer, SERVICE_NAME};
use nsm_chain::BoxNetworkService;
use nsm_chain::monitor::Monitor;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{self, HealthServer};
use tonic_health::server::{HealthReporter, HealthService};
use tower::ServiceExt;

use super::edge::Edge;
use super::monitoring::{Monitoring, SELECTOR_LIMIT};
use crate::Peer;

/// The services of a server.
#[derive(Clone)]
pub(super) struct Routes {
    network_service: NetworkServiceServer<Edge>,
    monitoring: Option<MonitorConnectionServer<Monitoring>>,
    health: HealthServer<HealthService>,
    reporter: HealthReporter,
}

impl Routes {
    pub(super) async fn new(
        chain: BoxNetworkService,
        monitor: Option<Monitor>,
        names: &[String],
        limit: usize,
    ) -> Self {
        let reporter = HealthReporter::new();
        for name in services(names) {
            reporter
                .set_service_status(name, ServingStatus::Serving)
                .await;
        }
        let monitoring = monitor.map(|monitor| {
            MonitorConnectionServer::new(Monitoring {
                monitor,
                message_limit: limit,
            })
            .max_decoding_message_size(SELECTOR_LIMIT.min(limit))
        });
        Self {
            network_service: NetworkServiceServer::new(Edge { chain })
                .max_decoding_message_size(limit)
                .max_encoding_message_size(limit),
            monitoring,
            health: HealthServer::new(HealthService::from_health_reporter(reporter.clone())),
            reporter,
        }
    }

    /// Tells those who watch the health that it is over, and ends their streams.
    pub(super) async fn stop(mut self, names: &[String]) {
        for name in services(names) {
            self.reporter
                .set_service_status(name, ServingStatus::NotServing)
                .await;
            self.reporter.clear_service_status(name).await;
        }
    }

    pub(super) async fn answer(
        self,
        mut request: Request<Incoming>,
        peer: Option<Peer>,
    ) -> Response<Body> {
        if !is_grpc(&request) {
            let mut refused = Response::new(Body::default());
            *refused.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return refused;
        }
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        // `/package.Service/Method`
        let service = request.uri().path().split('/').nth(1);
        let answered = match (service, self.monitoring) {
            (Some(SERVICE_NAME), _) => self.network_service.oneshot(request).await,
            (Some(monitor_connection_server::SERVICE_NAME), Some(monitoring)) => {
                monitoring.oneshot(request).await
            }
            (Some(health_server::SERVICE_NAME), _) => {
                return answer_or_never(self.health.oneshot(request).await);
            }
            _ => {
                let path: String = request.uri().path().chars().take(128).collect();
                return Status::unimplemented(format!("{path} is not served here")).into_http();
            }
        };
        let mut response = answer_or_never(answered);
        if let Some(code) = response.headers_mut().get_mut(Status::GRPC_STATUS) {
            say_as_everybody_does(code);
        }
        response
    }
}

/// What is answered to a call over a connection that there are no descriptors for.
pub(super) fn refused() -> Response<Body> {
    let why = "too many descriptors are open here for another connection: try again later, or raise \
               the limit of the process (RLIMIT_NOFILE)";
    Status::resource_exhausted(why).into_http()
}

/// The generated services don't fail.
fn answer_or_never(answered: Result<Response<Body>, std::convert::Infallible>) -> Response<Body> {
    match answered {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// tonic answers to a message that is too large with `OutOfRange`. The chain's table never does.
fn say_as_everybody_does(code: &mut HeaderValue) {
    if code.as_bytes() == (Code::OutOfRange as i32).to_string().as_bytes() {
        *code = HeaderValue::from(Code::ResourceExhausted as i32);
    }
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let content = request.headers().get(CONTENT_TYPE);
    let is_grpc = |content: &HeaderValue| content.as_bytes().starts_with(b"application/grpc");
    request.method() == Method::POST && content.is_some_and(is_grpc)
}

/// The names that the health service knows: the whole server's is the empty one.
fn services(names: &[String]) -> impl Iterator<Item = &str> {
    ["", SERVICE_NAME]
        .into_iter()
        .chain(names.iter().map(String::as_str))
}
