//! A member that writes its log on the replica's thread, and waits neither for the device
//! nor for other members.
//!
//! ```text
//!   ready ──► log ──► page cache ──► committed entries
//! ```
//!
//! Elsewhere a flush thread reports later how far the log is on stable storage. Here that is
//! known before the library is called again, which saves one of its readies.

use raft::{Ready, StateRole};

use super::consensus::{Consensus, Progress};

impl Consensus {
    /// Writes what was appended, if this member writes itself, is the only voter and leads, and
    /// no earlier ready waits. Returns whether everything is written.
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

    /// Completes a ready that is written: a leader that is the only voter has committed its
    /// entries with that.
    pub(super) fn advance_at_once(&mut self, ready: Ready, progress: &mut Progress) {
        let mut light = self.node.advance_append(ready);
        self.note_counted();
        self.hard_state.commit = light.commit_index().unwrap_or(self.hard_state.commit);
        progress.messages.extend(light.take_messages());
        for entry in light.take_committed_entries() {
            progress.committed.push(self.take_pending(&entry));
        }
    }

    /// From now on this member writes what it appends before it continues. For a log without a
    /// writing thread of its own ([`engine::Worker`]).
    pub fn write_itself(&mut self) {
        self.writes_itself = true;
    }

    /// Writes what was appended, if this member writes itself; returns whether more is on stable
    /// storage than before. A failure is reported by the engine's notice, as on other logs.
    pub fn write_own(&mut self) -> bool {
        if !self.writes_itself {
            return false;
        }
        self.engine.work();
        self.persisted(self.engine.durable())
    }
}
