//! Asks a next hop for whom it speaks.

use nsm_chain::{Error, ErrorKind};
use tokio::time::{Duration, Instant, timeout_at};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::failure::Failure;
use crate::transport::origin;
use crate::{NextHop, Patience, Transports};

const ELEMENT: &str = "health";

impl Transports {
    /// Whether the next hop serves something of that name, by its own words (gRPC's health service,
    /// `Check`). One that has never heard of the name, or has no health service, does not.
    ///
    /// It does not wait for a transport that is down, and takes no longer than `within`.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](ErrorKind::Unavailable) when the next hop is not reached or the connection
    /// breaks, [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) when there is no answer in time, and
    /// what it refuses the question with.
    pub async fn serves(&self, hop: &NextHop, name: &str, within: Duration) -> Result<bool, Error> {
        let until = Instant::now() + within;
        let (transport, _busy) = self.transport(hop);
        let link = transport
            .link(0, until, Patience::FailFast)
            .await
            .map_err(|away| Error::new(ErrorKind::Unavailable, ELEMENT, away))?;
        let mut health = HealthClient::with_origin(link.wire(), origin());
        let service = name.to_owned();
        let asked = timeout_at(until, health.check(HealthCheckRequest { service }));
        let failure = match asked.await {
            Ok(Ok(answer)) => return Ok(answer.get_ref().status() == ServingStatus::Serving),
            Ok(Err(status)) => Failure::of(status),
            Err(_) => Failure::Late,
        };
        match failure {
            Failure::Refused(refused)
                if matches!(refused.code(), Code::NotFound | Code::Unimplemented) =>
            {
                Ok(false)
            }
            failure => Err(failure.explain(ELEMENT, transport.address())),
        }
    }
}
