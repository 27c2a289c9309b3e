//! Messages between members: what arrives goes to the part of the replica that handles it;
//! what the Raft library sends gets this crate's own additions.

use raft::eraftpb::{Message, MessageType};

use super::answer::{Requester, leader_changed};
use super::leases::LeaseRequester;
use super::reads::ReadRequester;
use super::role::Role;
use super::{Replica, damage, leader_lease};
use crate::peer_message::{HashMessage, PeerMessage};
use crate::{Error, Mutant};

impl Replica {
    /// Handles a message from another member.
    pub fn receive(&mut self, from: u64, message: PeerMessage) {
        if self.core.failed.is_some() {
            return;
        }
        self.core.note_heard(from);
        let (core, requests) = (&mut self.core, &mut self.requests);
        match message {
            PeerMessage::Raft(message) => self.receive_raft(from, message),
            PeerMessage::ReadIndex { round } => self.add_read(ReadRequester::Member {
                member: from,
                round,
            }),
            // After a change of leader, rounds and questions are repeated at the new leader.
            PeerMessage::ReadAt { .. }
            | PeerMessage::LeaseResponse { .. }
            | PeerMessage::LeaseResponses { .. }
                if from != core.leader => {}
            PeerMessage::ReadAt { round, index } => requests.reads.confirm(round, index),
            PeerMessage::Command { number, command } => {
                self.take_for_member(from, number, &command);
            }
            PeerMessage::Answer {
                number,
                index,
                outcome,
            } => requests
                .forwards
                .answered(core, from, number, index, *outcome),
            PeerMessage::LeaseRequest { number, question } => {
                let requester = LeaseRequester::Member {
                    member: from,
                    number,
                    together: false,
                };
                requests.leases.ask(core, question, requester);
            }
            PeerMessage::LeaseRequests { questions } => {
                requests.leases.ask_together(core, from, questions);
            }
            PeerMessage::LeaseResponse { number, answer } => {
                requests.leases.answered(core, number, *answer);
            }
            PeerMessage::LeaseResponses { answers } => {
                for (number, answer) in answers {
                    requests.leases.answered(core, number, answer);
                }
            }
            PeerMessage::SnapshotOffer { id, message } => {
                match core.consensus.check_plausible(&message) {
                    Ok(()) => self.receiving.offered(core, from, id, *message),
                    Err(what) => core.warn_of(from, &what),
                }
            }
            PeerMessage::SnapshotPiece { id, bytes } => {
                self.receiving.piece(core, from, id, bytes);
            }
            PeerMessage::SnapshotWanted { id, report } => self.sending.report(from, id, report),
            PeerMessage::SnapshotOver { id, outcome } => self.sending.over(from, id, outcome),
            PeerMessage::Rejoin(question) => self.rejoin.answer(core, from, &question),
            PeerMessage::RejoinReply(reply) => self.rejoin.answered(from, reply),
            PeerMessage::RejoinAccepted(accepted) => self.rejoin.accepted(accepted),
            PeerMessage::WhichIncarnation { number } => {
                self.rejoin.answer_which(core, from, number);
            }
            PeerMessage::ThisIncarnation {
                number,
                incarnation,
            } => self.rejoin.which_answered(core, from, number, incarnation),
            PeerMessage::Record(message) => damage::record_received(core, from, message),
            PeerMessage::Hash(HashMessage::Stated(hash)) => {
                self.agreement.stated(core, from, hash);
            }
            PeerMessage::Hash(HashMessage::Reached(hash)) => {
                self.agreement.reached(core, from, hash);
            }
            // The owner of the replica answers questions, and takes the answers.
            PeerMessage::Hash(HashMessage::Question { .. } | HashMessage::Answer { .. })
            | PeerMessage::Probe { .. }
            | PeerMessage::Echo { .. }
            | PeerMessage::Figures(_) => {}
        }
    }

