//! A program, from its first line to its last.

use std::error::Error;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use nsm_chain::ErrorChain;
use tokio::runtime;
use tokio::time::{Instant, timeout};
use tracing::{error, info};

use crate::command::{self, Configured, USAGE};
use crate::descriptors;
use crate::logging::{self, LogFormat};
use crate::settings::{GoDuration, HostPort, ListenOn, LogLevel, parse_bool, positive};
use crate::shutdown::{Shutdown, Signals};
use crate::telemetry::{self, Telemetry};
use crate::variables::{self, WithoutEffect};

/// The time that the end leaves for the last spans and metrics.
const LAST_EXPORT: Duration = Duration::from_secs(2);

/// The settings of what can be seen of a program. A program takes them in with
/// `#[command(flatten)]`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "What can be seen of it")]
pub struct Observability {
    /// How much is logged: panic, fatal, error, warn, info, debug or trace; SIGUSR1 makes it trace,
    /// SIGUSR2 this again
    #[arg(
        long,
        env = "NSM_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "INFO"
    )]
    pub log_level: LogLevel,

    /// How lines of the log are written
    #[arg(
        long,
        env = "NSM_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub log_format: LogFormat,

    /// Whether spans and metrics go to a collector of OpenTelemetry
    #[arg(
        long,
        env = "TELEMETRY",
        value_name = "BOOL",
        default_value = "false",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        value_parser = parse_bool,
    )]
    pub telemetry: bool,

    /// Where the collector is: it takes OTLP over gRPC there
    #[arg(
        long,
        env = "NSM_OPEN_TELEMETRY_ENDPOINT",
        value_name = "HOST:PORT",
        default_value = "otel-collector.observability.svc.cluster.local:4317"
    )]
    pub open_telemetry_endpoint: HostPort,

    /// How often metrics go to the collector
    #[arg(
        long,
        env = "NSM_METRICS_EXPORT_INTERVAL",
        value_name = "DURATION",
        default_value = "10s",
        value_parser = positive
    )]
    pub metrics_export_interval: GoDuration,

    /// Where Prometheus can get the same metrics, at /metrics; nowhere if empty
    //
    // The name that the mesh's VPP forwarder has for the same.
    #[arg(
        long,
        env = "NSM_PROMETHEUS_LISTEN_ON",
        value_name = "[HOST]:PORT",
        default_value = ""
    )]
    pub prometheus_listen_on: ListenOn,
}

impl Observability {
    /// Where traces and metrics go.
    pub fn telemetry(&self) -> telemetry::Settings {
        telemetry::Settings {
            collector: self.telemetry.then(|| self.open_telemetry_endpoint.clone()),
            metrics_interval: self.metrics_export_interval,
            prometheus: self.prometheus_listen_on.clone(),
        }
    }
}

/// A program: its settings, and what it does with them.
pub trait Program: clap::Parser + Send + 'static {
    /// Why it cannot go on.
    type Error: Error + Send + Sync + 'static;

    /// The name that it has in the mesh, in traces and in metrics.
    fn name(&self) -> &str;

    /// The settings of what can be seen of it.
    fn observability(&self) -> &Observability;

    /// The variables that other implementations of this program know, and this one does not.
    const WITHOUT_EFFECT: &'static [WithoutEffect] = &[];

    /// Whether an error is about the value of a setting: what the file holds that it names, say. The
    /// program ends as it does with other bad values.
    fn is_bad_setting(_error: &Self::Error) -> bool {
        false
    }

    /// How long it may take to end once it is asked to. What is not done then is left.
    fn shutdown_timeout(&self) -> Duration {
        Duration::from_secs(20)
    }

    /// Does the work, until it is done or the end is asked for, and cleans up then.
    ///
    /// Logging and telemetry work from before this to after it.
    fn run(self, shutdown: Shutdown) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Runs a program, and tells the status to end with: 0 when it has ended well, 1 when it could not
/// go on or did not end in time, [`USAGE`] for settings that it cannot work with.
/// At a second signal the process ends at once with [`INTERRUPTED`](crate::shutdown::INTERRUPTED).
///
/// Its error is logged, once, as one line with all its causes.
pub fn main<P: Program>() -> ExitCode {
    let configured = match command::configure::<P>() {
        Ok(configured) => configured,
        Err(status) => return status,
    };
    let runtime = match runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("the runtime cannot be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let status = runtime.block_on(run(configured));
    // What hangs in a blocking task keeps nobody.
    runtime.shutdown_background();
    status
}

async fn run<P: Program>(configured: Configured<P>) -> ExitCode {
    let Configured { config, unknown } = configured;
    let observability = config.observability().clone();
    let name = config.name().to_owned();
    let telemetry = Telemetry::start(&name, &observability.telemetry()).await;
    // Before there is a log the errors of its making go where its lines would.
    let telemetry = match telemetry {
        Ok(telemetry) => telemetry,
        Err(error) => {
            eprintln!("{name}: {}", ErrorChain(&error));
            return ExitCode::FAILURE;
        }
    };
    let (level, format) = (observability.log_level, observability.log_format);
    let level = match logging::install(level, format, telemetry.tracer()) {
        Ok(level) => level,
        Err(error) => {
            eprintln!("{name}: the log cannot be written: {}", ErrorChain(&error));
            return ExitCode::FAILURE;
        }
    };
    descriptors::raise_limit();
    variables::report(unknown, P::WITHOUT_EFFECT);
    if let Some(address) = telemetry.prometheus() {
        info!(%address, "metrics are at /metrics");
    }
    let (trigger, shutdown) = Shutdown::new();
    // Caught before the work begins: until then any of them ends the process.
    let caught = Signals::catch().and_then(|signals| Ok((signals, level.catch_signals()?)));
    match caught {
        Ok((signals, levels)) => {
            tokio::spawn(signals.obey(trigger));
            tokio::spawn(levels);
        }
        Err(error) => {
            error!(%error, "signals cannot be caught");
            return ExitCode::FAILURE;
        }
    }

    let within = config.shutdown_timeout();
    let (status, left) = end_in_time::<P>(config.run(shutdown.clone()), shutdown, within).await;

    telemetry.shut_down(left.min(LAST_EXPORT)).await;
    status
}

/// Waits for the work, and from when the end is asked for no longer than `within`. Tells what is
/// left of that.
async fn end_in_time<P: Program>(
    work: impl Future<Output = Result<(), P::Error>>,
    shutdown: Shutdown,
    within: Duration,
) -> (ExitCode, Duration) {
    let mut work = std::pin::pin!(work);
    let (ended, left) = tokio::select! {
        ended = &mut work => (Some(ended), within),
        () = shutdown.requested() => {
            let start = Instant::now();
            // The last spans have their share of the time.
            let for_the_work = within.saturating_sub(LAST_EXPORT.min(within / 2));
            let ended = timeout(for_the_work, work).await.ok();
            (ended, within.saturating_sub(start.elapsed()))
        }
    };
    let status = match ended {
        Some(Ok(())) => {
            info!("ended");
            ExitCode::SUCCESS
        }
        Some(Err(error)) => {
            error!(error = %ErrorChain(&error), "ended by an error");
            match P::is_bad_setting(&error) {
                true => ExitCode::from(USAGE),
                false => ExitCode::FAILURE,
            }
        }
        None => {
            error!(?within, "not ended in time: what was not done is left");
            ExitCode::FAILURE
        }
    };
    (status, left)
}
