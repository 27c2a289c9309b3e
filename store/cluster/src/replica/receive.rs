//! Passes each message of another member to the part of the replica that handles it.

use raft::eraftpb::MessageType;

use super::{LeaseAsker, Replica};
use crate::ReadAsker;
use crate::peer_message::PeerMessage;

impl Replica {
    /// Handles a message from another member.
    pub fn receive(&mut self, from: u64, message: PeerMessage) {
        if self.failed.is_some() {
            return;
        }
        self.note_heard(from);
        match message {
            // A snapshot comes as `SnapshotOffer`, never as a bare Raft message.
            PeerMessage::Raft(message)
                if message.from == from && message.get_msg_type() != MessageType::MsgSnapshot =>
            {
                match self.consensus.check_plausible(&message) {
                    Ok(()) => self.step_raft(message),
                    Err(what) => self.warn_of(from, &what),
                }
            }
            PeerMessage::Raft(message) => {
                let kind = message.get_msg_type();
                self.warn_of(from, &format!("it may not send a {kind:?}"));
            }
            PeerMessage::ReadIndex { round } => {
                let member = ReadAsker::Member {
                    member: from,
                    round,
                };
                self.read(member);
            }
            // After a change of leader, rounds and questions are repeated at the new leader.
            PeerMessage::ReadAt { .. }
            | PeerMessage::LeaseAnswer { .. }
            | PeerMessage::LeaseAnswers { .. }
                if from != self.leader => {}
            PeerMessage::ReadAt { round, index } => self.reads.confirm(round, index),
            PeerMessage::Command { number, command } => self.do_for_another(from, number, &command),
            PeerMessage::Answer {
                number,
                index,
                outcome,
            } => self.answered(from, number, index, *outcome),
            PeerMessage::LeaseQuestion { number, question } => {
                let member = LeaseAsker::Member {
                    member: from,
                    number,
                    together: false,
                };
                self.ask_lease(question, member);
            }
            PeerMessage::LeaseQuestions { questions } => self.asked_together(from, questions),
            PeerMessage::LeaseAnswer { number, answer } => self.lease_answered(number, *answer),
            PeerMessage::LeaseAnswers { answers } => {
                for (number, answer) in answers {
                    self.lease_answered(number, answer);
                }
            }
            PeerMessage::SnapshotOffer { id, message } => {
                match self.consensus.check_plausible(&message) {
                    Ok(()) => self.snapshot_offered(from, id, *message),
                    Err(what) => self.warn_of(from, &what),
                }
            }
            PeerMessage::SnapshotPiece { id, bytes } => self.snapshot_piece(from, id, bytes),
            PeerMessage::SnapshotWanted {
                id,
                wanted,
                written,
                out_of_order,
            } => self.snapshot_wanted(from, id, (wanted, written), out_of_order),
            PeerMessage::SnapshotOver { id, outcome } => self.snapshot_over(from, id, outcome),
            PeerMessage::Returning {
                life,
                round,
                term,
                index,
                voters,
            } => self.answer_returning(from, (life, round), (term, index), &voters),
            PeerMessage::Statement {
                life,
                round,
                term,
                index,
                voters,
                removed,
            } => self.statement_received(from, (life, round), (term, index), (voters, removed)),
            PeerMessage::Welcome { life, term, index } => self.welcomed(life, term, index),
            PeerMessage::WhichLife { number } => self.answer_life(from, number),
            PeerMessage::ThisLife { number, life } => self.life_answered(from, number, life),
            PeerMessage::Record(message) => self.record_received(from, message),
        }
    }

    /// Logs that a member has sent a message that no correct member sends.
    pub(super) fn warn_of(&self, from: u64, what: &str) {
        let line = format!("a message of member {from:x} is dropped: {what}");
        self.warnings.warn(self.clock.now(), line);
    }
}
