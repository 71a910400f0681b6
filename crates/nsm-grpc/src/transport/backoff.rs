//! How long to wait before the next attempt to connect.

use tokio::time::Duration;

/// By which factor each wait is longer than the one before.
const GROWTH: f64 = 1.6;

/// By which part of itself a wait is longer or shorter, by chance: what was cut off at the same
/// time does not come back at the same time.
const JITTER: f64 = 0.2;

/// Waits that grow up to a limit.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The next wait. `chance` is between 0 and 1.
    pub(super) fn wait(&mut self, chance: f64) -> Duration {
        let wait = self.next.mul_f64(1.0 + JITTER * (2.0 * chance - 1.0));
        self.next = self.next.mul_f64(GROWTH).min(self.longest);
        wait
    }

    /// A connection has stood for so long, and may have served a call. Tells whether it was a
    /// success, from which the waits begin anew; one that breaks at once without is none.
    pub(super) fn stood(&mut self, time: Duration, served: bool) -> bool {
        let success = served || time >= self.longest;
        if success {
            self.next = self.first;
        }
        success
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_millis(250);

    fn waits(backoff: &mut Backoff, chance: f64) -> [u128; 4] {
        [(); 4].map(|()| backoff.wait(chance).as_millis())
    }

    #[test]
    fn waits_grow_up_to_a_limit() {
        let mut backoff = Backoff::new(FIRST, LONGEST);

        assert_eq!(waits(&mut backoff, 0.5), [100, 160, 250, 250]);
    }

    #[test]
    fn waits_are_spread_by_chance() {
        assert_eq!(
            waits(&mut Backoff::new(FIRST, LONGEST), 0.0),
            [80, 128, 200, 200]
        );
        assert_eq!(
            waits(&mut Backoff::new(FIRST, LONGEST), 1.0),
            [120, 192, 300, 300]
        );
    }

    #[test]
    fn only_a_connection_that_has_stood_or_served_begins_anew() {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        waits(&mut backoff, 0.5);

        assert!(!backoff.stood(Duration::from_millis(10), false));
        assert_eq!(backoff.wait(0.5), LONGEST);

        assert!(backoff.stood(LONGEST, false));
        assert_eq!(backoff.wait(0.5), FIRST);
        waits(&mut backoff, 0.5);

        assert!(backoff.stood(Duration::from_millis(10), true));
        assert_eq!(backoff.wait(0.5), FIRST);
    }
}
