//! What the element reports: its tracing events of level WARN.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

const ELEMENT: &str = "nsm_policyroute";

/// The warnings of the element since this was made. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// A subscriber that collects them.
    pub fn collector(&self) -> Dispatch {
        Dispatch::new(tracing_subscriber::registry().with(self.clone()))
    }

    /// All so far, each as its message and then its fields.
    pub fn so_far(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() == Level::WARN && metadata.target().starts_with(ELEMENT) {
            let mut text = Text::default();
            event.record(&mut text);
            let text = format!("{}{}", text.message, text.fields);
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(text);
        }
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_debug(field, &format_args!("{}", nsm_chain::ErrorChain(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_warnings_of_the_element_are_collected() {
        let warnings = Warnings::default();
        tracing::dispatcher::with_default(&warnings.collector(), || {
            tracing::warn!(target: "nsm_policyroute::report", table = 5, "shadowed by {}", "x");
            tracing::info!(target: "nsm_policyroute::report", "fine");
            tracing::warn!(target: "nsm_netlink", "late");
        });
        assert_eq!(warnings.so_far(), ["shadowed by x table=5"]);
    }
}
