//! Spans for calls and elements, and the one place where an error is logged.

use std::sync::Arc;
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use tower::{Layer, Service};
use tracing::instrument::Instrumented;
use tracing::{Instrument, Span, debug_span, error, field, info_span};

use crate::{BoxFuture, Call, Error, NetworkService, Operation, Side, take_ready};

/// Puts each call into a span, and logs its error.
///
/// It is the outermost layer. The span is named `call` and has the fields `connection.id`, as the
/// caller knows the connection, and `operation`. An error is logged here, once, with all its
/// causes on one line; whoever is below returns it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceLayer;

impl<S> Layer<S> for TraceLayer {
    type Service = Trace<S>;

    fn layer(&self, inner: S) -> Trace<S> {
        Trace { inner }
    }
}

/// The service of [`TraceLayer`]. Its errors are those from below.
#[derive(Clone, Debug)]
pub struct Trace<S> {
    inner: S,
}

impl<S: NetworkService> Service<Call> for Trace<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let operation = call.operation.name();
        let span = info_span!("call", operation, connection.id = field::Empty);
        let id = call.connection_id();
        if let Ok(id) = &id {
            span.record("connection.id", id.as_str());
        }
        let work = async move {
            let answer = inner.call(call).await;
            match &answer {
                // The connection of a client's first request gets its id on the way down.
                Ok(connection) if id.is_err() => {
                    Span::current().record("connection.id", &connection.id);
                }
                Ok(_) => {}
                Err(error) => error!(error = %error.report(), "{operation} failed"),
            }
            answer
        };
        Box::pin(work.instrument(span))
    }
}

/// Puts an element, and all that is below it, into a span of the element's name.
///
/// It sits right above the element:
///
/// ```
/// # use nsm_chain::{End, MetadataLayer, Side, trace::ElementLayer};
/// # let _ =
/// tower::ServiceBuilder::new()
///     .layer(ElementLayer::new("metadata", Side::Server))
///     .layer(MetadataLayer::new(Side::Server))
///     .service(End);
/// ```
///
/// The span has the fields `connection.id`, as this hop knows the connection, and `otel.name`, from
/// which OpenTelemetry takes a span's name, for those of `tracing` are fixed in the source. It is
/// `metadata/metadataServer.Request`: so the mesh's Go components name the spans of their elements,
/// and a trace through hops of both kinds reads as one.
#[derive(Clone, Debug)]
pub struct ElementLayer {
    names: Arc<Names>,
}

/// The names of an element's spans.
#[derive(Debug)]
struct Names {
    request: String,
    close: String,
}

impl ElementLayer {
    /// `module` is the name of the element's module, `side` the side of the chain that it is in.
    pub fn new(module: &str, side: Side) -> Self {
        let name = |operation: &str| match side {
            Side::Server => format!("{module}/{module}Server.{operation}"),
            Side::Client => format!("{module}/{module}Client.{operation}"),
        };
        let names = Names {
            request: name("Request"),
            close: name("Close"),
        };
        Self {
            names: Arc::new(names),
        }
    }
}

impl<S> Layer<S> for ElementLayer {
    type Service = Element<S>;

    fn layer(&self, inner: S) -> Element<S> {
        Element {
            inner,
            names: Arc::clone(&self.names),
        }
    }
}

/// The service of [`ElementLayer`]. Its errors are those from below.
#[derive(Clone, Debug)]
pub struct Element<S> {
    inner: S,
    names: Arc<Names>,
}

impl<S: NetworkService> Service<Call> for Element<S> {
    type Response = Connection;
    type Error = Error;
    type Future = Instrumented<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let name = match &call.operation {
            Operation::Request(_) => self.names.request.as_str(),
            Operation::Close(_) => self.names.close.as_str(),
        };
        let id = call.connection().id.as_str();
        let span = debug_span!("element", otel.name = name, connection.id = id);
        let future = span.in_scope(|| self.inner.call(call));
        future.instrument(span)
    }
}
