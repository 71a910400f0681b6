//! What a test's own thread logs.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The log of the thread, from `start` on, as long as this lives.
pub struct Captured {
    log: Arc<Mutex<Log>>,
    _guard: DefaultGuard,
}

#[derive(Default)]
struct Log {
    events: Vec<Logged>,
    spans: Vec<String>,
}

/// An event: message and fields, in these spans, outermost first.
#[derive(Clone, Debug)]
pub struct Logged {
    pub level: Level,
    pub text: String,
    pub spans: Vec<String>,
}

impl Captured {
    pub fn start() -> Self {
        let log = Arc::default();
        let subscriber = tracing_subscriber::registry().with(Capture {
            log: Arc::clone(&log),
        });
        let guard = tracing::subscriber::set_default(subscriber);
        Self { log, _guard: guard }
    }

    /// The events of a level or a graver one.
    pub fn events(&self, level: Level) -> Vec<Logged> {
        let log = self.log.lock().unwrap();
        let grave = log.events.iter().filter(|event| event.level <= level);
        grave.cloned().collect()
    }

    /// All spans that have ended.
    pub fn spans(&self) -> Vec<String> {
        self.log.lock().unwrap().spans.clone()
    }

    /// Every word of it.
    pub fn everything(&self) -> String {
        format!("{:?} {:?}", self.events(Level::TRACE), self.spans())
    }
}

struct Capture {
    log: Arc<Mutex<Log>>,
}

/// A span's fields, as text.
struct Fields(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let mut fields = Fields(attributes.metadata().name().to_owned());
        attributes.record(&mut fields);
        cx.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, cx: Context<'_, S>) {
        let span = cx.span(id).unwrap();
        record.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let text = |span: tracing_subscriber::registry::SpanRef<'_, S>| {
            span.extensions().get::<Fields>().unwrap().0.clone()
        };
        let scope = cx.event_scope(event).into_iter();
        let logged = Logged {
            level: *event.metadata().level(),
            text: fields.0.trim_start().to_owned(),
            spans: scope
                .flat_map(|scope| scope.from_root().map(text))
                .collect(),
        };
        self.log.lock().unwrap().events.push(logged);
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let span = cx.span(&id).unwrap();
        let fields = span.extensions().get::<Fields>().unwrap().0.clone();
        self.log.lock().unwrap().spans.push(fields);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let shown = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        shown.unwrap();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
