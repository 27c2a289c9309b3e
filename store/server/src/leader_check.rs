//! Ends streams that require a leader when there is none.
//!
//! etcd ends such a stream after three election timeouts without a leader, and not
//! earlier: a client that connects again costs more than one that waits for the
//! next election.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::backend::Backend;

/// Consecutive checks without a leader after which it is lost.
const LOOKS_MAX: u32 = 3;

/// Checks for a leader once per election timeout.
pub(crate) struct LeaderCheck {
    backend: Arc<Backend>,
    looks: Interval,
    /// Consecutive checks that found no leader; less than [`LOOKS_MAX`] until it
    /// is lost.
    without: u32,
}

impl LeaderCheck {
    pub(crate) fn new(backend: Arc<Backend>) -> LeaderCheck {
        let period = backend.config.node.replica.election_timeout;
        LeaderCheck {
            backend,
            looks: every(period),
            without: 0,
        }
    }

    /// Returns when the leader is lost. The future can be dropped and this called again
    /// without losing count.
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

/// Ticks after each period; a late tick delays the next.
pub(crate) fn every(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
