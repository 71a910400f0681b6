//! How often a connection is worked on.

use tokio::time::{Duration, Instant};

use crate::ErrorKind;

/// After so long without anything to do the next thing is done at once.
const QUIET: Duration = Duration::from_secs(30);
const FIRST: Duration = Duration::from_millis(100);

/// The time between one thing that is done and the next: none at first, then longer and longer, up
/// to a limit that is each thing's own.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<Instant>,
    next: Duration,
}

impl Pace {
    /// How long to wait from `now` on before the next thing is done.
    pub(super) fn wait(&mut self, now: Instant, longest: Duration) -> Duration {
        let since = self.last.map(|last| now.duration_since(last));
        let pause = match since {
            Some(since) if since < QUIET.max(2 * self.next) => self.next.min(longest),
            _ => {
                self.next = Duration::ZERO;
                Duration::ZERO
            }
        };
        self.last = Some(now + pause);
        self.next = (2 * self.next).max(FIRST).min(QUIET);
        pause
    }
}

/// What the answer to a request that was to repair a connection means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nobody is reached, or not in time: it may be different in a moment.
    Again,
    /// Whoever answered cannot give what stood: it takes another endpoint.
    Another,
}

/// What a request that has failed means, `trouble` after the connection was found to be down.
pub(super) fn verdict(kind: ErrorKind, trouble: Duration, patience: Duration) -> Verdict {
    match kind {
        _ if trouble >= patience => Verdict::Another,
        ErrorKind::Unavailable
        | ErrorKind::DeadlineExceeded
        | ErrorKind::Cancelled
        | ErrorKind::ResourceExhausted => Verdict::Again,
        _ => Verdict::Another,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_thing_is_done_at_once_and_the_ones_behind_it_after_longer_and_longer() {
        let mut pace = Pace::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = pace.wait(now, 2 * SECOND);
            now += wait;
            waits.push(wait.as_millis());
        }
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 2000, 2000]);

        now += QUIET - SECOND;
        assert!(!pace.wait(now, SECOND).is_zero(), "that was no quiet time");
        now += 3 * QUIET;
        assert!(pace.wait(now, SECOND).is_zero());
    }

    #[test]
    fn who_is_not_reached_is_tried_again_for_a_while_and_who_refuses_is_not() {
        for (kind, trouble, expected) in [
            (ErrorKind::Unavailable, 0, Verdict::Again),
            (ErrorKind::DeadlineExceeded, 29, Verdict::Again),
            (ErrorKind::Unavailable, 30, Verdict::Another),
            (ErrorKind::NotFound, 0, Verdict::Another),
            (ErrorKind::FailedPrecondition, 0, Verdict::Another),
            (ErrorKind::Internal, 0, Verdict::Another),
        ] {
            let verdict = verdict(kind, trouble * SECOND, 30 * SECOND);
            assert_eq!(verdict, expected, "{kind} after {trouble} s");
        }
    }
}
