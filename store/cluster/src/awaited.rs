//! Decides which inputs wake a sleeping replica.
//!
//! ```text
//!   entry in flight ──► own disk    acknowledged: no wake-up
//!                  ├──► member 2    acknowledged, the entry can be applied: wake-up
//!                  └──► member 3    acknowledged: no wake-up, processed with the next input
//! ```
//!
//! Each acknowledgement of an entry arrives separately. Only the one that lets the entry be
//! applied leads to work; or, if the leader's own disk is slow, the one that completes a
//! majority without it. Reads that arrive during a round of reads wait for its end, which wakes the replica,
//! or its time limit does. All these inputs stay in the inbox. That changes when they are processed, not what they mean: the next tick takes
//! them at the latest.

use raft::eraftpb::{Message, MessageType};
use value_log::Sequence;

use crate::PeerMessage;

/// The inputs for which a sleeping replica is not woken; by default none.
#[derive(Clone, Debug, Default)]
pub(crate) struct CanWait {
    /// Acknowledgements that complete no majority.
    pub acknowledgements: Option<Awaited>,
    /// Reads. A round of reads is under way, and its end wakes the replica.
    pub reads: bool,
}

impl CanWait {
    /// Whether a notice of the flush thread can wait.
    pub fn persisted(&mut self, outcome: &Result<Sequence, String>) -> bool {
        match (outcome, &mut self.acknowledgements) {
            (Ok(sequence), Some(awaited)) => awaited.persisted(*sequence),
            _ => false,
        }
    }

    /// Whether a message of another member can wait.
    pub fn message(&mut self, from: u64, message: &PeerMessage) -> bool {
        if message.is_read() {
            return self.reads;
        }
        let awaited = self.acknowledgements.as_mut();
        awaited.is_some_and(|it| it.note_message(from, message))
    }
}

/// The acknowledgements that are missing before a leader's last entry can be applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub term: u64,
    pub index: u64,
    /// The entry's frame in the leader's own log; `None` if it is on stable storage there.
    pub own: Option<Sequence>,
    /// How many of the voters in `silent` must acknowledge to make a majority with the leader.
    pub others: usize,
    /// How many of them must acknowledge to make a majority without the leader. Then the
    /// followers can learn that the entry is committed.
    pub others_alone: usize,
    /// The other voters that have not acknowledged the entry.
    pub silent: Vec<u64>,
}

impl Awaited {
    fn is_over(&self) -> bool {
        self.own.is_none() && self.others == 0
    }

    /// Notes that the leader's log is on stable storage up to `sequence`. Returns whether the
    /// leader can sleep on.
    pub fn persisted(&mut self, sequence: Sequence) -> bool {
        if self.own.is_none_or(|own| own > sequence) {
            return true;
        }
        self.own = None;
        !self.is_over()
    }

    /// Notes a message of another member. Returns whether the leader can sleep on: the message
    /// acknowledges the entry, perhaps once more, and does not complete a majority.
    pub fn note_message(&mut self, from: u64, message: &PeerMessage) -> bool {
        let PeerMessage::Raft(message) = message else {
            return false;
        };
        if !self.is_confirmed_by(message) {
            return false;
        }
        let Some(at) = self.silent.iter().position(|&silent| silent == from) else {
            return true;
        };
        self.silent.swap_remove(at);
        let completes = |still_needed: &mut usize| {
            let last = *still_needed == 1;
            *still_needed = still_needed.saturating_sub(1);
            last
        };
        let with_this_one = completes(&mut self.others);
        let without = completes(&mut self.others_alone);
        let applies = with_this_one && self.own.is_none();
        let tells = without && self.own.is_some();
        !(applies || tells)
    }

    fn is_confirmed_by(&self, message: &Message) -> bool {
        message.get_msg_type() == MessageType::MsgAppendResponse
            && (message.term, message.index) == (self.term, self.index)
            && !message.reject
            && message.request_snapshot == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirmation(index: u64) -> PeerMessage {
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgAppendResponse);
        (message.term, message.index) = (3, index);
        PeerMessage::Raft(message)
    }

    #[test]
    fn reads_wait_for_the_end_of_a_round_and_what_may_end_it_wakes() {
        let question = PeerMessage::ReadIndex { round: 1 };
        let answer = PeerMessage::ReadAt {
            round: 1,
            index: 40,
        };
        let mut during_a_round = CanWait {
            acknowledgements: Some(awaited()),
            reads: true,
        };
        assert!(during_a_round.message(2, &question));
        assert!(!during_a_round.message(2, &answer));
        let mut heartbeat = Message::default();
        heartbeat.set_msg_type(MessageType::MsgHeartbeatResponse);
        assert!(!during_a_round.message(2, &PeerMessage::Raft(heartbeat)));
        assert!(!CanWait::default().message(2, &question));
    }

    /// A leader of three members.
    fn awaited() -> Awaited {
        Awaited {
            term: 3,
            index: 40,
            own: Some(Sequence(7)),
            others: 1,
            others_alone: 2,
            silent: vec![2, 3],
        }
    }

    #[test]
    fn only_the_acknowledgement_that_completes_a_majority_wakes() {
        let mut first_the_disk = awaited();
        assert!(first_the_disk.persisted(Sequence(6)), "an earlier frame");
        assert!(first_the_disk.persisted(Sequence(7)));
        assert!(!first_the_disk.note_message(2, &confirmation(40)));
        assert!(
            first_the_disk.note_message(3, &confirmation(40)),
            "not needed"
        );
        let mut last_the_disk = awaited();
        assert!(last_the_disk.note_message(3, &confirmation(40)));
        assert!(last_the_disk.note_message(3, &confirmation(40)), "again");
        assert!(!last_the_disk.persisted(Sequence(7)));
    }

    #[test]
    fn of_five_members_two_followers_are_needed_and_none_counts_twice() {
        let mut awaited = Awaited {
            own: None,
            others: 2,
            others_alone: 3,
            silent: vec![2, 3, 4, 5],
            ..awaited()
        };
        assert!(awaited.note_message(4, &confirmation(40)));
        assert!(awaited.note_message(4, &confirmation(40)));
        assert!(awaited.note_message(9, &confirmation(40)), "a learner");
        assert!(!awaited.note_message(2, &confirmation(40)));
    }

    /// The leader applies the entry later; the followers need not wait for its disk.
    #[test]
    fn a_majority_without_the_leader_s_disk_wakes() {
        let mut awaited = awaited();
        assert!(awaited.note_message(3, &confirmation(40)));
        assert!(!awaited.note_message(2, &confirmation(40)));
        assert!(!awaited.persisted(Sequence(7)));
    }

    #[test]
    fn every_other_message_wakes() {
        let mut awaited = awaited();
        assert!(
            !awaited.note_message(2, &confirmation(39)),
            "it lacks entry 40"
        );
        assert!(!awaited.note_message(2, &PeerMessage::ReadIndex { round: 1 }));
        let mut rejection = confirmation(40);
        if let PeerMessage::Raft(message) = &mut rejection {
            message.reject = true;
        }
        assert!(!awaited.note_message(2, &rejection));
        assert_eq!(awaited, self::awaited());
    }
}
