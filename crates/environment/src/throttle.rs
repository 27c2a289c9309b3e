//! How often a line about a repeated event is logged.

use std::time::Duration;

use crate::Instant;

/// Lets one line through in a period, and counts the events that it stands for.
///
/// The first event is logged at once, so that the cause is seen when it begins.
#[derive(Debug)]
pub struct Throttle {
    period: Duration,
    /// From when on the next line may be logged; `None`: there was no line yet.
    next_line: Option<Instant>,
    /// Events since the last line.
    events: u64,
}

impl Throttle {
    /// At most one line in `period`.
    pub const fn new(period: Duration) -> Throttle {
        Throttle {
            period,
            next_line: None,
            events: 0,
        }
    }

    /// Takes note of `events` at `now`. Returns how many have come since the last line where
    /// a line is due.
    pub fn note(&mut self, now: Instant, events: u64) -> Option<u64> {
        self.events += events;
        if self.next_line.is_some_and(|next_line| now < next_line) {
            return None;
        }
        self.next_line = Some(now + self.period);
        Some(std::mem::take(&mut self.events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;
    use crate::simulated::SimulatedClock;

    #[test]
    fn the_first_event_is_logged_and_then_one_line_in_a_period_counts_all() {
        let clock = SimulatedClock::stepped();
        let mut throttle = Throttle::new(Duration::from_secs(10));
        assert_eq!(throttle.note(clock.now(), 1), Some(1));
        for _ in 0..5 {
            assert_eq!(throttle.note(clock.now(), 2), None);
        }
        clock.advance(Duration::from_secs(10));
        assert_eq!(throttle.note(clock.now(), 1), Some(11));
        assert_eq!(throttle.note(clock.now(), 1), None);
    }
}
