//! How many writes the process has made. The cases run one after the other.

use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

static WRITES: AtomicUsize = AtomicUsize::new(0);

/// The writes since it was made.
#[derive(Debug)]
pub struct Writes(usize);

impl Writes {
    /// Lets writes be counted, from the start of the process on.
    pub fn count() {
        let counting = tracing_subscriber::registry().with(Counter);
        // Fails where it is done already.
        let _ = tracing::subscriber::set_global_default(counting);
    }

    /// Counts from now on.
    pub fn from_now() -> Self {
        Self(WRITES.load(Ordering::SeqCst))
    }

    /// How many there were.
    pub fn so_far(&self) -> usize {
        WRITES.load(Ordering::SeqCst) - self.0
    }
}

struct Counter;

impl<S: Subscriber> Layer<S> for Counter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() == Level::DEBUG && metadata.target().starts_with("nsm_netlink") {
            event.record(&mut IfWrite);
        }
    }
}

struct IfWrite;

impl Visit for IfWrite {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" && format!("{value:?}") == "write" {
            WRITES.fetch_add(1, Ordering::SeqCst);
        }
    }
}
