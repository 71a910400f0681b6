//! The log: lines on standard error.
//!
//! They are text, or JSON for machines. How much is logged is a setting; SIGUSR1 makes it
//! everything, SIGUSR2 what the setting says. What the libraries of the transport log is never
//! more than their life: at the level of each frame nothing else could be read.
//!
//! Spans go to OpenTelemetry at the same level, but never less than the calls themselves (see
//! [`telemetry`](crate::telemetry)). Those of the elements of a chain are in traces only.

use std::io::{self, IsTerminal};

use nsm_chain::trace::ELEMENT;
use opentelemetry_sdk::trace::SdkTracer;
use tokio::signal::unix::{SignalKind, signal};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing::{Subscriber, info, warn};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, fmt, reload};

use crate::settings::LogLevel;

/// What each frame and each poll of is logged, if it is let.
const TRANSPORT: [&str; 8] = [
    "h2",
    "hyper",
    "hyper_util",
    "mio",
    "opentelemetry",
    "tokio_util",
    "tonic",
    "tower",
];

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Sets how much is logged, at any time.
#[derive(Clone, Debug)]
pub struct Level {
    configured: LogLevel,
    lines: reload::Handle<Targets, Registry>,
    spans: reload::Handle<Targets, Registry>,
}

type BoxLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// What takes all events and spans of the process, and what sets its level. Lines go to the writer,
/// spans to the tracer, if there is one.
pub fn subscriber(
    level: LogLevel,
    format: LogFormat,
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
    tracer: Option<SdkTracer>,
) -> (
    impl Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    Level,
) {
    let (lines, of_lines) = reload::Layer::new(lines_at(level));
    let (spans, of_spans) = reload::Layer::new(spans_at(level));
    let mut layers: Vec<BoxLayer> = Vec::new();
    if let Some(tracer) = tracer {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false);
        layers.push(layer.with_filter(spans).boxed());
    }
    let text = fmt::layer().with_writer(writer);
    layers.push(match format {
        LogFormat::Text => {
            let text = text.with_ansi(io::stderr().is_terminal());
            text.with_filter(lines).boxed()
        }
        LogFormat::Json => {
            let json = text.json().flatten_event(true).with_current_span(false);
            json.with_filter(lines).boxed()
        }
    });
    let level = Level {
        configured: level,
        lines: of_lines,
        spans: of_spans,
    };
    (tracing_subscriber::registry().with(layers), level)
}

/// Makes a [`subscriber`] that writes to standard error that of the process.
///
/// # Errors
///
/// If the process has one.
pub fn install(
    level: LogLevel,
    format: LogFormat,
    tracer: Option<SdkTracer>,
) -> Result<Level, SetGlobalDefaultError> {
    let (subscriber, level) = subscriber(level, format, io::stderr, tracer);
    tracing::subscriber::set_global_default(subscriber)?;
    Ok(level)
}

impl Level {
    /// Sets how much is logged.
    pub fn set(&self, level: LogLevel) {
        // Fails only where the subscriber is gone, and then nothing is logged.
        let _ = self.lines.reload(lines_at(level));
        let _ = self.spans.reload(spans_at(level));
    }

    /// Sets what the setting says.
    pub fn reset(&self) {
        self.set(self.configured);
    }

    /// Catches SIGUSR1 and SIGUSR2. What is given obeys them, and never ends.
    ///
    /// # Errors
    ///
    /// That of the system, if the signals cannot be caught: they end the process then.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with I/O.
    pub fn catch_signals(self) -> io::Result<impl Future<Output = ()> + Send> {
        let mut everything = signal(SignalKind::user_defined1())?;
        let mut configured = signal(SignalKind::user_defined2())?;
        Ok(async move {
            loop {
                tokio::select! {
                    _ = everything.recv() => {
                        self.set(LogLevel::Trace);
                        warn!("SIGUSR1: everything is logged");
                    }
                    _ = configured.recv() => {
                        self.reset();
                        info!("SIGUSR2: logged is what the setting says");
                    }
                }
            }
        })
    }
}

fn lines_at(level: LogLevel) -> Targets {
    let level = level.filter();
    let of_transport = level.min(LevelFilter::INFO);
    Targets::new()
        .with_default(level)
        .with_targets(TRANSPORT.map(|target| (target, of_transport)))
        // A line would name all that its call is in the midst of.
        .with_target(ELEMENT, LevelFilter::OFF)
}

/// The transport's spans would be about the export of spans, too.
fn spans_at(level: LogLevel) -> Targets {
    Targets::new()
        .with_default(level.filter().max(LevelFilter::INFO))
        .with_targets(TRANSPORT.map(|target| (target, LevelFilter::OFF)))
}