    /// Checks a Raft message, and passes it on if a correct member may have sent it.
    fn receive_raft(&mut self, from: u64, message: Message) {
        let kind = message.get_msg_type();
        // A snapshot comes as `SnapshotOffer`, never as a bare Raft message.
        if message.from != from || kind == MessageType::MsgSnapshot {
            let what = format!("it may not send a {kind:?}");
            return self.core.warn_of(from, &what);
        }
        match self.core.consensus.check_plausible(&message) {
            Ok(()) => self.step_raft(message),
            Err(what) => self.core.warn_of(from, &what),
        }
    }

    /// Handles a Raft message: applies this member's own rules on votes and answers, and
    /// passes it to the consensus.
    fn step_raft(&mut self, mut message: Message) {
        let core = &mut self.core;
        let now = core.now();
        match message.get_msg_type() {
            MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot
                if message.term >= core.raft().term =>
            {
                self.vote_lease.extend(now);
            }
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote
                if self.vote_lease.forbids(&message, now) =>
            {
                tracing::debug!(
                    from = message.from,
                    "this member refuses its vote: its promise to a leader holds"
                );
                return;
            }
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote
                if !self.rejoin.may_vote_for(core, &message) =>
            {
                tracing::debug!(
                    from = message.from,
                    "this member refuses its vote: it is returning"
                );
                return;
            }
            MessageType::MsgTimeoutNow if !self.rejoin.may_stand(core) => return,
            MessageType::MsgAppendResponse if !self.rejoin.counts(core, &mut message) => return,
            MessageType::MsgHeartbeatResponse => {
                self.leader_lease.take_promise(core, &mut message, now);
            }
            _ => {}
        }
        if let Err(error) = self.pass_to_consensus(message) {
            self.fail(error);
        }
    }

    /// Passes a message to the consensus. Earlier entries are written first if the log's
    /// next segment might not hold both.
    fn pass_to_consensus(&mut self, message: Message) -> Result<(), Error> {
        if !self.core.consensus.takes_before_writing(&message) {
            self.process_ready()?;
        }
        self.core.consensus.receive(message)
    }

    /// Handles a command of a follower that takes this member for the leader.
    pub(super) fn take_for_member(
        &mut self,
        member: u64,
        number: u64,
        command: &revisions::Command,
    ) {
        let to = Requester::Member { member, number };
        let core = &mut self.core;
        if let Err(error) = core.options.command_limits.check(member, command) {
            return core.send_error(to, Error::Refused(error.into()));
        }
        match &mut self.role {
            Role::Leader(leader) => leader.take_for_member(core, &mut self.requests, to, command),
            // It is not forwarded again, or it could go round in circles.
            Role::Follower | Role::Leaving(_) => core.send_error(to, leader_changed()),
        }
    }

    /// Sends a message of the Raft library.
    pub(super) fn send_raft(&mut self, mut message: Message) {
        self.stamp(&mut message);
        self.core.consensus.hold_back(&mut message);
        if message.get_msg_type() == MessageType::MsgSnapshot {
            return self.sending.send(&mut self.core, message);
        }
        self.core.send(message.to, PeerMessage::Raft(message));
    }

    /// Adds to a Raft message what this crate sends with it: the moment of a heartbeat, the
    /// promise in its answer, the incarnation in an answer to an append. A request to stand
    /// for election ends the lease.
    fn stamp(&mut self, message: &mut Message) {
        match message.get_msg_type() {
            MessageType::MsgHeartbeat => {
                self.leader_lease.stamp_heartbeat(&self.core, message);
            }
            MessageType::MsgHeartbeatResponse => {
                leader_lease::stamp_promise(message, self.vote_lease.length());
            }
            MessageType::MsgAppendResponse => self.rejoin.sign(&mut self.core, message),
            MessageType::MsgTimeoutNow if !self.core.breaks(Mutant::KeepsItsLeaseInATransfer) => {
                self.leader_lease.forgo(message.term);
            }
            _ => {}
        }
    }
}
