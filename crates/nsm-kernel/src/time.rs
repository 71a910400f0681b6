//! How long a piece of work may take.

use crate::error::Error;
use std::time::Duration;
use tokio::time::Instant;

/// The time that a piece of work has.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    /// How long it is in all.
    pub given: Duration,
    /// When it is over: nothing begins after it.
    pub end: Instant,
}

impl Time {
    /// The time from now on, up to a deadline if there is an earlier one.
    pub fn of(timeout: Duration, deadline: Option<Instant>) -> Self {
        let now = Instant::now();
        let given = deadline.map_or(timeout, |deadline| {
            timeout.min(deadline.saturating_duration_since(now))
        });
        Self {
            given,
            end: now + given,
        }
    }

    /// Whether there is time left.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when there is none.
    pub fn check(&self) -> Result<(), Error> {
        if Instant::now() < self.end {
            Ok(())
        } else {
            Err(Error::TimedOut(self.given))
        }
    }
}
