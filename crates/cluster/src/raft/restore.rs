//! Snapshots, as far as the Raft library is concerned.
//!
//! ```text
//!   leader     a member needs one ──wanted──► exported ──offered──► MsgSnapshot names that export
//!                                                                     │ transfer
//!   follower   MsgSnapshot with the last piece ──judged──► installed ─┴► restored: view, pending
//! ```
//!
//! The library would have it the other way round on the follower: restore first,
//! and find the snapshot in the next ready. But an installation may fail (the
//! disk is full) and leave everything as it was, and a library that has restored
//! cannot go back. So it is asked first what it would do ([`Consensus::judge`]),
//! in the same breath in which it then does it.

use engine::HardState;
use raft::eraftpb::{Message, MessageType, Snapshot, SnapshotMetadata};
use raft::{ProgressState, SnapshotStatus, StateRole};

use super::consensus::Consensus;
use crate::Mutant;

/// What the library would do with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Begin anew with it: install it first.
    Restores,
    /// The log has what is in it, or the state is newer: tell the sender so.
    HasIt,
    /// It comes from a leader of the past, or for somebody else.
    Ignores,
}

impl Consensus {
    /// What the library would do with a MsgSnapshot now.
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

    /// The snapshot of a message that was judged to be restored is installed,
    /// with this hard state: the library begins anew with it, and so does the
    /// view. Entries that were under way here are none any more.
    pub fn restore(&mut self, message: Message, installed: HardState) {
        let metadata = message.get_snapshot().get_metadata().clone();
        let restored = self.node.step(message);
        let pending = self.node.snap().map(|it| it.get_metadata().index);
        assert!(
            restored.is_ok() && pending == Some(metadata.index),
            "the library has other ideas about a snapshot of entry {} that is installed: \
             {restored:?}, {pending:?}",
            metadata.index
        );
        self.proposed = None;
        self.not_taken = None;
        self.pending.clear();
        self.written = installed;
        // The installation has waited for everything before it.
        self.durable = self.engine.durable();
        assert!(self.appended <= self.durable, "{self:?}");
        self.node.mut_store().restore(metadata);
    }

    /// The snapshot is on stable storage and applied: it was installed before the
    /// library heard of it. Until the library knows, it would look for the entries
    /// before it when this member stands for election.
    pub(super) fn skip_to(&mut self, index: u64) {
        self.node.raft.on_persist_snap(index);
        self.node.advance_apply_to(index);
    }

    /// This member has no state, and waits for a snapshot.
    pub fn waits(&self) -> bool {
        let view = self.node.store();
        view.last() == 0 && view.has_no_members()
    }

    /// Who waits for a snapshot asks for one instead of entries, which would begin
    /// with members that it might take for all there are. The library's own
    /// `request_snapshot` refuses where there is no entry, so its message is
    /// made here.
    ///
    /// It does not stand, for all it knows it has no vote; but it gives its vote to
    /// who asks for it. Among one or three others it may be the one that is
    /// missing, and without a leader nobody would ever send it a snapshot.
    pub(super) fn receive_waiting(&mut self, message: Message) {
        let raft = &mut self.node.raft;
        match message.get_msg_type() {
            MessageType::MsgTimeoutNow => {}
            MessageType::MsgAppend if message.term >= raft.term => {
                if message.term > raft.term {
                    raft.become_follower(message.term, message.from);
                }
                let mut request = Message {
                    to: message.from,
                    from: raft.id,
                    term: raft.term,
                    index: message.index,
                    reject: true,
                    request_snapshot: 1,
                    ..Message::default()
                };
                request.set_msg_type(MessageType::MsgAppendResponse);
                raft.msgs.push(request);
            }
            _ => self.step(message),
        }
    }

    /// A request for a snapshot that comes late: the member has one by now. The
    /// library would send it another; and it forgets such a request only when it
    /// is told of the transfer's end before it hears from the member.
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

    /// Members that need a snapshot and have not been offered one, since the
    /// last look.
    pub fn take_wanted(&mut self) -> Vec<u64> {
        self.node.mut_store().take_wanted()
    }

    /// This is what a member may be sent: the library decides whether it still
    /// needs it, at once or when it hears from the member. Only a leader may say so:
    /// the library would send an append in the name of any term's.
    pub fn offer(&mut self, member: u64, metadata: SnapshotMetadata) {
        let raft = &mut self.node.raft;
        assert!(raft.state == StateRole::Leader, "a follower offers nothing");
        raft.mut_store().offer(member, metadata);
        if raft.prs().get(member).is_some() {
            raft.send_append(member);
        }
    }

    /// The offer is taken back, or was taken.
    pub fn withdraw(&mut self, member: u64) {
        self.node.mut_store().withdraw(member);
    }

    /// The library waits for a transfer to this member to end.
    pub fn awaits_snapshot(&self, member: u64) -> bool {
        let raft = &self.node.raft;
        let progress = raft.prs().get(member);
        raft.state == StateRole::Leader
            && progress.is_some_and(|it| it.state == ProgressState::Snapshot)
    }

    /// How a transfer to a member has ended.
    pub fn snapshot_sent(&mut self, member: u64, status: SnapshotStatus) {
        self.node.report_snapshot(member, status);
    }
}

/// A snapshot as the library knows it: its contents are sent beside it.
pub(super) fn named(metadata: &SnapshotMetadata) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.set_metadata(metadata.clone());
    snapshot
}
