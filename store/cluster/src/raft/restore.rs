//! Snapshots at the border to the Raft library.
//!
//! ```text
//!   leader     a member needs one ──wanted──► exported ──offered──► MsgSnapshot names that export
//!                                                                     │ transfer
//!   follower   MsgSnapshot with the last piece ──judged──► installed ─┴► restored: view, pending
//! ```
//!
//! By the library's design, a follower restores first and then finds the snapshot in the
//! next ready. But an installation may fail (the disk is full) and leave everything as it
//! was, and a library that has restored cannot go back. So [`Consensus::judge`] first
//! determines what the library would do; the installation and the library's step follow
//! with no other message in between.

use engine::HardState;
use raft::eraftpb::{Message, MessageType, SnapshotMetadata};
use raft::{ProgressState, StateRole};

use super::consensus::Consensus;
use crate::Mutant;

/// What the library would do with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It would restore the snapshot, which must be installed first.
    Restores,
    /// It would answer that the log has the snapshot's entries or newer ones.
    HasIt,
    /// It would ignore a snapshot of a former leader, or for another member.
    Ignores,
}

impl Consensus {
    /// Determines what the library would do with this MsgSnapshot now.
    pub fn judge(&self, message: &Message) -> Judgement {
        let raft = &self.node.raft;
        let metadata = message.get_snapshot().get_metadata();
        let (index, term) = (metadata.index, metadata.term);
        let members = metadata.get_conf_state();
        let mut ids = members.voters.iter().chain(&members.learners);
        if message.term < raft.term
            || raft.state == StateRole::Leader
            || !ids.any(|&id| id == raft.id)
        {
            Judgement::Ignores
        } else if (index <= raft.raft_log.committed || raft.raft_log.match_term(index, term))
            && self.mutant != Some(Mutant::InstallsOverNewerEntries)
        {
            Judgement::HasIt
        } else {
            Judgement::Restores
        }
    }

    /// Resets the library and the view to an installed snapshot. `message` was judged to
    /// restore; `installed` is the hard state that was installed with the snapshot. All entries
    /// that were under way here are dropped.
    pub fn restore(&mut self, message: Message, installed: HardState) {
        let metadata = message.get_snapshot().get_metadata().clone();
        let restored = self.node.step(message);
        let pending = self.node.snap().map(|it| it.get_metadata().index);
        assert!(
            restored.is_ok() && pending == Some(metadata.index),
            "the library does not restore a snapshot of entry {} that is installed: \
             {restored:?}, {pending:?}",
            metadata.index
        );
        self.room.note_room_for_snapshot();
        self.log.restart_at(installed);
        self.node.mut_store().restore(metadata);
    }

    /// Reports to the library that the snapshot of entry `index` is on stable storage and
    /// applied, as it was installed before the library got it. Without this report the library
    /// would look for the entries before the snapshot when this member stands for election.
    pub(super) fn skip_to(&mut self, index: u64) {
        self.node.raft.on_persist_snap(index);
        self.node.advance_apply_to(index);
    }

    /// Whether this member has no state and waits for its first snapshot.
    pub fn waits(&self) -> bool {
        let view = self.node.store();
        view.last() == 0 && view.conf_state.voters.is_empty()
    }

    /// Handles a message at a member that waits for its first snapshot. The member answers an
    /// append with a request for a snapshot: the entries would begin with a configuration of
    /// few members, which it might take for the whole cluster. The library's own
    /// `request_snapshot` refuses if there is no entry, so the request is made here.
    ///
    /// The member does not stand for election, because it may not be a voter; but it grants
    /// votes. In a cluster with one or three other voters its vote may be the one that a
    /// majority lacks, and without a leader no member would ever send it a snapshot.
    pub(super) fn receive_waiting(&mut self, message: Message) {
        let raft = &mut self.node.raft;
        match message.get_msg_type() {
            MessageType::MsgTimeoutNow => {}
            MessageType::MsgAppend if message.term >= raft.term => {
                if message.term > raft.term {
                    raft.become_follower(message.term, message.from);
                }
                raft.msgs.push(Message {
                    msg_type: MessageType::MsgAppendResponse,
                    to: message.from,
                    from: raft.id,
                    term: raft.term,
                    index: message.index,
                    reject: true,
                    request_snapshot: 1,
                    ..Message::default()
                });
            }
            _ => self.step(message),
        }
    }

    /// Whether a message is a late request for a snapshot, of a member that has one by now. The
    /// library would send it another. Also clears the library's record of a request that is
    /// fulfilled: the library does that only if the transfer's end is reported before the
    /// member's next message arrives.
    pub(super) fn is_stale_request(&mut self, message: &Message) -> bool {
        if message.get_msg_type() != MessageType::MsgAppendResponse {
            return false;
        }
        let Some(progress) = self.node.raft.mut_prs().get_mut(message.from) else {
            return false;
        };
        if !message.reject && message.index >= progress.pending_request_snapshot {
            progress.pending_request_snapshot = 0;
        }
        message.request_snapshot != 0 && progress.matched > 0
    }

    /// Notes that a snapshot found no room.
    pub fn note_no_room_for_snapshot(&mut self) {
        self.room.note_no_room_for_snapshot();
    }

    /// Offers the library a snapshot for a member. The library decides whether the member still
    /// needs it, at once or when the member's next message arrives.
    ///
    /// # Panics
    ///
    /// If this member does not lead: the library would send an append as if it led the term.
    pub fn offer(&mut self, member: u64, metadata: SnapshotMetadata) {
        let raft = &mut self.node.raft;
        assert!(
            raft.state == StateRole::Leader,
            "only a leader offers snapshots"
        );
        raft.mut_store().offer(member, metadata);
        if raft.prs().get(member).is_some() {
            raft.send_append(member);
        }
    }

    /// Whether the library waits for the end of a transfer to this member.
    pub fn awaits_snapshot(&self, member: u64) -> bool {
        let raft = &self.node.raft;
        let progress = raft.prs().get(member);
        raft.state == StateRole::Leader
            && progress.is_some_and(|it| it.state == ProgressState::Snapshot)
    }
}
