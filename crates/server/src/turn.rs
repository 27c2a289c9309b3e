//! How long one call holds its core.
//!
//! Each core serves its connections in turns: what one call does without giving way, all
//! others on that core wait for. Every turn of a call is timed, those of a stream's or a
//! large answer's body included, and one that takes too long is logged by name: it belongs
//! on a thread of its own (`Backend::aside`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use environment::Instant;
use tonic::codegen::http::uri::PathAndQuery;
use tracing::warn;

/// A turn that takes longer than this is counted.
const TURN_MAX: Duration = Duration::from_millis(5);
/// One that takes longer than this is logged.
const TURN_LOGGED: Duration = Duration::from_millis(20);
/// Between two such lines.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// Turns that took too long, since the start.
#[derive(Debug, Default)]
pub(crate) struct LongTurns {
    count: AtomicU64,
    /// When the next line may be logged: nanoseconds of the clock.
    log_at_nanos: AtomicU64,
}

impl LongTurns {
    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes note of a turn of `call`.
    pub(crate) fn note(&self, began: Instant, ended: Instant, call: &PathAndQuery) {
        let took = ended.saturating_since(began);
        if took > TURN_MAX {
            self.note_long(ended, took, call);
        }
    }

    fn note_long(&self, now: Instant, took: Duration, call: &PathAndQuery) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let nanos = |time: Instant| time.since_origin().as_nanos() as u64;
        let log_at = self.log_at_nanos.load(Ordering::Relaxed);
        if took > TURN_LOGGED && nanos(now) >= log_at {
            self.log_at_nanos
                .store(nanos(now + LOG_EVERY), Ordering::Relaxed);
            warn!(
                call = call.path(),
                ?took,
                "a call held its core, and others on it waited"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_turns_over_the_limit_are_counted() {
        let turns = LongTurns::default();
        let call = PathAndQuery::from_static("/etcdserverpb.KV/Range");
        let began = Instant::default();
        turns.note(began, began + TURN_MAX, &call);
        assert_eq!(turns.count(), 0);
        turns.note(began, began + TURN_MAX + Duration::from_nanos(1), &call);
        assert_eq!(turns.count(), 1);
    }
}
