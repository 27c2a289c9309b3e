//! The time for which one call occupies its core.
//!
//! Each core serves its connections in turns: while one call runs without yielding, all
//! others on that core wait. Every turn of a call is timed, those that encode its answer and
//! make its body included. A turn that takes too long is counted, and the call is logged if
//! the turn exceeds `--warning-long-turn-duration`: such work belongs on a thread of its own
//! (`Backend::aside`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use environment::Instant;
use tonic::codegen::http::uri::PathAndQuery;
use tracing::warn;

/// A turn that takes longer than this is counted.
const TURN_MAX: Duration = Duration::from_millis(5);
/// Shortest time between two log lines about such turns.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// Counts the turns that took too long, since the start.
#[derive(Debug, Default)]
pub(crate) struct LongTurns {
    count: AtomicU64,
    /// When the next line may be logged: nanoseconds of the clock.
    log_at_nanos: AtomicU64,
}

impl LongTurns {
    /// The number of such turns.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a turn of `call` if it took too long, and logs it if it took more than `logged`.
    pub(crate) fn note(
        &self,
        began: Instant,
        ended: Instant,
        call: &PathAndQuery,
        logged: Duration,
    ) {
        let took = ended.saturating_since(began);
        if took > TURN_MAX {
            self.count.fetch_add(1, Ordering::Relaxed);
            if took > logged {
                self.log(ended, took, call);
            }
        }
    }

    fn log(&self, now: Instant, took: Duration, call: &PathAndQuery) {
        let nanos = |time: Instant| time.since_origin().as_nanos() as u64;
        let log_at = self.log_at_nanos.load(Ordering::Relaxed);
        if nanos(now) >= log_at {
            self.log_at_nanos
                .store(nanos(now + LOG_EVERY), Ordering::Relaxed);
            warn!(
                call = call.path(),
                ?took,
                "a call occupied its core for long, and other calls of this core waited"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_over_the_limit_are_counted_and_those_over_the_setting_logged() {
        let turns = LongTurns::default();
        let call = PathAndQuery::from_static("/etcdserverpb.KV/Range");
        let began = Instant::from_origin(LOG_EVERY);
        let logged = 2 * TURN_MAX;
        let lines = || turns.log_at_nanos.load(Ordering::Relaxed) > 0;
        turns.note(began, began + TURN_MAX, &call, logged);
        assert_eq!(turns.count(), 0);
        turns.note(began, began + logged, &call, logged);
        assert_eq!((turns.count(), lines()), (1, false));
        let longer = logged + Duration::from_nanos(1);
        turns.note(began, began + longer, &call, logged);
        assert_eq!((turns.count(), lines()), (2, true));
    }
}
