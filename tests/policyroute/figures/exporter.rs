use opentelemetry::{KeyValue, global};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use std::collections::BTreeMap;

/// Where the figures go of processes that start from now on.
pub(crate) struct Exporter {
    provider: SdkMeterProvider,
    exported: InMemoryMetricExporter,
}

impl Exporter {
    /// Makes its meter provider the global one.
    pub(crate) fn install() -> Self {
        let exported = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(exported.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        global::set_meter_provider(provider.clone());
        Self { provider, exported }
    }

    /// How many of these stand.
    #[track_caller]
    pub(crate) fn standing(&self, what: &str) -> i64 {
        self.figure(&format!("standing {what}"))
    }

    /// A figure by its name and label, 0 where it has not been told.
    #[track_caller]
    pub(crate) fn figure(&self, name: &str) -> i64 {
        self.figures().get(name).copied().unwrap_or(0)
    }

    /// Nothing is wanted, and nothing is wrong.
    #[track_caller]
    pub(crate) fn nothing_stands(&self) {
        let figures = self.figures().into_iter();
        let standing: BTreeMap<_, _> = figures
            .filter(|(name, _)| name.starts_with("standing "))
            .collect();
        assert_eq!(standing.len(), 5, "{standing:?}");
        assert!(standing.values().all(|value| *value == 0), "{standing:?}");
    }

    #[track_caller]
    fn figures(&self) -> BTreeMap<String, i64> {
        self.exported.reset();
        self.provider.force_flush().unwrap();
        let exported = self.exported.get_finished_metrics().unwrap();
        exported.iter().flat_map(read).collect()
    }
}

/// All sums as `name label` to value, the names without what they have in common.
fn read(resource: &ResourceMetrics) -> Vec<(String, i64)> {
    let mut figures = Vec::new();
    let mut take = |name: &str, label: Option<&KeyValue>, value: i64| {
        let name = name.trim_start_matches("nsm.policyroute.");
        let label = label.map(|label| format!(" {}", label.value));
        figures.push((format!("{name}{}", label.unwrap_or_default()), value));
    };
    for metric in resource.scope_metrics().flat_map(|scope| scope.metrics()) {
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    let value = i64::try_from(point.value()).unwrap();
                    take(metric.name(), point.attributes().next(), value);
                }
            }
            AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    take(metric.name(), point.attributes().next(), point.value());
                }
            }
            _ => {}
        }
    }
    figures
}
