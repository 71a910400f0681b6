use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::dispatcher::{self, DefaultGuard, Dispatch};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

thread_local! {
    static HERE: RefCell<Option<(Warnings, DefaultGuard)>> = const { RefCell::new(None) };
}

/// The warnings of the case that the calling thread runs, since the last call.
pub fn warnings() -> Vec<String> {
    HERE.with_borrow(|here| here.as_ref().map(|(warnings, _)| warnings.take()))
        .unwrap_or_default()
}

/// What one case is warned of. Each of its threads collects into it: the element works on threads
/// of the runtime's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Collects on the calling thread, as long as it lives.
    pub(crate) fn collect_here(&self) {
        let collector = Collector(self.clone());
        let subscriber = tracing_subscriber::registry()
            .with(LevelFilter::WARN)
            .with(collector);
        // Tests are run one after the other on a thread: the former's guard goes first.
        HERE.take();
        let guard = dispatcher::set_default(&Dispatch::new(subscriber));
        HERE.set(Some((self.clone(), guard)));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Collector(Warnings);

impl<S: Subscriber> Layer<S> for Collector {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let Warnings(warnings) = &self.0;
        let mut warnings = warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.push(text.0);
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.insert_str(0, &format!("{value:?}"));
        } else {
            self.0.push_str(&format!(" {field}={value:?}"));
        }
    }
}
