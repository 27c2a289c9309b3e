//! The parts that every role of the replica uses: the state machine, the log, the
//! consensus, the clock and the output.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Engine;
use environment::{Clock, Instant};
use peers::LimitedWarnings;
use raft::StateRole;
use revisions::{Machine, Reader};

use super::answer::{Answer, Replies, Reply, ReplySender, Requester};
use super::commit_broadcast::CommitBroadcast;
use super::options::ReplicaOptions;
use crate::peer_message::{PeerMessage, for_others};
use crate::raft::consensus::Consensus;
use crate::raft::view::View;
use crate::snapshot::Sender;
use crate::{EntryId, Error, Mutant};

/// Output of a replica since [`crate::Replica::take_output`] was called last.
#[derive(Debug, Default)]
pub struct Output {
    /// Messages for other members, each with its receiver's id.
    pub messages: Vec<(u64, PeerMessage)>,
    /// Answers to local requesters.
    pub replies: Replies,
    /// Snapshots to be sent; the owner of the replica has to run the senders.
    pub snapshots: Vec<Sender>,
}

/// The parts that all roles share.
pub(super) struct Core {
    pub member_id: u64,
    pub machine: Machine,
    pub reader: Reader,
    pub consensus: Consensus,
    pub clock: Arc<dyn Clock>,
    pub options: ReplicaOptions,
    /// Id of the leader, as far as this member knows; 0 if it knows of none.
    pub leader: u64,
    /// When the last message of each other member arrived. The Raft library keeps such a
    /// record too, but clears it at every check of the quorum: a healthy member is missing in
    /// it until its next message.
    pub last_heard: BTreeMap<u64, Instant>,
    pub output: Output,
    /// Answers of physical compactions that are applied and not swept.
    pub unswept: Vec<Answer>,
    pub commit: CommitBroadcast,
    /// The greatest index that another member waits to apply before it can answer a request.
    pub commit_awaited: u64,
    /// Leases that ended because they were not renewed, since the start.
    pub leases_expired: u64,
    /// Set by the first failure of the log; never cleared.
    pub failed: Option<Error>,
    pub warnings: LimitedWarnings,
}

impl Core {
    pub fn engine(&self) -> &Engine {
        self.reader.engine()
    }

    /// The Raft library's state.
    pub fn raft(&self) -> &raft::Raft<View> {
        self.consensus.raft()
    }

    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// When a request that arrives now has waited too long.
    pub fn deadline(&self) -> Instant {
        self.clock.now() + self.options.patience()
    }

    pub fn breaks(&self, rule: Mutant) -> bool {
        self.options.mutant == Some(rule)
    }

    /// Whether this member is Raft's leader, even if it does not evaluate commands yet.
    pub fn is_raft_leader(&self) -> bool {
        self.raft().state == StateRole::Leader
    }

    /// Whether this member is Raft's leader and has not failed.
    pub fn holds_leadership(&self) -> bool {
        self.failed.is_none() && self.is_raft_leader()
    }

    /// The commit index, as far as this member knows.
    pub fn committed(&self) -> u64 {
        self.raft().raft_log.committed
    }

    /// Whether the log has entries that are not applied yet.
    pub fn has_unapplied(&self) -> bool {
        self.engine().applied_index() + 1 < self.consensus.next().index
    }

    /// Whether a message of this member arrived within an election timeout. Always true for
    /// this member itself.
    pub fn is_alive(&self, member: u64) -> bool {
        let is_recent =
            |at: &Instant| self.clock.now().saturating_since(*at) < self.options.election_timeout;
        member == self.member_id || self.last_heard.get(&member).is_some_and(is_recent)
    }

    /// Notes that a message of this member has arrived.
    pub fn note_heard(&mut self, member: u64) {
        if self.last_heard.insert(member, self.clock.now()).is_none() {
            // Ids of removed members are never used again, so their records can go.
            let members = self.reader.members();
            let is_member = |id: &u64| *id == member || members.get(*id).is_some();
            self.last_heard.retain(|id, _| is_member(id));
        }
    }

    pub fn send(&mut self, to: u64, message: PeerMessage) {
        self.output.messages.push((to, message));
    }

    /// Sends a message to the leader, which must be known.
    pub fn send_to_leader(&mut self, message: PeerMessage) {
        self.output.messages.push((self.leader, message));
    }

    /// Logs that a member has sent a message that no correct member sends.
    pub fn warn_of(&self, from: u64, what: &str) {
        let line = format!("a message of member {from:x} is dropped: {what}");
        self.warnings.warn(self.clock.now(), line);
    }

    pub fn send_answer(&mut self, answer: Answer) {
        match answer.requester {
            Requester::Member { member, number } => {
                let outcome = Box::new(answer.outcome.map_err(for_others));
                let message = PeerMessage::Answer {
                    number,
                    index: answer.index,
                    outcome,
                };
                self.output.messages.push((member, message));
                self.await_commit(answer.index);
            }
            Requester::Internal | Requester::Expiry => {}
            Requester::Local(to) => {
                let reply = Reply::new(to, answer.outcome);
                self.output.replies.commands.push(reply);
            }
        }
    }

    /// Answers a caller that waits for a read or a transfer of leadership.
    pub fn reply(&mut self, to: ReplySender<()>, outcome: Result<(), Error>) {
        self.output.replies.done.push(Reply::new(to, outcome));
    }

    /// Answers a waiting requester with an error.
    pub fn send_error(&mut self, to: Requester, error: Error) {
        self.send_answer(Answer::new(to, Err(error)));
    }

    pub fn fail_answers(&mut self, answers: Vec<Answer>, error: &Error) {
        for answer in answers {
            self.send_answer(answer.failed(error));
        }
    }

    /// Fails a command when this member ends. Other members get no answer: their time limits
    /// end the wait.
    pub fn end_request(&mut self, to: Requester, error: &Error) {
        if let Requester::Local(to) = to {
            let reply = Reply::new(to, Err(error.clone()));
            self.output.replies.commands.push(reply);
        }
    }

    /// Sends the answers of commands that are applied with entry `index`. Answers of
    /// physical compactions wait until their sweep is done.
    pub fn give(&mut self, answers: Vec<Answer>, index: u64) {
        let swept = self.machine.swept();
        for mut answer in answers {
            answer.index = index;
            let expires = matches!(answer.requester, Requester::Expiry);
            self.leases_expired += u64::from(expires && answer.outcome.is_ok());
            if answer.swept.is_none_or(|at| at <= swept) {
                self.send_answer(answer);
            } else {
                self.unswept.push(answer);
            }
        }
    }

    /// Sends the answers of physical compactions that are swept.
    pub fn release_swept(&mut self) {
        let swept = self.machine.swept();
        let due = |answer: &mut Answer| answer.swept.is_none_or(|at| at <= swept);
        let due: Vec<Answer> = self.unswept.extract_if(.., due).collect();
        due.into_iter().for_each(|answer| self.send_answer(answer));
    }

    /// Notes that another member waits to apply `index` before it can give an answer.
    pub fn await_commit(&mut self, index: u64) {
        self.commit_awaited = self.commit_awaited.max(index);
    }

    /// Ids of the voters in the configuration that this member has applied.
    pub fn voters(&self) -> Vec<u64> {
        let members = self.reader.members();
        members.voters().map(|voter| voter.id).collect()
    }

    /// The last entry of this member's log.
    pub fn end(&self) -> EntryId {
        self.consensus.end()
    }

    /// Whether this member is the only voter.
    pub fn is_only_voter(&self) -> bool {
        self.raft().prs().is_singleton()
    }
}
