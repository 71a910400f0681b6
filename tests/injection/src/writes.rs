//! How much the process has asked of the kernel. The cases run one after the other.

use nix::sys::signal::{Signal, raise};
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

static WRITES: AtomicUsize = AtomicUsize::new(0);
/// The write after which the process is killed; 0 is none.
static LAST: AtomicUsize = AtomicUsize::new(0);
static READS: AtomicUsize = AtomicUsize::new(0);

/// The writes and reads since it was made.
#[derive(Debug)]
pub struct Writes {
    writes: usize,
    reads: usize,
}

impl Writes {
    /// Lets them be counted, from the start of the process on.
    pub fn count() {
        let counting = tracing_subscriber::registry().with(Counter);
        // Fails where it is done already.
        let _ = tracing::subscriber::set_global_default(counting);
    }

    /// Kills the process when it has made so many writes.
    pub fn kill_after(writes: usize) {
        LAST.store(writes, Ordering::SeqCst);
        Self::count();
    }

    /// Counts from now on.
    pub fn from_now() -> Self {
        Self {
            writes: WRITES.load(Ordering::SeqCst),
            reads: READS.load(Ordering::SeqCst),
        }
    }

    /// How many writes there were.
    pub fn so_far(&self) -> usize {
        WRITES.load(Ordering::SeqCst) - self.writes
    }

    /// How many reads there were.
    pub fn reads(&self) -> usize {
        READS.load(Ordering::SeqCst) - self.reads
    }
}

struct Counter;

impl<S: Subscriber> Layer<S> for Counter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("nsm_netlink") {
            event.record(&mut ByMessage);
        }
    }
}

struct ByMessage;

impl Visit for ByMessage {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() != "message" {
            return;
        }
        match format!("{value:?}").as_str() {
            "write" => {
                let before = WRITES.fetch_add(1, Ordering::SeqCst);
                if before + 1 == LAST.load(Ordering::SeqCst) {
                    raise(Signal::SIGKILL).unwrap();
                }
                before
            }
            "dumped" => READS.fetch_add(1, Ordering::SeqCst),
            _ => return,
        };
    }
}
