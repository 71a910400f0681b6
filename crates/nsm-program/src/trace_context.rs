//! Traces that go through hops: the W3C trace context in the headers of calls.
//!
//! On a server side the headers `traceparent` and `tracestate` of a call say in which trace it
//! belongs, on a client side they are written for the next hop. Where no spans are recorded they go
//! on as they came.

use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue};
use nsm_api::connection::Connection;
use nsm_chain::{BoxFuture, Call, Error, NetworkService, Side, take_ready};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tower::{Layer, Service};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Takes the trace of a call from its headers (server side), or puts it there (client side). See
/// the [module](self).
///
/// On a server side it sits above [`TraceLayer`](nsm_chain::TraceLayer), whose span is then part of
/// the caller's trace. On a client side it sits right above what calls the next hop, below all
/// spans.
#[derive(Clone, Copy, Debug)]
pub struct TraceContextLayer {
    side: Side,
}

impl TraceContextLayer {
    /// A layer for chains of that side.
    pub fn new(side: Side) -> Self {
        Self { side }
    }
}

impl<S> Layer<S> for TraceContextLayer {
    type Service = TraceContext<S>;

    fn layer(&self, inner: S) -> TraceContext<S> {
        TraceContext {
            inner,
            side: self.side,
        }
    }
}

/// The service of [`TraceContextLayer`]. Its errors are those from below; headers that are no trace
/// context are no error.
#[derive(Clone, Debug)]
pub struct TraceContext<S> {
    inner: S,
    side: Side,
}

impl<S: NetworkService> Service<Call> for TraceContext<S> {
    type Response = Connection;
    type Error = Error;
    type Future = BoxFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> BoxFuture {
        let mut inner = take_ready(&mut self.inner);
        let propagator = TraceContextPropagator::new();
        match self.side {
            Side::Client => {
                let ours = Span::current().context();
                if ours.span().span_context().is_valid() {
                    propagator.inject_context(&ours, &mut Headers(&mut call.metadata));
                }
                Box::pin(inner.call(call))
            }
            Side::Server => {
                let callers = propagator.extract(&HeadersOf(&call.metadata));
                // The spans below are made within `call`, not when its future is polled.
                let _entered = callers.attach();
                Box::pin(inner.call(call))
            }
        }
    }
}

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        // An empty state of a trace is none.
        if value.is_empty() {
            return;
        }
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

struct HeadersOf<'a>(&'a HeaderMap);

impl Extractor for HeadersOf<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}
