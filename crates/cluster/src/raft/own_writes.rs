//! A member that writes its log itself, and waits for no device and nobody.
//!
//! ```text
//!   ready ──► log ──► page cache ──► committed entries
//! ```
//!
//! Others hear from a flush thread, some time later, how far the log is. Here it is
//! known before the library is asked again, which saves a round with it.

use raft::{Ready, StateRole};

use super::consensus::{Consensus, Progress};

impl Consensus {
    /// Whether all that was appended is written by now, and nobody waits for more.
    pub(super) fn writes_at_once(&mut self) -> bool {
        let raft = &self.node.raft;
        let leads = raft.state == StateRole::Leader && raft.promotable();
        let alone = leads && raft.prs().is_singleton();
        if !self.writes_itself || !alone || !self.unpersisted.is_empty() {
            return false;
        }
        self.write_own();
        self.appended <= self.durable
    }

    /// Goes on behind a ready that is written: a leader alone has committed it with that.
    pub(super) fn advance_at_once(&mut self, ready: Ready, progress: &mut Progress) {
        let mut light = self.node.advance_append(ready);
        self.note_counted();
        self.hard_state.commit = light.commit_index().unwrap_or(self.hard_state.commit);
        progress.messages.extend(light.take_messages());
        for entry in light.take_committed_entries() {
            progress.committed.push(self.take_pending(&entry));
        }
    }

    /// From now on what is appended is written before anything else happens, on a log
    /// that its callers work for.
    pub fn write_itself(&mut self) {
        self.writes_itself = true;
    }

    /// Writes what there is, if this member does that itself; false when that is
    /// nothing new. A failure is told as always: with a notice.
    pub fn write_own(&mut self) -> bool {
        if !self.writes_itself {
            return false;
        }
        self.engine.work();
        self.persisted(self.engine.durable())
    }
}
