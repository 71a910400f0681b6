//! Whether the collector is there, told once each time that it changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tracing::{info, warn};

use crate::settings::HostPort;

/// What is known of the collector. Clones know the same.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    address: HostPort,
    away: Arc<AtomicBool>,
}

/// Sends through an exporter, and tells when it stops or begins to work.
#[derive(Debug)]
pub(super) struct Watched<E> {
    exporter: E,
    collector: Collector,
}

impl Collector {
    pub(super) fn new(address: HostPort) -> Self {
        Self {
            address,
            away: Arc::default(),
        }
    }

    fn seen(&self, result: OTelSdkResult) -> OTelSdkResult {
        let away = result.is_err();
        let was_away = self.away.swap(away, Ordering::Relaxed);
        match &result {
            Err(error) if !was_away => {
                warn!(collector = %self.address, %error, "spans and metrics are lost: the collector does not take them");
            }
            Ok(()) if was_away => info!(collector = %self.address, "the collector is back"),
            _ => {}
        }
        result
    }
}

impl<E> Watched<E> {
    pub(super) fn new(exporter: E, collector: Collector) -> Self {
        Self {
            exporter,
            collector,
        }
    }
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.collector.seen(self.exporter.export(batch).await)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Watched<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.collector.seen(self.exporter.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
