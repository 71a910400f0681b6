//! Traces and metrics, for a collector and for Prometheus.
//!
//! With `TELEMETRY` on, spans and metrics go to a collector of OpenTelemetry, by OTLP over gRPC,
//! under the name of the program. Spans have the names that the mesh's Go components give theirs.
//! Metrics can be had from a page for Prometheus too, with or without a collector.
//!
//! A collector that is away, or does not answer, delays nothing: spans and metrics are sent by
//! threads of their own, what does not fit into their queue is dropped, and the end of the process
//! waits for them no longer than it is told to. That the collector is away is logged once, and once
//! that it is back.
//!
//! Elements take their instruments from the global meter provider when they are made, so telemetry
//! starts before them.

mod collector;
mod names;
mod prometheus;

use std::io;
use std::time::Duration;

use opentelemetry::global;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, RetryPolicy, SpanExporter};
use opentelemetry_otlp::{WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::transport::Endpoint;
use tracing::debug;

use crate::settings::{GoDuration, HostPort, ListenOn};
use collector::{Collector, Watched};
use names::Named;

/// How long it may take to reach the collector.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the collector may take for what it is sent.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(3);

/// Where traces and metrics go.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// A collector of OpenTelemetry.
    pub collector: Option<HostPort>,
    /// How often metrics are sent to it.
    pub metrics_interval: GoDuration,
    /// Where the page for Prometheus is.
    pub prometheus: ListenOn,
}

/// The traces and metrics of this process.
#[derive(Debug, Default)]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    prometheus: Option<std::net::SocketAddr>,
}

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The collector's address is none that gRPC can use.
    #[error("the collector {collector} cannot be called")]
    Collector {
        /// The collector.
        collector: HostPort,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
    /// What sends to the collector cannot be made.
    #[error("nothing can be sent to the collector {collector}")]
    Exporter {
        /// The collector.
        collector: HostPort,
        /// Why.
        #[source]
        source: ExporterBuildError,
    },
    /// What reads the metrics for Prometheus cannot be made.
    #[error("metrics cannot be read for Prometheus")]
    Reader(#[source] OTelSdkError),
    /// The page for Prometheus cannot be where it is wanted.
    #[error("the page for Prometheus cannot be at {listen_on}")]
    Listen {
        /// Where it is wanted.
        listen_on: HostPort,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Telemetry {
    /// Starts what the settings want, under the name of the program, and makes its meter provider
    /// the global one.
    ///
    /// It waits for no collector.
    ///
    /// # Errors
    ///
    /// See [`TelemetryError`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with I/O.
    pub async fn start(program: &str, settings: &Settings) -> Result<Self, TelemetryError> {
        let resource = Resource::builder()
            .with_service_name(program.to_owned())
            .build();
        let mut telemetry = Self::default();
        let mut meters = SdkMeterProvider::builder().with_resource(resource.clone());
        if let Some(collector) = &settings.collector {
            let (spans, metrics) = exporters(collector)?;
            telemetry.traces = Some(
                SdkTracerProvider::builder()
                    .with_resource(resource)
                    .with_batch_exporter(Named(spans))
                    .build(),
            );
            let reader = PeriodicReader::builder(metrics);
            meters = meters.with_reader(reader.with_interval(*settings.metrics_interval).build());
        }
        if let Some(listen_on) = settings.prometheus.get() {
            let (page, reader) = prometheus::Page::new().map_err(TelemetryError::Reader)?;
            meters = meters.with_reader(reader);
            let listen = page.listen(listen_on).await;
            telemetry.prometheus = Some(listen.map_err(|source| TelemetryError::Listen {
                listen_on: listen_on.clone(),
                source,
            })?);
        }
        if telemetry.traces.is_some() || telemetry.prometheus.is_some() {
            let meters = meters.build();
            global::set_meter_provider(meters.clone());
            telemetry.metrics = Some(meters);
        }
        Ok(telemetry)
    }

    /// What records spans, if they go anywhere.
    pub fn tracer(&self) -> Option<SdkTracer> {
        // The Go components' tracer has no name either.
        self.traces.as_ref().map(|traces| traces.tracer(""))
    }

    /// Where the page for Prometheus is.
    pub fn prometheus(&self) -> Option<std::net::SocketAddr> {
        self.prometheus
    }

    /// Sends what is left, and ends. It is given up after `within`: a collector that is away keeps
    /// nobody.
    pub async fn shut_down(self, within: Duration) {
        let (done, all_done) = oneshot::channel();
        // The SDK's own wait blocks. A thread of ours can be left behind, which a blocking task of
        // the runtime can not.
        let waits = std::thread::Builder::new().name("telemetry-end".to_owned());
        let spawned = waits.spawn(move || {
            let traces = self.traces.map(|it| it.shutdown_with_timeout(within));
            let metrics = self.metrics.map(|it| it.shutdown_with_timeout(within));
            let ended = traces.unwrap_or(Ok(())).and(metrics.unwrap_or(Ok(())));
            // Nobody waits any more after the time-out.
            let _ = done.send(ended);
        });
        if spawned.is_err() {
            return;
        }
        match timeout(within, all_done).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => debug!(%error, "the last spans and metrics are lost"),
            Ok(Err(_)) | Err(_) => debug!("the last spans and metrics are lost"),
        }
    }
}

/// What sends to the collector, over one connection, which is made when there is something to send.
fn exporters(
    collector: &HostPort,
) -> Result<(Watched<SpanExporter>, Watched<MetricExporter>), TelemetryError> {
    let endpoint = Endpoint::from_shared(format!("http://{collector}"));
    let endpoint = endpoint.map_err(|source| TelemetryError::Collector {
        collector: collector.clone(),
        source,
    })?;
    let channel = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(EXPORT_TIMEOUT)
        .connect_lazy();
    let failed = |source| TelemetryError::Exporter {
        collector: collector.clone(),
        source,
    };
    // A try that fails is not repeated: what comes next is a try, too, and an end must not wait.
    let spans = SpanExporter::builder()
        .with_tonic()
        .with_channel(channel.clone())
        .with_timeout(EXPORT_TIMEOUT)
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(failed)?;
    let metrics = MetricExporter::builder()
        .with_tonic()
        .with_channel(channel)
        .with_timeout(EXPORT_TIMEOUT)
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(failed)?;
    let watch = Collector::new(collector.clone());
    Ok((
        Watched::new(spans, watch.clone()),
        Watched::new(metrics, watch),
    ))
}
