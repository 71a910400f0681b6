//! Figures, through the opentelemetry API: whoever composes a program chooses where they go.

use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};
use opentelemetry::{KeyValue, global};

/// The instruments of one element. Labels are bounded: no connection, namespace or address.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// `nsm.policyroute.reconciles` by `outcome` (ok, or the kind of the error).
    reconciles: Counter<u64>,
    /// `nsm.policyroute.reconcile.duration` in seconds.
    duration: Histogram<f64>,
    /// `nsm.policyroute.rules` by `what`: added, removed, adopted.
    rules: Counter<u64>,
    /// `nsm.policyroute.routes` by `what`: added, removed.
    routes: Counter<u64>,
    /// `nsm.policyroute.drift_repaired`: writes for what stood before and had been changed.
    drift: Counter<u64>,
    /// `nsm.policyroute.refusals` by `errno`.
    refusals: Counter<u64>,
    /// `nsm.policyroute.standing` by `what`, over all namespaces: rules wanted, left-overs,
    /// conflicts, policies shadowed, look-alikes.
    standing: UpDownCounter<i64>,
}

/// What one reconcile did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Rules that were found standing and taken over.
    pub adopted: u64,
    /// Rules added.
    pub rules_added: u64,
    /// Rules removed.
    pub rules_removed: u64,
    /// Routes added.
    pub routes_added: u64,
    /// Routes removed.
    pub routes_removed: u64,
    /// Writes for selectors that had been seated before and have not been changed since.
    pub drift: u64,
}

/// How one namespace stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Rules that all claims want.
    pub wanted: i64,
    /// Rules that nobody claims and that wait for their end.
    pub leftovers: i64,
    /// Prefixes that two want differently.
    pub conflicts: i64,
    /// Policies with a rule of somebody else before theirs.
    pub shadowed: i64,
    /// Rules of others with a selector of ours.
    pub lookalikes: i64,
}

impl Metrics {
    /// The instruments of the global meter provider, as it is at this moment.
    pub fn global() -> Self {
        Self::of(&global::meter("nsm-policyroute"))
    }

    /// The instruments of a meter.
    pub fn of(meter: &Meter) -> Self {
        let counter = |name: &'static str, text: &'static str| {
            meter.u64_counter(name).with_description(text).build()
        };
        Self {
            reconciles: counter(
                "nsm.policyroute.reconciles",
                "Pieces of work in a namespace",
            ),
            duration: meter
                .f64_histogram("nsm.policyroute.reconcile.duration")
                .with_unit("s")
                .with_description("How long they took, without waiting for their turn")
                .build(),
            rules: counter("nsm.policyroute.rules", "Rules adopted, added and removed"),
            routes: counter("nsm.policyroute.routes", "Routes added and removed"),
            drift: counter(
                "nsm.policyroute.drift_repaired",
                "Writes that restored what stood",
            ),
            refusals: counter("nsm.policyroute.refusals", "Writes that the kernel refused"),
            standing: meter
                .i64_up_down_counter("nsm.policyroute.standing")
                .with_description("How the namespaces stand that are held")
                .build(),
        }
    }

    /// Counts a write that was refused.
    pub fn refused(&self, errno: nsm_netlink::Errno) {
        self.refusals
            .add(1, &[KeyValue::new("errno", format!("{errno:?}"))]);
    }

    /// Counts a reconcile.
    pub fn reconciled(&self, outcome: String, seconds: f64, figures: &Figures) {
        self.reconciles.add(1, &[KeyValue::new("outcome", outcome)]);
        self.duration.record(seconds, &[]);
        self.drift.add(figures.drift, &[]);
        let rules = [
            ("adopted", figures.adopted),
            ("added", figures.rules_added),
            ("removed", figures.rules_removed),
        ];
        let routes = [
            ("added", figures.routes_added),
            ("removed", figures.routes_removed),
        ];
        for (what, count) in rules {
            self.rules.add(count, &[KeyValue::new("what", what)]);
        }
        for (what, count) in routes {
            self.routes.add(count, &[KeyValue::new("what", what)]);
        }
    }

    /// Takes note of how a namespace stands that stood otherwise before.
    pub fn moved(&self, before: Standing, now: Standing) {
        let standing = [
            ("wanted", now.wanted - before.wanted),
            ("leftovers", now.leftovers - before.leftovers),
            ("conflicts", now.conflicts - before.conflicts),
            ("shadowed", now.shadowed - before.shadowed),
            ("lookalikes", now.lookalikes - before.lookalikes),
        ];
        for (what, difference) in standing {
            self.standing
                .add(difference, &[KeyValue::new("what", what)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::metrics::MeterProvider;
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
    use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
    use std::collections::BTreeMap;

    /// All counters as `name label` to value.
    fn exported(exporter: &InMemoryMetricExporter) -> BTreeMap<String, u64> {
        let mut values = BTreeMap::new();
        let mut take = |name: &str, label: Option<&KeyValue>, value: u64| {
            let label = label
                .map(|label| format!(" {}", label.value))
                .unwrap_or_default();
            values.insert(format!("{name}{label}"), value);
        };
        for resource in exporter.get_finished_metrics().unwrap() {
            for metric in resource.scope_metrics().flat_map(|scope| scope.metrics()) {
                match metric.data() {
                    AggregatedMetrics::U64(MetricData::Sum(sum)) => sum
                        .data_points()
                        .for_each(|p| take(metric.name(), p.attributes().next(), p.value())),
                    AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                        sum.data_points().for_each(|p| {
                            let value = p.value().try_into().unwrap();
                            take(metric.name(), p.attributes().next(), value);
                        })
                    }
                    _ => {}
                }
            }
        }
        values
    }

    #[test]
    fn figures_reach_the_exporter_under_bounded_labels() {
        let exporter = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let metrics = Metrics::of(&provider.meter("test"));
        let figures = Figures {
            adopted: 3,
            rules_added: 1,
            drift: 2,
            ..Figures::default()
        };
        let four = Standing {
            wanted: 4,
            ..Standing::default()
        };
        let one = Standing {
            wanted: 1,
            ..Standing::default()
        };

        metrics.moved(Standing::default(), four);
        metrics.moved(four, one);
        metrics.reconciled("ok".to_owned(), 0.001, &figures);
        metrics.reconciled("not found".to_owned(), 0.001, &Figures::default());
        metrics.refused(nsm_netlink::Errno::ENETDOWN);
        provider.force_flush().unwrap();

        let exported = exported(&exporter);
        assert_eq!(exported["nsm.policyroute.reconciles ok"], 1);
        assert_eq!(exported["nsm.policyroute.reconciles not found"], 1);
        assert_eq!(exported["nsm.policyroute.rules adopted"], 3);
        assert_eq!(exported["nsm.policyroute.rules added"], 1);
        assert_eq!(exported["nsm.policyroute.drift_repaired"], 2);
        assert_eq!(exported["nsm.policyroute.refusals ENETDOWN"], 1);
        assert_eq!(exported["nsm.policyroute.standing wanted"], 1);
    }
}
