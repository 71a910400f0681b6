//! A collector of OpenTelemetry that keeps what it is sent.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::{Request, Response, Status};
use tower::ServiceExt;

/// A collector that serves as long as the runtime works. Clones are the same.
#[derive(Clone, Debug)]
pub struct Collector {
    address: SocketAddr,
    keeps: Keeps,
    collected: Arc<Mutex<Collected>>,
    news: Arc<Notify>,
}

/// What a collector keeps of the spans that it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Their number only.
    Number,
    /// All of each.
    Everything,
}

/// What a collector was sent.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// How many spans.
    pub number: usize,
    /// The spans.
    pub spans: Vec<Span>,
    /// The name of the service that each of the spans came from.
    pub sent_by: Vec<String>,
    /// The names of metrics.
    pub metrics: Vec<String>,
    /// The names of the services that sent it.
    pub services: Vec<String>,
}

impl Collector {
    /// Starts a collector that keeps everything, anywhere on the loopback.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub async fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), Keeps::Everything).await
    }

    /// Starts a collector at that address.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub async fn start_at(address: SocketAddr, keeps: Keeps) -> Self {
        let listening = TcpListener::bind(address).await;
        let (listener, address) = match listening.and_then(|it| Ok((it.local_addr()?, it))) {
            Ok((address, listener)) => (listener, address),
            Err(error) => panic!("no collector at {address}: {error}"),
        };
        let collector = Self {
            address,
            keeps,
            collected: Arc::default(),
            news: Arc::default(),
        };
        tokio::spawn(collector.clone().accept(listener));
        collector
    }

    /// Serves at one more address: in another network namespace, say.
    ///
    /// # Panics
    ///
    /// If the runtime cannot take the listener.
    pub fn also_at(&self, listener: std::net::TcpListener) {
        let taken = listener.set_nonblocking(true);
        match taken.and_then(|()| TcpListener::from_std(listener)) {
            Ok(listener) => tokio::spawn(self.clone().accept(listener)),
            Err(error) => panic!("no collector there: {error}"),
        };
    }

    async fn accept(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(self.clone().serve(stream));
        }
    }

    async fn serve(self, stream: TcpStream) {
        let traces = TraceServiceServer::new(self.clone());
        let metrics = MetricsServiceServer::new(self);
        let service = service_fn(move |request: http::Request<Incoming>| {
            let request = request.map(Body::new);
            let (traces, metrics) = (traces.clone(), metrics.clone());
            async move {
                let answer: Result<_, Infallible> = if request.uri().path().contains("TraceService")
                {
                    traces.oneshot(request).await
                } else {
                    metrics.oneshot(request).await
                };
                answer
            }
        });
        // Whoever goes away in the middle is a program that has ended.
        let _ = http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it was sent so far.
    pub fn collected(&self) -> Collected {
        self.lock().clone()
    }

    /// Waits until what it was sent is enough, and gives it.
    ///
    /// # Panics
    ///
    /// If it never is.
    pub async fn until(&self, enough: impl Fn(&Collected) -> bool) -> Collected {
        let waiting = async {
            loop {
                let news = self.news.notified();
                if enough(&self.lock()) {
                    return;
                }
                news.await;
            }
        };
        let came = timeout(Duration::from_secs(20), waiting).await;
        let collected = self.collected();
        assert!(came.is_ok(), "that is not enough: {collected:#?}");
        collected
    }

    fn add(&self, add: impl FnOnce(&mut Collected)) {
        add(&mut self.lock());
        self.news.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.collected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collected {
    /// The names of the spans, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.spans.iter().map(|span| span.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// The span of that name.
    ///
    /// # Panics
    ///
    /// If there is none, or there are several.
    pub fn span(&self, name: &str) -> &Span {
        let mut found = self.spans.iter().filter(|span| span.name == name);
        match (found.next(), found.next()) {
            (Some(span), None) => span,
            _ => panic!("not one {name:?} among {:#?}", self.names()),
        }
    }
}

/// The text of an attribute.
fn text_of(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.add(|collected| {
            for of_resource in request.into_inner().resource_spans {
                let attributes = of_resource.resource.unwrap_or_default().attributes;
                let scopes = of_resource.scope_spans.into_iter();
                let spans: Vec<_> = scopes.flat_map(|scope| scope.spans).collect();
                collected.number += spans.len();
                if self.keeps == Keeps::Everything {
                    let service = text_of(&attributes, "service.name").unwrap_or_default();
                    let sent_by = std::iter::repeat_n(service.clone(), spans.len());
                    collected.sent_by.extend(sent_by);
                    collected.spans.extend(spans);
                    collected.services.push(service);
                }
            }
        });
        Ok(Response::new(Default::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.add(|collected| {
            for of_resource in request.into_inner().resource_metrics {
                let attributes = of_resource.resource.unwrap_or_default().attributes;
                collected
                    .services
                    .extend(text_of(&attributes, "service.name"));
                let scopes = of_resource.scope_metrics.into_iter();
                let metrics = scopes.flat_map(|scope| scope.metrics);
                collected.metrics.extend(metrics.map(|metric| metric.name));
            }
        });
        Ok(Response::new(Default::default()))
    }
}
