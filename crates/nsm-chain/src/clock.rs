//! Wall time that follows tokio's clock.

use std::sync::LazyLock;
use std::time::SystemTime;

use tokio::time::Instant;

/// The wall time: what it was at the first look, plus what tokio's clock has counted since.
///
/// Tokens and the `expires` of a path are in wall time, timers are in tokio's. With this the two
/// go together, also where a test pauses tokio's clock and moves it. A step of the system's
/// clock after the first look is not seen.
pub fn now() -> SystemTime {
    static START: LazyLock<(SystemTime, std::time::Instant)> =
        LazyLock::new(|| (SystemTime::now(), std::time::Instant::now()));

    let (wall, start) = *START;
    let now = Instant::now().into_std();
    // Each runtime with a paused clock counts from its own start, which may lie before.
    match now.checked_duration_since(start) {
        Some(elapsed) => wall + elapsed,
        None => wall - start.duration_since(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Duration, advance};

    #[tokio::test(start_paused = true)]
    async fn wall_time_stands_still_while_tokios_clock_is_paused_and_moves_with_it() {
        let before = now();
        assert_eq!(now(), before);

        advance(Duration::from_secs(3600)).await;

        assert_eq!(now(), before + Duration::from_secs(3600));
    }
}
