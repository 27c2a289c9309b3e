//! Heartbeats that the network thread sends while the replica is at work.
//!
//! ```text
//!   leader     replica at work ────────────────────────────────► next heartbeats
//!              network thread:   the last ones again, each interval
//!
//!   follower   replica at work ────────────────────────────────► reads its inbox
//!              network thread:   answers the leader that it follows
//! ```
//!
//! The evaluation, the entry or the apply of a large command may keep the replica at work
//! for longer than an election timeout, and must not end a leader's leadership. So the
//! replica notes its role here and when it is at work. During long work, the network thread
//! sends and answers heartbeats for it.
//!
//! This is safe. A repeated heartbeat is like one that the network has doubled, which Raft
//! tolerates. An answer says that this member is in the leader's term. That stays true as
//! long as the replica is at work, because it votes for no other member during that time.
//! The answer carries no promise for the leader's lease on reads: a vote request that
//! arrived before the heartbeat may be waiting, and the replica may still grant it.
//!
//! A replica that is stuck must not stay leader for ever: if its work takes too long, the
//! network thread sends and answers nothing for it any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use environment::{Clock, Instant};
use raft::eraftpb::{Message, MessageType};

use crate::PeerMessage;
use crate::lock::lock;

/// The network thread sends nothing for a replica during shorter work.
const SHORT_WORK: Duration = Duration::from_millis(20);
/// Election timeouts after which a replica at work counts as stuck.
const STUCK_AFTER_TIMEOUTS: u32 = 10;

/// The role of the replica, and the heartbeats that can be sent for it.
#[derive(Debug)]
pub(crate) struct HeartbeatSender {
    clock: Arc<dyn Clock>,
    interval: Duration,
    stuck_after: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    term: u64,
    /// Id of the leader; 0 if none is known: then nothing is sent or answered.
    leader: u64,
    /// This member leads.
    leads: bool,
    /// The leader's last heartbeat to each member.
    heartbeats: BTreeMap<u64, Message>,
    sent_at: Instant,
    /// When the work under way began; none if the replica waits for its inbox.
    at_work_since: Option<Instant>,
}

impl HeartbeatSender {
    pub fn new(
        clock: Arc<dyn Clock>,
        heartbeat_interval: Duration,
        election_timeout: Duration,
    ) -> HeartbeatSender {
        HeartbeatSender {
            clock,
            interval: heartbeat_interval,
            stuck_after: election_timeout * STUCK_AFTER_TIMEOUTS,
            state: Mutex::default(),
        }
    }

    /// How often the network thread should call [`HeartbeatSender::due`].
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Notes that the replica begins to work.
    pub fn begin_work(&self) {
        lock(&self.state).at_work_since = Some(self.clock.now());
    }

    /// Notes that the replica has done its work and waits for its inbox.
    pub fn end_work(&self) {
        lock(&self.state).at_work_since = None;
    }

    /// Notes the replica's role. To be called before a message is sent that could lead to
    /// another term or another leader.
    pub fn set_role(&self, term: u64, leader: u64, own_id: u64) {
        let mut state = lock(&self.state);
        if (state.term, state.leader) != (term, leader) {
            *state = State {
                term,
                leader,
                leads: leader == own_id,
                at_work_since: state.at_work_since,
                ..State::default()
            };
        }
    }

    /// Keeps the heartbeats among the messages that the replica sends. For members to which a
    /// new leader has sent other messages only, it makes one.
    pub fn note_sent(&self, messages: &[(u64, PeerMessage)]) {
        let state = &mut *lock(&self.state);
        if !state.leads {
            return;
        }
        for (to, message) in messages {
            let PeerMessage::Raft(message) = message else {
                continue;
            };
            if message.term != state.term {
                continue;
            }
            if message.get_msg_type() == MessageType::MsgHeartbeat {
                state.heartbeats.insert(*to, message.clone());
                state.sent_at = self.clock.now();
            } else {
                let first =
                    || heartbeat(MessageType::MsgHeartbeat, message.from, *to, message.term);
                state.heartbeats.entry(*to).or_insert_with(first);
            }
        }
    }

    /// Returns the heartbeats that are due, if the replica leads and has been at work for a
    /// while.
    pub fn due(&self) -> Vec<(u64, PeerMessage)> {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        let acts = state.leads && state.acts_for_replica(now, self.stuck_after);
        if !acts || now < state.sent_at + self.interval {
            return Vec::new();
        }
        state.sent_at = now;
        let heartbeats = state.heartbeats.iter();
        heartbeats
            .map(|(to, message)| (*to, PeerMessage::Raft(message.clone())))
            .collect()
    }

    /// Returns the answer to a message, if it is a heartbeat of the leader that this member
    /// follows, and the replica has been at work for a while.
    pub fn answer(&self, message: &PeerMessage) -> Option<PeerMessage> {
        let PeerMessage::Raft(message) = message else {
            return None;
        };
        if message.get_msg_type() != MessageType::MsgHeartbeat {
            return None;
        }
        let state = lock(&self.state);
        let follows = (state.term, state.leader) == (message.term, message.from);
        if !follows || !state.acts_for_replica(self.clock.now(), self.stuck_after) {
            return None;
        }
        let kind = MessageType::MsgHeartbeatResponse;
        Some(PeerMessage::Raft(Message {
            // The stamp for a lease goes back unchanged, without a promise.
            context: message.context.clone(),
            ..heartbeat(kind, message.to, message.from, message.term)
        }))
    }
}

