//! What a leader that sleeps is not woken for.
//!
//! ```text
//!   entry on its way ──► own disk    sleep on
//!                   ├──► member 2    the entry can be applied: wake
//!                   └──► member 3    sleep on; looked at with whatever comes next
//! ```
//!
//! Each confirmation of an entry comes by itself, and only the one that lets it be
//! applied has anything to do; and, where the own disk is slow, the one that makes a
//! majority without it. The others are left in the inbox. This decides when
//! they are looked at and not what they mean: without anything else, the next tick
//! takes them out.

use raft::eraftpb::{Message, MessageType};
use value_log::Sequence;

use crate::PeerMessage;

/// What is still to come before a leader's last entry can be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub term: u64,
    pub index: u64,
    /// The entry's place in the own log; `None`: it is on stable storage here.
    pub own: Option<Sequence>,
    /// So many of the members below make a majority with this one.
    pub others: usize,
    /// So many of them make one without it: the others can be told.
    pub others_alone: usize,
    /// Other voters that have not confirmed it.
    pub silent: Vec<u64>,
}

impl Awaited {
    fn is_over(&self) -> bool {
        self.own.is_none() && self.others == 0
    }

    /// The own log is on stable storage up to `sequence`. True: nothing can be done
    /// about that yet.
    pub fn persisted(&mut self, sequence: Sequence) -> bool {
        if self.own.is_none_or(|own| own > sequence) {
            return true;
        }
        self.own = None;
        !self.is_over()
    }

    /// A message of another member. True: it confirms the entry, or did so before, and
    /// nothing can be done about that yet.
    pub fn hears(&mut self, from: u64, message: &PeerMessage) -> bool {
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

    /// A leader of three.
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
    fn the_last_confirmation_that_is_needed_wakes_and_no_other() {
        let mut first_the_disk = awaited();
        assert!(first_the_disk.persisted(Sequence(6)), "not so far yet");
        assert!(first_the_disk.persisted(Sequence(7)));
        assert!(!first_the_disk.hears(2, &confirmation(40)));
        assert!(first_the_disk.hears(3, &confirmation(40)), "one too many");
        let mut last_the_disk = awaited();
        assert!(last_the_disk.hears(3, &confirmation(40)));
        assert!(last_the_disk.hears(3, &confirmation(40)), "again");
        assert!(!last_the_disk.persisted(Sequence(7)));
    }

    #[test]
    fn of_five_two_others_are_needed_and_none_counts_twice() {
        let mut awaited = Awaited {
            own: None,
            others: 2,
            others_alone: 3,
            silent: vec![2, 3, 4, 5],
            ..awaited()
        };
        assert!(awaited.hears(4, &confirmation(40)));
        assert!(awaited.hears(4, &confirmation(40)));
        assert!(awaited.hears(9, &confirmation(40)), "a learner");
        assert!(!awaited.hears(2, &confirmation(40)));
    }

    /// The leader applies later; the others need not wait for its disk.
    #[test]
    fn a_majority_without_the_own_disk_wakes() {
        let mut awaited = awaited();
        assert!(awaited.hears(3, &confirmation(40)));
        assert!(!awaited.hears(2, &confirmation(40)));
        assert!(!awaited.persisted(Sequence(7)));
    }

    #[test]
    fn whatever_else_comes_wakes() {
        let mut awaited = awaited();
        assert!(!awaited.hears(2, &confirmation(39)), "it needs more");
        assert!(!awaited.hears(2, &PeerMessage::ReadIndex { round: 1 }));
        let mut rejection = confirmation(40);
        if let PeerMessage::Raft(message) = &mut rejection {
            message.reject = true;
        }
        assert!(!awaited.hears(2, &rejection));
        assert_eq!(awaited, self::awaited());
    }
}
