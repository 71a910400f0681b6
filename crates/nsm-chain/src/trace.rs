//! Spans for calls and elements, and the one place where an error is logged.

use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use tower::{Layer, Service};
use tracing::instrument::Instrumented;
use tracing::{Instrument, Span, debug_span, error, field, info_span};

use crate::{BoxFuture, Call, Error, NetworkService, take_ready};

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
///     .layer(ElementLayer::new("metadata"))
///     .layer(MetadataLayer::new(Side::Server))
///     .service(End);
/// ```
///
/// The names of `tracing`'s spans are fixed in the source. So the name is in the field
/// `otel.name`, from which OpenTelemetry takes it.
#[derive(Clone, Copy, Debug)]
pub struct ElementLayer {
    name: &'static str,
}

impl ElementLayer {
    /// `name` is the name of the element's module.
    pub fn new(name: &'static str) -> Self {
        Self { name }
    }
}

impl<S> Layer<S> for ElementLayer {
    type Service = Element<S>;

    fn layer(&self, inner: S) -> Element<S> {
        Element {
            inner,
            name: self.name,
        }
    }
}

/// The service of [`ElementLayer`]. Its errors are those from below.
#[derive(Clone, Debug)]
pub struct Element<S> {
    inner: S,
    name: &'static str,
}

impl<S: NetworkService> Service<Call> for Element<S> {
    type Response = Connection;
    type Error = Error;
    type Future = Instrumented<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let span = debug_span!("element", otel.name = self.name);
        let future = span.in_scope(|| self.inner.call(call));
        future.instrument(span)
    }
}
