//! State and counts of a lane's connection, for the status and log lines.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use environment::Instant;

use crate::LinkError;
use crate::lock::lock;

/// Counts of a lane since its member came into the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Messages handed to the system.
    pub sent: u64,
    /// Payload bytes of the sent messages.
    pub sent_bytes: u64,
    /// Messages dropped because the queue was full.
    pub dropped_full: u64,
    /// Messages dropped because there was no connection.
    pub dropped_unreachable: u64,
    /// Messages dropped because they had waited too long.
    pub dropped_old: u64,
    /// Messages dropped because the connection broke while they were being written.
    pub dropped_broken: u64,
}

impl LaneCounts {
    /// Messages that were dropped, for any reason.
    pub fn dropped(&self) -> u64 {
        let lost = self.dropped_full + self.dropped_unreachable;
        lost + self.dropped_old + self.dropped_broken
    }
}

macro_rules! counters {
    ($($name:ident)*) => {
        /// Atomic counters behind [`LaneCounts`].
        #[derive(Default)]
        pub(crate) struct Counters { $($name: AtomicU64,)* }

        impl Counters {
            $(pub fn $name(&self, more: u64) {
                self.$name.fetch_add(more, Ordering::Relaxed);
            })*

            pub fn read(&self) -> LaneCounts {
                LaneCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}
counters!(sent sent_bytes dropped_full dropped_unreachable dropped_old dropped_broken);

/// State of the connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkState {
    /// When the connection was made; `None` while there is none.
    pub since: Option<Instant>,
    pub address: Option<String>,
    pub last_error: Option<LinkError>,
    pub round_trip: Option<Duration>,
    pub release: Option<String>,
    /// How often the connection was lost.
    pub disconnections: u64,
}

#[derive(Default)]
pub(crate) struct Link {
    pub counts: Counters,
    state: Mutex<LinkState>,
}

impl Link {
    pub fn state(&self) -> LinkState {
        lock(&self.state).clone()
    }

    /// Records a new connection. The last error stays in the status.
    pub fn up(&self, now: Instant, address: &str, round_trip: Duration, release: &str) {
        let mut state = lock(&self.state);
        state.since = Some(now);
        state.address = Some(address.to_owned());
        state.round_trip = Some(round_trip);
        state.release = Some(release.to_owned());
    }

    /// Records that there is no connection. Returns true if there was one, or if the error
    /// is not the last one again.
    pub fn down(&self, error: &LinkError) -> bool {
        let mut state = lock(&self.state);
        let was_up = state.since.take().is_some();
        state.disconnections += u64::from(was_up);
        let news = was_up || state.last_error.as_ref() != Some(error);
        state.last_error = Some(error.clone());
        news
    }
}
