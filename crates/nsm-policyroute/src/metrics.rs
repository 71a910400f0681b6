//! Figures, through the opentelemetry API: whoever composes a program chooses where they go.

use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};
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
    /// `nsm.policyroute.seen` by `what`, of the last namespace looked at: rules wanted, left-overs,
    /// conflicts, policies shadowed, look-alikes.
    seen: Gauge<u64>,
}

/// What one reconcile did and saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Rules that all claims of the namespace want.
    pub wanted: u64,
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
    /// Rules that nobody claims and that wait for their end.
    pub leftovers: u64,
    /// Prefixes that two want differently.
    pub conflicts: u64,
    /// Policies with a rule of somebody else before theirs.
    pub shadowed: u64,
    /// Rules of others with a selector of ours.
    pub lookalikes: u64,
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
            seen: meter
                .u64_gauge("nsm.policyroute.seen")
                .with_description("What the last namespace looked at holds")
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
        let seen = [
            ("wanted", figures.wanted),
            ("leftovers", figures.leftovers),
            ("conflicts", figures.conflicts),
            ("shadowed", figures.shadowed),
            ("lookalikes", figures.lookalikes),
        ];
        for (what, count) in rules {
            self.rules.add(count, &[KeyValue::new("what", what)]);
        }
        for (what, count) in routes {
            self.routes.add(count, &[KeyValue::new("what", what)]);
        }
        for (what, count) in seen {
            self.seen.record(count, &[KeyValue::new("what", what)]);
        }
    }
}
