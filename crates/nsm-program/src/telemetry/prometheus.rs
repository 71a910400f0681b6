//! The page for Prometheus.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use opentelemetry_prometheus::PrometheusExporter;
use opentelemetry_sdk::error::OTelSdkError;
use prometheus::{Registry, TextEncoder};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::settings::HostPort;

/// How long whoever reads the page may take to ask for it, and to read it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The metrics of the process as a page at `/metrics`.
#[derive(Debug)]
pub(super) struct Page {
    registry: Registry,
}

impl Page {
    /// A page, and what reads the metrics for it.
    pub(super) fn new() -> Result<(Self, PrometheusExporter), OTelSdkError> {
        let registry = Registry::new();
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .build()?;
        Ok((Self { registry }, reader))
    }

    /// Serves the page, for as long as the runtime works, and tells where.
    pub(super) async fn listen(self, at: &HostPort) -> io::Result<SocketAddr> {
        let listener = match at.host() {
            // All addresses of both families; of one where the other is switched off.
            "" => match TcpListener::bind(("::", at.port())).await {
                Ok(listener) => listener,
                Err(_) => TcpListener::bind(("0.0.0.0", at.port())).await?,
            },
            host => TcpListener::bind((host, at.port())).await?,
        };
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        tokio::spawn(show(self.registry.clone(), stream));
                    }
                    Err(error) => {
                        // No descriptor is free, for instance. It passes, or goes on.
                        warn!(%error, "a reader of metrics was not let in");
                        sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        });
        Ok(address)
    }
}

async fn show(registry: Registry, stream: TcpStream) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let answer = page(&registry, &request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    match timeout(PATIENCE * 2, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a reader of metrics went away"),
        Err(_) => debug!("a reader of metrics took too long"),
    }
}

fn page(registry: &Registry, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            match TextEncoder::new().encode_to_string(&registry.gather()) {
                Ok(text) => (StatusCode::OK, text),
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            }
        }
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "GET it\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "it is at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static(prometheus::TEXT_FORMAT),
    );
    response
}
