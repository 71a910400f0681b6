//! How long to wait for something, so that there is time left to say that it did not come.

use tokio::time::{Duration, Instant};

/// The wait of a call that has no deadline. In a chain every call has one.
const WITHOUT_DEADLINE: Duration = Duration::from_secs(15);

/// What is left at most for the way back.
const WAY_BACK: Duration = Duration::from_millis(100);

/// When to give up waiting. It is a little before the deadline: an answer at the deadline itself
/// finds nobody waiting, and the reason is lost.
pub(crate) fn until(deadline: Option<Instant>) -> Instant {
    let now = Instant::now();
    let deadline = deadline.unwrap_or(now + WITHOUT_DEADLINE);
    let left = deadline.saturating_duration_since(now);
    deadline - (left / 10).min(WAY_BACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_before_the_deadline_does() {
        let now = Instant::now();
        let waits = |seconds| until(Some(now + Duration::from_secs_f64(seconds))) - now;

        assert_eq!(waits(10.0), Duration::from_millis(9900));
        assert_eq!(waits(0.1), Duration::from_millis(90));
        assert_eq!(waits(0.0), Duration::ZERO);
        assert_eq!(until(None) - now, Duration::from_millis(14_900));
    }
}
