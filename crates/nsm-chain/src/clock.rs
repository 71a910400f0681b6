//! Wall time that follows tokio's clock.

use std::sync::{Mutex, PoisonError};
use std::time::{Instant as StdInstant, SystemTime};

use tokio::time::{Duration, Instant};

/// By how much the system's clock has to be off for a step. The clocks drift apart by nothing, for
/// the kernel slews both at once (adjtimex(2)); a suspended machine counts in one of them only.
const STEP: Duration = Duration::from_millis(100);

/// How far apart the two clocks may be looked at. A thread that has lost the processor in between
/// knows nothing.
const LOOK: Duration = Duration::from_millis(10);

/// The wall time: that of the system's clock, plus what tokio's clock is ahead of the machine's.
///
/// Tokens and the `expires` of a path are in wall time, timers are in tokio's, which no step of the
/// system's clock moves. With this the two go together, also where a test pauses tokio's clock and
/// moves it. After a step it is the new wall time, as it is in the other processes of the machine,
/// whenever they were started.
pub fn now() -> SystemTime {
    static ANCHOR: Mutex<Option<Anchor>> = Mutex::new(None);

    let mut anchor = ANCHOR.lock().unwrap_or_else(PoisonError::into_inner);
    let look = Look::take();
    let current = anchor.map_or(look.anchor(), |anchor| anchor.after(look));
    *anchor = Some(current);
    drop(anchor);
    current.at(Instant::now().into_std())
}

/// A moment in both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    wall: SystemTime,
    machine: StdInstant,
}

impl Anchor {
    /// The wall time of a moment. Each runtime with a paused clock counts from its own start, which
    /// may lie before.
    fn at(self, moment: StdInstant) -> SystemTime {
        match moment.checked_duration_since(self.machine) {
            Some(elapsed) => self.wall + elapsed,
            None => self.wall - self.machine.duration_since(moment),
        }
    }

    /// The same, or another one if the system's clock was stepped.
    fn after(self, look: Look) -> Self {
        let expected = self.at(look.before);
        let off = match look.wall.duration_since(expected) {
            Ok(ahead) => ahead,
            Err(behind) => behind.duration(),
        };
        if look.is_sharp() && off > STEP {
            look.anchor()
        } else {
            self
        }
    }
}

/// Both clocks at once, as far as that is possible.
#[derive(Clone, Copy, Debug)]
struct Look {
    before: StdInstant,
    wall: SystemTime,
    after: StdInstant,
}

impl Look {
    fn take() -> Self {
        Self {
            before: StdInstant::now(),
            wall: SystemTime::now(),
            after: StdInstant::now(),
        }
    }

    fn is_sharp(self) -> bool {
        self.after.duration_since(self.before) <= LOOK
    }

    fn anchor(self) -> Anchor {
        Anchor {
            wall: self.wall,
            machine: self.before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn wall_time_stands_still_while_tokios_clock_is_paused_and_moves_with_it() {
        let before = now();
        assert_eq!(now(), before);

        advance(HOUR).await;

        assert_eq!(now(), before + HOUR);
    }

    /// What is seen a second after an anchor, when the system's clock says that.
    fn seen(wall: SystemTime, sharp: bool) -> (Anchor, Look) {
        let look = Look::take();
        let machine = look.before;
        let anchor = Anchor {
            wall: look.wall,
            machine,
        };
        let before = machine + Duration::from_secs(1);
        let after = before + if sharp { Duration::ZERO } else { HOUR };
        let look = Look {
            before,
            wall: wall + Duration::from_secs(1),
            after,
        };
        (anchor, look)
    }

    #[test]
    fn a_step_of_the_systems_clock_is_followed_in_either_direction() {
        let wall = SystemTime::now();
        for stepped in [wall + HOUR, wall - HOUR] {
            let (anchor, look) = seen(stepped, true);

            let followed = anchor.after(look);

            assert_eq!(followed, look.anchor());
            assert_eq!(followed.at(look.before), stepped + Duration::from_secs(1));
        }
    }

    #[test]
    fn what_is_no_step_or_cannot_be_told_from_a_thread_that_waited_changes_nothing() {
        let wall = SystemTime::now();
        for (stepped, sharp) in [(wall, true), (wall + HOUR, false)] {
            let (anchor, look) = seen(stepped, sharp);

            assert_eq!(anchor.after(look), anchor);
        }
    }
}
