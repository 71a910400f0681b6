//! What the suites of programs have in common: a process that is watched, and a collector of
//! OpenTelemetry.

mod collector;
mod process;

pub use collector::{Collected, Collector, Keeps};
pub use process::{Ended, Process};

use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_chain::Call;

/// A request for a connection of that id.
pub fn request(id: &str) -> Call {
    Call::request(NetworkServiceRequest {
        connection: Some(Connection {
            id: id.to_owned(),
            ..Connection::default()
        }),
        ..NetworkServiceRequest::default()
    })
}