impl State {
    /// Whether the network thread acts for the replica: it has been at work for a while, and
    /// is not stuck.
    fn acts_for_replica(&self, now: Instant, stuck_after: Duration) -> bool {
        let length = self.at_work_since.map(|since| now.saturating_since(since));
        length.is_some_and(|length| length >= SHORT_WORK && length < stuck_after)
    }
}

/// A heartbeat, or the answer to one, that says nothing but the term.
fn heartbeat(kind: MessageType, from: u64, to: u64, term: u64) -> Message {
    Message {
        msg_type: kind,
        from,
        to,
        term,
        ..Message::default()
    }
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedClock;

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);
    const TIMEOUT: Duration = Duration::from_secs(1);

    fn sender() -> (SimulatedClock, HeartbeatSender) {
        let clock = SimulatedClock::stepped();
        let sender = HeartbeatSender::new(Arc::new(clock.clone()), INTERVAL, TIMEOUT);
        (clock, sender)
    }

    fn beat(from: u64, to: u64, term: u64) -> (u64, PeerMessage) {
        let mut message = Message {
            from,
            to,
            term,
            context: b"a round".as_slice().into(),
            ..Message::default()
        };
        message.set_msg_type(MessageType::MsgHeartbeat);
        (to, PeerMessage::Raft(message))
    }

    fn members(due: &[(u64, PeerMessage)]) -> Vec<u64> {
        due.iter().map(|(to, _)| *to).collect()
    }

    #[test]
    fn the_last_heartbeats_of_a_leader_at_work_are_sent_again_each_interval() {
        let (clock, sender) = sender();
        sender.set_role(5, 1, 1);
        sender.note_sent(&[beat(1, 2, 5), beat(1, 3, 5)]);
        clock.advance(INTERVAL * 2);
        assert!(sender.due().is_empty(), "it waits for its inbox");
        sender.begin_work();
        assert!(sender.due().is_empty(), "the work has just begun");
        clock.advance(SHORT_WORK);
        assert_eq!(members(&sender.due()), [2, 3]);
        assert!(sender.due().is_empty(), "an interval has not passed");
        clock.advance(INTERVAL);
        assert_eq!(members(&sender.due()), [2, 3]);
        sender.end_work();
        clock.advance(INTERVAL);
        assert!(sender.due().is_empty());
    }

    #[test]
    fn members_that_a_new_leader_has_sent_entries_get_heartbeats_too() {
        let (clock, sender) = sender();
        sender.set_role(5, 1, 1);
        let entries = Message {
            from: 1,
            to: 3,
            term: 5,
            ..Message::default()
        };
        sender.note_sent(&[beat(1, 2, 5), (3, PeerMessage::Raft(entries))]);
        sender.begin_work();
        clock.advance(INTERVAL);
        let due = sender.due();
        assert_eq!(members(&due), [2, 3]);
        let PeerMessage::Raft(first) = &due[1].1 else {
            panic!("{due:?}");
        };
        assert_eq!(first.get_msg_type(), MessageType::MsgHeartbeat);
        assert_eq!((first.from, first.term, first.commit), (1, 5, 0));
    }

    #[test]
    fn no_heartbeats_are_sent_for_a_stuck_replica() {
        let (clock, sender) = sender();
        sender.set_role(5, 1, 1);
        sender.note_sent(&[beat(1, 2, 5)]);
        sender.begin_work();
        clock.advance(TIMEOUT * STUCK_AFTER_TIMEOUTS - INTERVAL);
        assert_eq!(members(&sender.due()), [2]);
        clock.advance(INTERVAL);
        assert!(sender.due().is_empty());
    }

    #[test]
    fn heartbeats_of_another_term_are_never_sent_again() {
        let (clock, sender) = sender();
        sender.set_role(5, 1, 1);
        sender.note_sent(&[beat(1, 2, 5)]);
        sender.set_role(6, 1, 1);
        sender.begin_work();
        clock.advance(INTERVAL);
        assert!(sender.due().is_empty());
        sender.note_sent(&[beat(1, 2, 5)]);
        clock.advance(INTERVAL);
        assert!(sender.due().is_empty());
        sender.set_role(6, 2, 1);
        clock.advance(INTERVAL);
        assert!(sender.due().is_empty());
    }

    #[test]
    fn a_follower_at_work_answers_its_leader_and_nothing_else() {
        let (clock, sender) = sender();
        sender.set_role(5, 1, 2);
        let (_, asked) = beat(1, 2, 5);
        assert!(
            sender.answer(&asked).is_none(),
            "the replica answers itself"
        );
        sender.begin_work();
        clock.advance(SHORT_WORK);
        let Some(PeerMessage::Raft(answer)) = sender.answer(&asked) else {
            panic!("an answer is due");
        };
        assert_eq!(answer.get_msg_type(), MessageType::MsgHeartbeatResponse);
        assert_eq!((answer.from, answer.to, answer.term), (2, 1, 5));
        assert_eq!(&answer.context[..], b"a round");
        for (from, term) in [(3, 5), (1, 4), (1, 6)] {
            assert!(sender.answer(&beat(from, 2, term).1).is_none());
        }
        let other = PeerMessage::ReadIndex { round: 1 };
        assert!(sender.answer(&other).is_none());
        sender.set_role(6, 0, 2);
        assert!(sender.answer(&asked).is_none());
    }
}
