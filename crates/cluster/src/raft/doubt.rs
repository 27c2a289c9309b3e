//! Members whose log may lack what they have confirmed, as far as the Raft library is
//! concerned.
//!
//! The library takes for granted that nobody loses what it has confirmed. Where that
//! does not hold:
//!
//! - a leader forgets what such a member had confirmed ([`Consensus::forget`]), and
//!   asks where its log ends;
//! - the member believes a heartbeat only up to where this life's log was compared
//!   with its leader's: what the leader may have counted on before that was in the
//!   former life's log. In its place there may be entries that were overruled, and
//!   that the loss of power has brought back;
//! - a log that contradicts what was applied here ends the member with the reason.

use raft::StateRole;
use raft::eraftpb::{Message, MessageType};

use super::consensus::Consensus;
use crate::Error;

/// How far this life's log is known to be the leader's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    /// This life began with a log that may lack its end.
    pub is_needed: bool,
    /// The greatest index confirmed to the leader of a term.
    term: u64,
    index: u64,
}

impl Consensus {
    /// This life's log may lack what lives before have confirmed.
    pub fn doubt(&mut self) {
        self.compared.is_needed = true;
    }

    /// Term and index of the log's last entry, in the order that elections go by.
    pub fn end(&self) -> (u64, u64) {
        let log = &self.node.raft.raft_log;
        (log.last_term(), log.last_index())
    }

    /// What a member has confirmed counts no more: the leader sends what follows
    /// the end that the member names, or what it would have sent next.
    pub fn forget(&mut self, member: u64, end: Option<u64>) {
        let raft = &mut self.node.raft;
        if raft.state != StateRole::Leader || member == raft.id {
            return;
        }
        let last = raft.raft_log.last_index();
        let Some(progress) = raft.mut_prs().get_mut(member) else {
            return;
        };
        let next = end.map_or(progress.next_idx, |end| end.saturating_add(1));
        progress.become_probe();
        (progress.matched, progress.committed_index) = (0, 0);
        progress.pending_request_snapshot = 0;
        progress.next_idx = next.clamp(1, last + 1);
        raft.send_append(member);
    }

    /// As far as a member must have caught up with this leader's log to have all
    /// that was committed by now. The leader has all that was committed in terms
    /// before its own; it knows so itself once it has committed an entry of its
    /// own term.
    pub fn owed(&self) -> Option<u64> {
        let raft = &self.node.raft;
        let log = &raft.raft_log;
        (raft.state == StateRole::Leader).then(|| match raft.commit_to_current_term() {
            true => log.committed,
            false => log.last_index(),
        })
    }

    /// Time passes for a member that may not stand: when its patience with a leader
    /// ends, it knows that there is none.
    pub fn tick_without_standing(&mut self) {
        let raft = &mut self.node.raft;
        if raft.election_elapsed + 1 < raft.randomized_election_timeout() {
            self.node.tick();
        } else {
            raft.become_follower(raft.term, 0);
        }
    }

    /// Nobody is told that a change of the configuration is committed before this
    /// member has that on its device: who is removed goes when it hears so, or when
    /// enough others have heard, and cannot be asked any more. The next heartbeat or
    /// the answer to it tells it.
    pub fn hold_back(&self, message: &mut Message) {
        const TELLING: [MessageType; 4] = [
            MessageType::MsgAppend,
            MessageType::MsgAppendResponse,
            MessageType::MsgHeartbeat,
            MessageType::MsgHeartbeatResponse,
        ];
        if !TELLING.contains(&message.get_msg_type()) {
            return;
        }
        let mut pending = self.pending.iter();
        if let Some(change) = pending.find(|it| it.changes_configuration) {
            message.commit = message.commit.min(change.batch.index - 1);
        }
    }

    /// This member confirms how far its log is the leader's.
    pub fn note_compared(&mut self, answer: &Message) {
        let compared = &mut self.compared;
        if answer.reject || answer.get_msg_type() != MessageType::MsgAppendResponse {
            return;
        }
        if answer.term > compared.term {
            (compared.term, compared.index) = (answer.term, 0);
        }
        if answer.term == compared.term {
            compared.index = compared.index.max(answer.index);
        }
    }

    /// Cuts a heartbeat's commit index to what was compared. Fails where the leader
    /// counts on entries that a member without doubts does not have: the library
    /// would panic.
    pub(super) fn check_heartbeat(&self, heartbeat: &mut Message) -> Result<(), Error> {
        let raft = &self.node.raft;
        if heartbeat.term < raft.term {
            return Ok(());
        }
        if self.compared.is_needed {
            let same_term = self.compared.term == heartbeat.term;
            let compared = if same_term { self.compared.index } else { 0 };
            heartbeat.commit = heartbeat.commit.min(compared);
        }
        let last = raft.raft_log.last_index();
        if heartbeat.commit <= last {
            return Ok(());
        }
        Err(Error::Storage(format!(
            "member {:x} has lost entries that it had confirmed: its log ends with entry {last}, \
             and its leader counts on entry {}; remove it from the cluster, and add it anew \
             with an empty directory",
            raft.id, heartbeat.commit
        )))
    }

    /// Fails where the leader has other entries than those committed here: the
    /// library would panic, or confirm what is not here.
    pub(super) fn check_committed(&self, append: &Message) -> Result<(), Error> {
        let raft = &self.node.raft;
        let log = &raft.raft_log;
        if append.term < raft.term || append.index > log.committed {
            return Ok(());
        }
        let entries = append.entries.iter().map(|it| (it.index, it.term));
        let places = std::iter::once((append.index, append.log_term)).chain(entries);
        for (index, term) in places.take_while(|&(index, _)| index <= log.committed) {
            // 0: it is not kept any more, or index 0.
            let own = log.term(index).unwrap_or(0);
            if own != 0 && own != term {
                return Err(Error::Storage(format!(
                    "member {:x} has applied entry {index} of term {own}, and the cluster goes on \
                     with one of term {term} in its place: what this member has applied was lost \
                     elsewhere; remove it from the cluster, and add it anew with an empty directory",
                    raft.id
                )));
            }
        }
        Ok(())
    }
}
