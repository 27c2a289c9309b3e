//! The machine's clocks.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::{Clock, Instant};

/// `CLOCK_MONOTONIC` and `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

/// The origin of all [`Instant`]s: the first use of the clock in this process.
static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();

#[expect(clippy::disallowed_methods, reason = "this is the door")]
impl Clock for RealClock {
    fn now(&self) -> Instant {
        let origin = *ORIGIN.get_or_init(std::time::Instant::now);
        Instant::from_origin(origin.elapsed())
    }

    fn unix_time(&self) -> Duration {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn sleep(&self, length: Duration) {
        std::thread::sleep(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_moves_the_clock_by_at_least_its_length() {
        let (clock, same) = (RealClock, RealClock);
        let before = clock.now();
        clock.sleep(Duration::from_millis(2));
        assert!(same.now().saturating_since(before) >= Duration::from_millis(2));
    }

    #[test]
    fn the_wall_clock_is_past_2020() {
        assert!(RealClock.unix_time() > Duration::from_secs(1_577_836_800));
    }
}
