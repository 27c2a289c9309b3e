//! When a leader sends its commit index to the followers.
//!
//! Every entry carries the commit index, and under load one follows soon. A separate
//! message after each entry would cost each follower as much as the entry itself. So the
//! leader sends one only if no entry followed within a delay, if a request at another
//! member waits for the commit index, or at once if the last entry did not follow soon
//! after the one before it.

use std::time::Duration;

use environment::Instant;

use super::replica_core::Core;

/// Delay before a commit index is sent for which no follower waits.
const DELAY: Duration = Duration::from_millis(1);

/// When the leader sends its commit index next.
#[derive(Debug, Default)]
pub(super) struct CommitBroadcast {
    /// When the commit index is sent even if no request waits for it.
    pub due: Option<Instant>,
    /// The newest commit index that `Core::send_commit_if_due` has seen, and when it saw it first.
    seen_index: u64,
    seen_at: Instant,
    /// The last entry was proposed within [`DELAY`] after the one before was committed.
    followed_soon: bool,
}

impl CommitBroadcast {
    /// Notes that the leader proposes an entry, which carries the commit index `committed`.
    pub fn proposed(&mut self, committed: u64, now: Instant) {
        self.followed_soon =
            self.seen_index != committed || now.saturating_since(self.seen_at) < DELAY;
    }
}

impl Core {
    /// Sends the commit index to the followers, if that is due; returns whether it did.
    pub fn send_commit_if_due(&mut self) -> bool {
        if !self.consensus.owes_commit() {
            self.commit.due = None;
            return false;
        }
        let (now, committed) = (self.now(), self.committed());
        let commit = &mut self.commit;
        if commit.seen_index != committed {
            (commit.seen_index, commit.seen_at) = (committed, now);
        }
        let wait = match commit.followed_soon {
            true => DELAY,
            false => Duration::ZERO,
        };
        let due = *commit.due.get_or_insert(now + wait);
        let is_time = now >= due || self.commit_awaited > self.consensus.commit_sent;
        if is_time {
            commit.due = None;
            self.consensus.send_commit();
        }
        is_time
    }
}
