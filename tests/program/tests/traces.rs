//! Behaviours of traces that go through hops.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

use nsm_api::connection::Connection;
use nsm_chain::trace::ElementLayer;
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, End, Error, NetworkService, Side, TraceLayer,
    UpdatePathLayer,
};
use nsm_program::TraceContextLayer;
use nsm_program::logging::{LogFormat, subscriber};
use nsm_program::settings::LogLevel;
use nsm_program::telemetry::{Settings, Telemetry};
use program_suite::{Collected, Collector, request};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::{ServiceBuilder, ServiceExt, service_fn};

fn server(inner: impl NetworkService) -> BoxNetworkService {
    let chain = ServiceBuilder::new()
        .layer(TraceContextLayer::new(Side::Server))
        .layer(TraceLayer)
        .layer(UpdatePathLayer::new("forwarder"))
        .layer(BeginLayer::new(Side::Server))
        .layer(ElementLayer::new("policyroute", Side::Server))
        .service(inner);
    BoxNetworkService::new(chain)
}

fn client(inner: impl NetworkService) -> BoxNetworkService {
    let chain = ServiceBuilder::new()
        .layer(TraceLayer)
        .layer(UpdatePathLayer::new("nsc"))
        .layer(BeginLayer::new(Side::Client))
        .layer(ElementLayer::new("refresh", Side::Client))
        .layer(TraceContextLayer::new(Side::Client))
        .service(inner);
    BoxNetworkService::new(chain)
}

/// A wire to another process: only the message and the headers go through.
fn wire(to: BoxNetworkService) -> impl NetworkService {
    service_fn(move |call: Call| {
        let arrived = Call {
            metadata: call.metadata,
            ..Call::request(match call.operation {
                nsm_chain::Operation::Request(request) => request,
                nsm_chain::Operation::Close(_) => Default::default(),
            })
        };
        let answer = tokio::spawn(to.clone().oneshot(arrived));
        async move {
            answer
                .await
                .map_err(|error| Error::from(Box::from(error)))?
        }
    })
}

/// What a collector has of a call.
async fn collected(
    level: LogLevel,
    chain: BoxNetworkService,
    call: Call,
) -> (Collected, Connection) {
    let collector = Collector::start().await;
    let settings = Settings {
        collector: Some(collector.address().to_string().parse().unwrap()),
        ..Settings::default()
    };
    let telemetry = Telemetry::start("hops", &settings).await.unwrap();
    let (subscriber, _) = subscriber(level, LogFormat::Text, std::io::sink, telemetry.tracer());
    let default = tracing::subscriber::set_default(subscriber);

    let answer = chain.oneshot(call).await.unwrap();

    drop(default);
    telemetry.shut_down(Duration::from_secs(10)).await;
    (collector.collected(), answer)
}

#[tokio::test]
async fn a_call_through_two_hops_is_one_trace() {
    let chain = client(wire(server(End)));

    let (collected, answer) = collected(LogLevel::Debug, chain, request("nsc-1")).await;

    let at_the_forwarder = &answer.path.unwrap().path_segments[1].id;
    assert_eq!(collected.spans.len(), 4, "{:#?}", collected.names());
    let refresh = collected.span("refresh/refreshClient.Request");
    let policyroute = collected.span("policyroute/policyrouteServer.Request");
    let roots = |span: &&opentelemetry_proto::tonic::trace::v1::Span| {
        span.name == "[id: nsc-1] [type: networkService] [method: Request]"
    };
    let calls: Vec<_> = collected.spans.iter().filter(roots).collect();
    assert_eq!(calls.len(), 2);
    let (at_nsc, forwarders) = if calls[0].parent_span_id.is_empty() {
        (calls[0], calls[1])
    } else {
        (calls[1], calls[0])
    };
    assert!(at_nsc.parent_span_id.is_empty());
    assert_eq!(refresh.parent_span_id, at_nsc.span_id);
    assert_eq!(forwarders.parent_span_id, refresh.span_id);
    assert_eq!(policyroute.parent_span_id, forwarders.span_id);
    let of_the_trace =
        |span: &&opentelemetry_proto::tonic::trace::v1::Span| span.trace_id == at_nsc.trace_id;
    assert_eq!(collected.spans.iter().filter(of_the_trace).count(), 4);
    let attributes = format!("{:?}", policyroute.attributes);
    assert!(
        attributes.contains(at_the_forwarder.as_str()),
        "{attributes}"
    );
    assert!(attributes.contains("networkService"), "{attributes}");
}

#[tokio::test]
async fn a_trace_that_a_caller_has_begun_goes_on() {
    let mut call = request("c");
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    call.metadata.insert("traceparent", parent.parse().unwrap());

    let (collected, _) = collected(LogLevel::Info, server(End), call).await;

    let span = collected.span("[id: c] [type: networkService] [method: Request]");
    let hexadecimal = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(
        hexadecimal(&span.trace_id),
        "0af7651916cd43dd8448eb211c80319c"
    );
    assert_eq!(hexadecimal(&span.parent_span_id), "b7ad6b7169203331");
}

/// What is logged. Clones write to the same.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_line_of_the_log_names_the_call_and_not_the_elements_that_it_is_in() {
    let chain = server(service_fn(|call: Call| {
        tracing::debug!("at work");
        End.oneshot(call)
    }));
    for format in [LogFormat::Text, LogFormat::Json] {
        let lines = Lines::default();
        let writer = lines.clone();
        let (subscriber, _) = subscriber(LogLevel::Trace, format, move || writer.clone(), None);
        let _default = tracing::subscriber::set_default(subscriber);

        chain.clone().oneshot(request("c")).await.unwrap();

        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let line = text.lines().find(|line| line.contains("at work")).unwrap();
        assert!(line.contains("call"), "{line}");
        assert!(!text.contains("policyroute"), "{text}");
    }
}

#[tokio::test]
async fn headers_that_are_no_trace_begin_one() {
    for header in [
        "",
        "garbage",
        "00-0-0-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ] {
        let mut call = request("c");
        call.metadata.insert("traceparent", header.parse().unwrap());

        let (collected, _) = collected(LogLevel::Info, server(End), call).await;

        assert!(collected.spans[0].parent_span_id.is_empty(), "{header}");
    }
}

#[tokio::test]
async fn where_no_spans_are_recorded_the_headers_go_on_as_they_came() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let seen = Arc::new(Mutex::new(None));
    let at_the_end = seen.clone();
    let chain = client(service_fn(move |call: Call| {
        *at_the_end.lock().unwrap() = call.metadata.get("traceparent").cloned();
        End.oneshot(call)
    }));
    let mut call = request("c");
    call.metadata.insert("traceparent", parent.parse().unwrap());

    chain.oneshot(call).await.unwrap();

    assert_eq!(seen.lock().unwrap().as_ref().unwrap(), parent);
}
