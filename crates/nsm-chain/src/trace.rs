//! Spans for calls and elements, and the one place where an error is logged.

use std::fmt;
use std::task::{Context, Poll};

use nsm_api::connection::Connection;
use tower::layer::util::Stack;
use tower::{Layer, Service, ServiceBuilder};
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

/// The target of the spans of elements.
pub const ELEMENT: &str = "nsm_chain::element";

/// Puts an element, and all that is below it, into a span of the element's name.
///
/// It sits right above the element. [`Elements`] adds both at once.
///
/// The span has the fields `connection.id`, as this hop knows the connection, and `otel.name`, from
/// which OpenTelemetry takes a span's name, for those of `tracing` are fixed in the source. It is
/// `metadata/metadataServer.Request`: so the mesh's Go components name the spans of their elements,
/// and a trace through hops of both kinds reads as one.
///
/// Below the level *debug* there is no such span, and nothing is done for it. Its target is
/// [`ELEMENT`], so that it can be left out of a log, where a line would name twenty of them before
/// it says anything.
#[derive(Clone, Copy, Debug)]
pub struct ElementLayer {
    module: &'static str,
    side: Side,
}

impl ElementLayer {
    /// `module` is the name of the element's module: the Go package's, where there is one. `side`
    /// is the side of its process that the element is on.
    pub const fn new(module: &'static str, side: Side) -> Self {
        Self { module, side }
    }
}

/// Adds elements to a chain, each in a span of its name (see [`ElementLayer`]).
///
/// ```
/// # use nsm_chain::{Elements, End, MetadataLayer, Side};
/// # let _ =
/// tower::ServiceBuilder::new()
///     .server("metadata", MetadataLayer::new(Side::Server))
///     .service(End);
/// ```
pub trait Elements<L>: Sized {
    /// Adds an element on the side that answers the hop before.
    fn server<E>(self, module: &'static str, element: E) -> ServiceBuilder<InSpan<E, L>>;

    /// Adds an element on the side that calls the hop behind.
    fn client<E>(self, module: &'static str, element: E) -> ServiceBuilder<InSpan<E, L>>;
}

/// An element below those of `L`, with its span.
pub type InSpan<E, L> = Stack<E, Stack<ElementLayer, L>>;

impl<L> Elements<L> for ServiceBuilder<L> {
    fn server<E>(self, module: &'static str, element: E) -> ServiceBuilder<InSpan<E, L>> {
        let span = ElementLayer::new(module, Side::Server);
        self.layer(span).layer(element)
    }

    fn client<E>(self, module: &'static str, element: E) -> ServiceBuilder<InSpan<E, L>> {
        let span = ElementLayer::new(module, Side::Client);
        self.layer(span).layer(element)
    }
}

impl<S> Layer<S> for ElementLayer {
    type Service = Element<S>;

    fn layer(&self, inner: S) -> Element<S> {
        Element {
            inner,
            layer: *self,
        }
    }
}

/// The service of [`ElementLayer`]. Its errors are those from below.
#[derive(Clone, Debug)]
pub struct Element<S> {
    inner: S,
    layer: ElementLayer,
}

impl<S: NetworkService> Service<Call> for Element<S> {
    type Response = Connection;
    type Error = Error;
    type Future = Instrumented<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let name = Name {
            layer: self.layer,
            operation: &call.operation,
        };
        let id = call.connection().id.as_str();
        let span = debug_span!(target: ELEMENT, "element", otel.name = %name, connection.id = id);
        let future = span.in_scope(|| self.inner.call(call));
        future.instrument(span)
    }
}

/// The name of an element's span. It is written only where the span is recorded.
struct Name<'a> {
    layer: ElementLayer,
    operation: &'a Operation,
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ElementLayer { module, side } = self.layer;
        let side = match side {
            Side::Server => "Server",
            Side::Client => "Client",
        };
        let operation = match self.operation {
            Operation::Request(_) => "Request",
            Operation::Close(_) => "Close",
        };
        write!(f, "{module}/{module}{side}.{operation}")
    }
}
