//! What ten thousand requests with telemetry leave: nothing. It is a process of its own, for its
//! memory is measured.

#![allow(clippy::unwrap_used, reason = "what is no test here serves one")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use nsm_chain::trace::ElementLayer;
use nsm_chain::{
    BeginLayer, BoxNetworkService, Call, DeadlineLayer, End, MetadataLayer, Side, TraceLayer,
    UpdatePathLayer,
};
use nsm_program::TraceContextLayer;
use nsm_program::logging::{LogFormat, subscriber};
use nsm_program::settings::{HostPort, LogLevel};
use nsm_program::telemetry::{Settings, Telemetry};
use program_suite::{Collector, Keeps, request};
use tower::{ServiceBuilder, ServiceExt};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// How many spans are open.
#[derive(Clone, Default)]
struct Open(Arc<AtomicI64>);

impl<S: tracing::Subscriber> Layer<S> for Open {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The resident memory of this process, in KiB.
fn memory() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().trim().trim_end_matches("kB").trim();
    number.parse().unwrap()
}

async fn requests(chain: &BoxNetworkService, count: usize) {
    for number in 0..count {
        let id = format!("connection-{}", number % 20);
        chain.clone().oneshot(request(&id)).await.unwrap();
        if number % 100 < 20 {
            let connection = request(&id).connection().clone();
            chain
                .clone()
                .oneshot(Call::close(connection))
                .await
                .unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_requests_leave_no_open_span_and_no_memory_with_a_collector_and_without() {
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let collector = Collector::start_at(anywhere, Keeps::Number).await;
    let settings = |collector: HostPort| Settings {
        collector: Some(collector),
        metrics_interval: "100ms".parse().unwrap(),
        ..Settings::default()
    };
    let present = settings(collector.address().to_string().parse().unwrap());
    let absent = settings("127.0.0.1:1".parse().unwrap());
    let chain = ServiceBuilder::new()
        .layer(TraceContextLayer::new(Side::Server))
        .layer(TraceLayer)
        .layer(DeadlineLayer::new(Duration::from_secs(15)))
        .layer(UpdatePathLayer::new("nse"))
        .layer(BeginLayer::new(Side::Server))
        .layer(ElementLayer::new("metadata", Side::Server))
        .layer(MetadataLayer::new(Side::Server))
        .layer(TraceContextLayer::new(Side::Client))
        .service(End);
    let chain = BoxNetworkService::new(chain);

    // The second is for all threads of the process; the first goes without a collector.
    for (settings, has_collector) in [(absent, false), (present, true)] {
        let telemetry = Telemetry::start("nse", &settings).await.unwrap();
        let open = Open::default();
        // At the level at which each element has a span.
        let (subscriber, level) = subscriber(
            LogLevel::Debug,
            LogFormat::Text,
            std::io::sink,
            telemetry.tracer(),
        );
        let dispatch = tracing::Dispatch::new(subscriber.with(open.clone()));
        let work = tracing::instrument::WithSubscriber::with_subscriber;
        work(requests(&chain, 2_000), dispatch.clone()).await;
        let before = memory();

        work(requests(&chain, 10_000), dispatch.clone()).await;

        let grown = memory() - before;
        drop(level);
        telemetry.shut_down(Duration::from_secs(5)).await;
        assert_eq!(open.0.load(Ordering::Relaxed), 0);
        assert!(grown < 8 * 1024, "grown by {grown} KiB");
        assert_eq!(collector.collected().number > 0, has_collector);
    }
}
