//! The Raft library and members that may have lost the tail of their log, entries which they
//! have confirmed.
//!
//! The library takes for granted that no member loses an entry that it has confirmed. If
//! one may have:
//!
//! - a leader forgets what the member had confirmed ([`Consensus::forget`]), and asks where
//!   its log ends;
//! - the member accepts the commit index of a heartbeat only up to the index up to which
//!   this incarnation's log was compared with its leader's. Beyond that, the leader may count on
//!   entries in the former incarnation's log. In their place there may be overruled entries, which
//!   the loss of power has brought back;
//! - a leader's log that contradicts the entries committed here ends the member with an
//!   error.

use raft::StateRole;
use raft::eraftpb::{Message, MessageType};

use super::consensus::Consensus;
use crate::Error;

/// Up to which index this incarnation's log is known to equal the leader's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    /// This incarnation began with a log that may lack its last entries.
    is_needed: bool,
    /// The term of the leader for which `index` holds.
    term: u64,
    /// The greatest index that this member has confirmed to that leader.
    index: u64,
}

impl Consensus {
    /// Notes that this incarnation's log may lack entries that former incarnations have
    /// confirmed.
    pub fn note_lost_tail(&mut self) {
        self.compared.is_needed = true;
    }

    /// Forgets, at a leader, what a member has confirmed. The leader then sends the entries
    /// behind `end`, or, if it is not given, those that it would have sent next.
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

    /// The index up to which a member must have committed this leader's log to have every entry
    /// that was committed before now; none if this member does not lead. It is the commit index
    /// once the leader has committed an entry of its own term, and until then the end of its
    /// log, which contains every entry that was committed in earlier terms.
    pub fn catch_up_index(&self) -> Option<u64> {
        let raft = &self.node.raft;
        let log = &raft.raft_log;
        (raft.state == StateRole::Leader).then(|| match raft.commit_to_current_term() {
            true => log.committed,
            false => log.last_index(),
        })
    }

    /// Notes that a tick has passed for a member that may not stand for election. After an
    /// election timeout without a message of its leader it takes the leader for lost.
    pub fn tick_without_standing(&mut self) {
        let raft = &mut self.node.raft;
        if raft.election_elapsed + 1 < raft.randomized_election_timeout() {
            self.node.tick();
        } else {
            raft.become_follower(raft.term, 0);
        }
    }

    /// Lowers the commit index in a message to what precedes a change of the configuration that
    /// this member has not applied yet. Before this member applies the change, it puts on its
    /// device that the change is committed; only then it informs other members. A removed
    /// member ends when it or enough others know of the commit, and cannot be asked any more.
    /// The next heartbeat, or the answer to it, carries the full commit index.
    pub fn hold_back(&self, message: &mut Message) {
        const CARRY_COMMIT: [MessageType; 4] = [
            MessageType::MsgAppend,
            MessageType::MsgAppendResponse,
            MessageType::MsgHeartbeat,
            MessageType::MsgHeartbeatResponse,
        ];
        if !CARRY_COMMIT.contains(&message.get_msg_type()) {
            return;
        }
        if let Some(change) = self.log.pending.iter().find(|it| it.changes_configuration) {
            message.commit = message.commit.min(change.batch.index - 1);
        }
    }

    /// Notes from an answer of this member up to which index it confirms the leader's log.
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

    /// Lowers a heartbeat's commit index to the compared part of the log, if this incarnation's log may
    /// lack entries. Fails if the leader counts on entries that this member lacks: the library
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
        Err(Error::Diverged(format!(
            "member {:x} has lost entries that it had confirmed: its log ends with entry {last}, \
             and its leader counts on entry {}; remove it from the cluster, and add it again \
             with an empty directory",
            raft.id, heartbeat.commit
        )))
    }

    /// Fails if the leader has other entries in the place of entries committed here: the library
    /// would panic, or confirm entries that this member lacks.
    pub(super) fn check_committed(&self, append: &Message) -> Result<(), Error> {
        let raft = &self.node.raft;
        let log = &raft.raft_log;
        if append.term < raft.term || append.index > log.committed {
            return Ok(());
        }
        let entries = append.entries.iter().map(|it| (it.index, it.term));
        let places = std::iter::once((append.index, append.log_term)).chain(entries);
        for (index, term) in places.take_while(|&(index, _)| index <= log.committed) {
            // The term is 0 if the entry is not kept any more, or for index 0.
            let own = log.term(index).unwrap_or(0);
            if own != 0 && own != term {
                return Err(Error::Diverged(format!(
                    "member {:x} has applied entry {index} of term {own}, and its leader has one \
                     of term {term} in its place: the other members have lost what this member has \
                     applied; remove it from the cluster, and add it again with an empty directory",
                    raft.id
                )));
            }
        }
        Ok(())
    }
}
