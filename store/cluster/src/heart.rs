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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use environment::{Clock, Instant};
use raft::eraftpb::{Message, MessageType};

use crate::PeerMessage;

/// The network thread sends nothing for a replica during shorter work.
const SHORT_WORK: Duration = Duration::from_millis(20);
/// Election timeouts after which a replica at work counts as stuck.
const STUCK_AFTER_TIMEOUTS: u32 = 10;

/// The role of the replica, and the heartbeats that can be sent for it.
#[derive(Debug)]
pub(crate) struct Heart {
    clock: Arc<dyn Clock>,
    interval: Duration,
    stuck_after: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    role: KnownRole,
    /// When the work under way began; none if the replica waits for its inbox.
    at_work_since: Option<Instant>,
}

#[derive(Debug, Default)]
enum KnownRole {
    /// No leader is known: nothing is sent or answered.
    #[default]
    None,
    Leads {
        term: u64,
        /// The last heartbeat to each member.
        heartbeats: BTreeMap<u64, Message>,
        sent_at: Instant,
    },
    Follows {
        term: u64,
        leader: u64,
    },
}

impl Heart {
    pub fn new(
        clock: Arc<dyn Clock>,
        heartbeat_interval: Duration,
        election_timeout: Duration,
    ) -> Heart {
        Heart {
            clock,
            interval: heartbeat_interval,
            stuck_after: election_timeout * STUCK_AFTER_TIMEOUTS,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the network thread should call [`Heart::due`].
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Notes that the replica begins to work.
    pub fn begin_work(&self) {
        self.state().at_work_since = Some(self.clock.now());
    }

    /// Notes that the replica has done its work and waits for its inbox.
    pub fn end_work(&self) {
        self.state().at_work_since = None;
    }

    /// Notes the replica's role. To be called before a message is sent that could lead to
    /// another term or another leader.
    pub fn set_role(&self, term: u64, leader: u64, own_id: u64) {
        let mut state = self.state();
        let leads = leader == own_id;
        match &state.role {
            KnownRole::Leads { term: known, .. } if leads && *known == term => {}
            KnownRole::Follows {
                term: known,
                leader: followed,
            } if (*known, *followed) == (term, leader) => {}
            _ if leads => {
                state.role = KnownRole::Leads {
                    term,
                    heartbeats: BTreeMap::new(),
                    sent_at: Instant::default(),
                }
            }
            _ if leader == 0 => state.role = KnownRole::None,
            _ => state.role = KnownRole::Follows { term, leader },
        }
    }

    /// Keeps the heartbeats among the messages that the replica sends. For members to which a
    /// new leader has sent other messages only, it makes one.
    pub fn note_sent(&self, messages: &[(u64, PeerMessage)]) {
        let mut state = self.state();
        let KnownRole::Leads {
            term,
            heartbeats,
            sent_at,
        } = &mut state.role
        else {
            return;
        };
        for (to, message) in messages {
            let PeerMessage::Raft(message) = message else {
                continue;
            };
            if message.term != *term {
                continue;
            }
            if message.get_msg_type() == MessageType::MsgHeartbeat {
                heartbeats.insert(*to, message.clone());
                *sent_at = self.clock.now();
            } else if !heartbeats.contains_key(to) {
                heartbeats.insert(*to, first_heartbeat(message));
            }
        }
    }

    /// Returns the heartbeats that are due, if the replica leads and has been at work for a
    /// while.
    pub fn due(&self) -> Vec<(u64, PeerMessage)> {
        let now = self.clock.now();
        let mut state = self.state();
        if !state.acts_for_replica(now, self.stuck_after) {
            return Vec::new();
        }
        let KnownRole::Leads {
            heartbeats,
            sent_at,
            ..
        } = &mut state.role
        else {
            return Vec::new();
        };
        if now < *sent_at + self.interval {
            return Vec::new();
        }
        *sent_at = now;
        let heartbeats = heartbeats.iter();
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
        let state = self.state();
        let follows = matches!(state.role, KnownRole::Follows { term, leader }
            if (term, leader) == (message.term, message.from));
        if !follows || !state.acts_for_replica(self.clock.now(), self.stuck_after) {
            return None;
        }
        let mut answer = Message {
            to: message.from,
            from: message.to,
            term: message.term,
            // The stamp for a lease goes back unchanged, without a promise.
            context: message.context.clone(),
            ..Message::default()
        };
        answer.set_msg_type(MessageType::MsgHeartbeatResponse);
        Some(PeerMessage::Raft(answer))
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

/// A heartbeat that carries nothing but the leader and its term.
fn first_heartbeat(sent: &Message) -> Message {
    let mut heartbeat = Message {
        to: sent.to,
        from: sent.from,
        term: sent.term,
        ..Message::default()
    };
    heartbeat.set_msg_type(MessageType::MsgHeartbeat);
    heartbeat
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedClock;

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);
    const TIMEOUT: Duration = Duration::from_secs(1);

    fn heart() -> (SimulatedClock, Heart) {
        let clock = SimulatedClock::stepped();
        let heart = Heart::new(Arc::new(clock.clone()), INTERVAL, TIMEOUT);
        (clock, heart)
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
        let (clock, heart) = heart();
        heart.set_role(5, 1, 1);
        heart.note_sent(&[beat(1, 2, 5), beat(1, 3, 5)]);
        clock.advance(INTERVAL * 2);
        assert!(heart.due().is_empty(), "it waits for its inbox");
        heart.begin_work();
        assert!(heart.due().is_empty(), "the work has just begun");
        clock.advance(SHORT_WORK);
        assert_eq!(members(&heart.due()), [2, 3]);
        assert!(heart.due().is_empty(), "an interval has not passed");
        clock.advance(INTERVAL);
        assert_eq!(members(&heart.due()), [2, 3]);
        heart.end_work();
        clock.advance(INTERVAL);
        assert!(heart.due().is_empty());
    }

    #[test]
    fn members_that_a_new_leader_has_sent_entries_get_heartbeats_too() {
        let (clock, heart) = heart();
        heart.set_role(5, 1, 1);
        let entries = Message {
            from: 1,
            to: 3,
            term: 5,
            ..Message::default()
        };
        heart.note_sent(&[beat(1, 2, 5), (3, PeerMessage::Raft(entries))]);
        heart.begin_work();
        clock.advance(INTERVAL);
        let due = heart.due();
        assert_eq!(members(&due), [2, 3]);
        let PeerMessage::Raft(first) = &due[1].1 else {
            panic!("{due:?}");
        };
        assert_eq!(first.get_msg_type(), MessageType::MsgHeartbeat);
        assert_eq!((first.from, first.term, first.commit), (1, 5, 0));
    }

    #[test]
    fn no_heartbeats_are_sent_for_a_stuck_replica() {
        let (clock, heart) = heart();
        heart.set_role(5, 1, 1);
        heart.note_sent(&[beat(1, 2, 5)]);
        heart.begin_work();
        clock.advance(TIMEOUT * STUCK_AFTER_TIMEOUTS - INTERVAL);
        assert_eq!(members(&heart.due()), [2]);
        clock.advance(INTERVAL);
        assert!(heart.due().is_empty());
    }

    #[test]
    fn heartbeats_of_another_term_are_never_sent_again() {
        let (clock, heart) = heart();
        heart.set_role(5, 1, 1);
        heart.note_sent(&[beat(1, 2, 5)]);
        heart.set_role(6, 1, 1);
        heart.begin_work();
        clock.advance(INTERVAL);
        assert!(heart.due().is_empty());
        heart.note_sent(&[beat(1, 2, 5)]);
        clock.advance(INTERVAL);
        assert!(heart.due().is_empty());
        heart.set_role(6, 2, 1);
        clock.advance(INTERVAL);
        assert!(heart.due().is_empty());
    }

    #[test]
    fn a_follower_at_work_answers_its_leader_and_nothing_else() {
        let (clock, heart) = heart();
        heart.set_role(5, 1, 2);
        let (_, asked) = beat(1, 2, 5);
        assert!(heart.answer(&asked).is_none(), "the replica answers itself");
        heart.begin_work();
        clock.advance(SHORT_WORK);
        let Some(PeerMessage::Raft(answer)) = heart.answer(&asked) else {
            panic!("an answer is due");
        };
        assert_eq!(answer.get_msg_type(), MessageType::MsgHeartbeatResponse);
        assert_eq!((answer.from, answer.to, answer.term), (2, 1, 5));
        assert_eq!(&answer.context[..], b"a round");
        for (from, term) in [(3, 5), (1, 4), (1, 6)] {
            assert!(heart.answer(&beat(from, 2, term).1).is_none());
        }
        let other = PeerMessage::ReadIndex { round: 1 };
        assert!(heart.answer(&other).is_none());
        heart.set_role(6, 0, 2);
        assert!(heart.answer(&asked).is_none());
    }
}
