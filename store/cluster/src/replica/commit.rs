//! When a leader sends its commit index to the followers.
//!
//! Every entry carries the commit index, and under load one follows soon. A separate
//! message after each entry would cost each follower as much as the entry itself. So the
//! leader sends one only if no entry followed within a delay, if a request at another
//! member waits for the commit index, or at once if the last entry did not follow soon
//! after the one before it.

use std::time::Duration;

use environment::Instant;

use super::{Lead, Replica};
use crate::awaited::Awaited;

/// Delay before a commit index is sent for which no follower waits.
const DELAY: Duration = Duration::from_millis(1);

/// When the leader sends its commit index next.
#[derive(Debug, Default)]
pub(super) struct Commit {
    /// A request at another member waits until this index is applied there.
    awaited: u64,
    /// When the commit index is sent even if no request waits for it.
    due: Option<Instant>,
    /// The newest commit index that `pass_on_commit` has seen, and when it saw it first.
    seen: (u64, Instant),
    /// The last entry was proposed within [`DELAY`] after the one before was committed.
    followed_soon: bool,
}

impl Commit {
    /// Notes that the leader proposes an entry, which carries the commit index `committed`.
    pub fn proposed(&mut self, committed: u64, now: Instant) {
        let (index, since) = self.seen;
        self.followed_soon = index != committed || now.saturating_since(since) < DELAY;
    }
}

impl Replica {
    /// Notes that another member waits to apply `index` before it can give an answer.
    pub(super) fn await_commit(&mut self, index: u64) {
        self.commit.awaited = self.commit.awaited.max(index);
    }

    /// Sends the commit index to the followers, if that is due; returns whether it did.
    pub(super) fn pass_on_commit(&mut self) -> bool {
        if !self.consensus.owes_commit() {
            self.commit.due = None;
            return false;
        }
        let now = self.clock.now();
        let committed = self.committed();
        if self.commit.seen.0 != committed {
            self.commit.seen = (committed, now);
        }
        let wait = match self.commit.followed_soon {
            true => DELAY,
            false => Duration::ZERO,
        };
        let due = *self.commit.due.get_or_insert(now + wait);
        let is_time = now >= due || self.commit.awaited > self.consensus.commit_sent();
        if is_time {
            self.consensus.send_commit();
            self.commit.due = None;
        }
        is_time
    }

    /// The acknowledgements that do not complete anything, so that a leader need not be
    /// woken for them; none if this member must see every message.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let calm = self.failed.is_none() && self.lead == Lead::Ready && self.leaving.is_none();
        if !calm || self.is_transferring() {
            return None;
        }
        self.consensus.awaited()
    }

    /// When [`Replica::run`] must be called even if no input arrives.
    pub fn due(&self) -> Option<Instant> {
        self.commit.due
    }
}
