//! Limits how often a repeated event is logged.

use std::time::Duration;

use crate::Instant;

/// Allows one log line in each period, and counts the events that the line stands for.
///
/// The first event is logged at once, so that the cause is seen when it begins.
#[derive(Debug)]
pub struct Throttle {
    period: Duration,
    /// When the next line may be logged; `None` before the first line.
    next_line: Option<Instant>,
    /// Events since the last line.
    events: u64,
}

impl Throttle {
    /// Allows at most one line in each `period`.
    pub const fn new(period: Duration) -> Throttle {
        Throttle {
            period,
            next_line: None,
            events: 0,
        }
    }

    /// Counts `events` at `now`. Returns the number of events since the last line if a line may
    /// be logged now.
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
