//! A program that sends requests to itself, and waits for its end.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use nsm_chain::trace::ElementLayer;
use nsm_chain::{BeginLayer, Call, DeadlineLayer, End, Side, TraceLayer, UpdatePathLayer};
use nsm_program::settings::{GoDuration, List, ServiceUrl, positive};
use nsm_program::shutdown::Shutdown;
use nsm_program::{Observability, Program, TraceContextLayer, WithoutEffect};
use opentelemetry::global;
use program_suite::request;
use tower::{ServiceBuilder, ServiceExt};
use tracing::{info, trace};

/// Sends requests to itself, and waits for its end.
#[derive(Debug, Parser)]
#[command(name = "sample-program", version)]
struct Sample {
    /// The name of this program in the mesh
    #[arg(long, env = "NSM_NAME", default_value = "sample")]
    name: String,

    /// How long a request may take
    #[arg(long, env = "NSM_REQUEST_TIMEOUT", default_value = "15s", value_parser = positive)]
    request_timeout: GoDuration,

    /// What to ask for
    #[arg(long, env = "NSM_NETWORK_SERVICES", default_value = "")]
    network_services: List<ServiceUrl>,

    /// How many requests to send
    #[arg(long, env = "NSM_REQUESTS", default_value = "0")]
    requests: usize,

    /// How to end
    #[arg(long, env = "NSM_ENDING", value_enum, default_value_t = Ending::Well)]
    ending: Ending,

    /// How long the end may take
    #[arg(long, env = "NSM_SHUTDOWN_TIMEOUT", default_value = "10s", value_parser = positive)]
    shutdown_timeout: GoDuration,

    #[command(flatten)]
    observability: Observability,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Ending {
    /// When it is asked to.
    Well,
    /// By an error.
    Error,
    /// By an error that is about a setting.
    BadSetting,
    /// Never.
    Never,
}

#[derive(Debug, thiserror::Error)]
enum SampleError {
    #[error("request {number}")]
    Request {
        number: usize,
        #[source]
        source: nsm_chain::Error,
    },
    #[error("the sample fails")]
    Failed(#[source] Told),
    #[error("a setting names something that makes no sense")]
    BadSetting,
}

#[derive(Debug, thiserror::Error)]
#[error("as it was told")]
struct Told;

impl Program for Sample {
    type Error = SampleError;

    const WITHOUT_EFFECT: &'static [WithoutEffect] = &[(&["NSM_SOUND"], "it is silent")];

    fn is_bad_setting(error: &SampleError) -> bool {
        matches!(error, SampleError::BadSetting)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn observability(&self) -> &Observability {
        &self.observability
    }

    fn shutdown_timeout(&self) -> Duration {
        *self.shutdown_timeout
    }

    async fn run(self, shutdown: Shutdown) -> Result<(), SampleError> {
        let requests = global::meter("sample")
            .u64_counter("nsm.sample.requests")
            .build();
        let chain = ServiceBuilder::new()
            .layer(TraceContextLayer::new(Side::Server))
            .layer(TraceLayer)
            .layer(DeadlineLayer::new(*self.request_timeout))
            .layer(UpdatePathLayer::new(self.name.clone()))
            .layer(BeginLayer::new(Side::Server))
            .layer(ElementLayer::new("sample", Side::Server))
            .service(End);
        for number in 0..self.requests {
            let call: Call = request(&format!("connection-{number}"));
            let answer = chain.clone().oneshot(call).await;
            answer.map_err(|source| SampleError::Request { number, source })?;
            requests.add(1, &[]);
        }
        info!("ready");
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        loop {
            match self.ending {
                Ending::Error => return Err(SampleError::Failed(Told)),
                Ending::BadSetting => return Err(SampleError::BadSetting),
                Ending::Well | Ending::Never => {}
            }
            tokio::select! {
                _ = ticks.tick() => trace!("tick"),
                () = shutdown.requested() => break,
            }
        }
        if let Ending::Never = self.ending {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    nsm_program::main::<Sample>()
}
