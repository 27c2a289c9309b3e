//! When a stream that requires a leader ends for want of one.
//!
//! etcd ends such streams when there was no leader for three election timeouts
//! in a row: a client that comes again costs more than one that waits for the
//! next election.

use std::sync::Arc;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::backend::Backend;

/// Looks in a row that find nobody.
const LOOKS_MAX: u32 = 3;

/// Looks for a leader once per election timeout.
pub(crate) struct LeaderCheck {
    backend: Arc<Backend>,
    looks: Interval,
    /// Looks in a row that found no leader; less than [`LOOKS_MAX`] until it
    /// is lost.
    without: u32,
}

impl LeaderCheck {
    /// From now on.
    pub(crate) fn new(backend: Arc<Backend>) -> LeaderCheck {
        let period = backend.config.election_timeout;
        let mut looks = interval_at(Instant::now() + period, period);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        LeaderCheck {
            backend,
            looks,
            without: 0,
        }
    }

    /// Returns when the leader is lost. Can be dropped and called again
    /// without losing anything.
    pub(crate) async fn lost(&mut self) {
        loop {
            self.looks.tick().await;
            self.without = match self.backend.leader() {
                0 => self.without + 1,
                _ => 0,
            };
            if self.without >= LOOKS_MAX {
                return;
            }
        }
    }
}
