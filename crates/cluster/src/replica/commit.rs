//! When the others learn how far the log is committed.
//!
//! The next entry says so, and under load one follows soon. A message of its own
//! for every entry would cost each follower as much as the entry itself: it is
//! sent when nothing followed for a moment, when somebody at another member
//! waits for what is committed, or at once where the last entry was long in coming too.

use std::time::Duration;

use environment::Instant;

use super::{Lead, Replica};
use crate::awaited::Awaited;

/// So long an entry is waited for that may follow.
const DELAY: Duration = Duration::from_millis(1);

/// What the leader has yet to tell.
#[derive(Debug, Default)]
pub(super) struct Commit {
    /// Somebody at another member waits until this index is applied there.
    awaited: u64,
    /// Then it is told even if nobody waits.
    due: Option<Instant>,
    /// The index that was told or waited with last, and since when it is committed.
    seen: (u64, Instant),
    /// The last entry came within [`DELAY`] after the one before was committed.
    followed_soon: bool,
}

impl Commit {
    /// The leader proposes an entry, which says that the log is committed up to `told`.
    pub fn proposed(&mut self, told: u64, now: Instant) {
        let (index, since) = self.seen;
        self.followed_soon = index != told || now.saturating_since(since) < DELAY;
    }
}

impl Replica {
    /// An answer that another member gives out when it has applied `index`.
    pub(super) fn await_commit(&mut self, index: u64) {
        self.commit.awaited = self.commit.awaited.max(index);
    }

    /// Tells the others, if it is time; true when it did.
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
        let is_time = now >= due || self.commit.awaited > self.consensus.commit_told();
        if is_time {
            self.consensus.tell_commit();
            self.commit.due = None;
        }
        is_time
    }

    /// What a leader need not be woken for.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let calm = self.failed.is_none() && self.lead == Lead::Ready && self.leaving.is_none();
        if !calm || self.is_transferring() {
            return None;
        }
        self.consensus.awaited()
    }

    /// When [`Replica::run`] has something to do even if nothing comes.
    pub fn due(&self) -> Option<Instant> {
        self.commit.due
    }
}
