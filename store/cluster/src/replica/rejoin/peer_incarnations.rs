//! The newest known incarnation of each other member.
//!
//! Incarnations are numbered upwards by their directories. What a leader knows of a member's log
//! holds for one incarnation: the next one may have fewer entries. So a later one is believed
//! at once, and what was known of the former one is forgotten.
//!
//! ```text
//!   a message of a later one ──► believed, unconfirmed ──► question to the member's address
//!                                        ▲                              │ the same number
//!                                        └── a message of a later one   ▼
//!                                                                   confirmed
//! ```
//!
//! A process that claims the member's id may name an incarnation that never existed, and
//! then all messages of the member in its true one would count as a former one's. The question
//! carries a number that only its receiver knows, the process at the member's address. The
//! answer decides, whatever was believed before: it was given after the question, and a
//! message of a later incarnation replaces the question.

use std::collections::BTreeMap;
use std::time::Duration;

use environment::Instant;
use environment::randomness::Random;

/// The newest known incarnations of the other members.
#[derive(Debug)]
pub(crate) struct PeerIncarnations {
    newest: BTreeMap<u64, Newest>,
    random: Random,
    /// Pause between two questions to one member.
    pause: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    incarnation: u64,
    /// The member itself has answered that it is in this incarnation.
    is_confirmed: bool,
    /// Number of the question that was asked since this incarnation became known.
    question: Option<u64>,
    asked_at: Option<Instant>,
}

/// How an incarnation that a message names compares to the newest known one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// No incarnation of the member was known; this one is the newest now.
    First,
    /// It is the newest known incarnation.
    Current,
    /// It is later than the newest known incarnation, and is the newest now.
    Later,
    /// It is earlier than the newest known incarnation.
    Former,
    /// No opening of a directory can have this number.
    Impossible,
}

impl PeerIncarnations {
    /// `seed` determines the numbers of questions, which other processes must not guess;
    /// `pause` is the time between two questions to a member.
    pub fn new(seed: u64, pause: Duration) -> PeerIncarnations {
        PeerIncarnations {
            newest: BTreeMap::new(),
            random: Random::from_seed(seed),
            pause,
        }
    }

    /// Takes the incarnation that a message names for the newest, unless a later one is known.
    pub fn enter(&mut self, member: u64, incarnation: u64) -> Judged {
        // Incarnations are openings, which have 32 bits.
        if u32::try_from(incarnation).is_err() {
            return Judged::Impossible;
        }
        let known = self.newest.get_mut(&member);
        let judged = match &known {
            None => Judged::First,
            Some(newest) if newest.incarnation == incarnation => return Judged::Current,
            Some(newest) if newest.incarnation > incarnation => return Judged::Former,
            Some(_) => Judged::Later,
        };
        let asked_at = known.and_then(|newest| newest.asked_at);
        let newest = Newest {
            incarnation,
            is_confirmed: false,
            // An answer to an earlier question may be of an incarnation before this one.
            question: None,
            asked_at,
        };
        self.newest.insert(member, newest);
        judged
    }

    /// Returns the number of a question to the member, if the member has not confirmed its
    /// newest known incarnation and the pause since the last question is over.
    pub fn question(&mut self, member: u64, now: Instant) -> Option<u64> {
        let newest = self.newest.get_mut(&member)?;
        let is_early = newest.asked_at.is_some_and(|at| now < at + self.pause);
        if newest.is_confirmed || is_early {
            return None;
        }
        newest.asked_at = Some(now);
        let random = &mut self.random;
        Some(*newest.question.get_or_insert_with(|| random.next_u64()))
    }

    /// Takes the member's answer to a question, and returns whether it is in another incarnation than
    /// the newest known one. An answer with another number than the question's is ignored.
    pub fn confirm(&mut self, member: u64, question: u64, incarnation: u64) -> bool {
        let Some(newest) = self.newest.get_mut(&member) else {
            return false;
        };
        if newest.question != Some(question) || u32::try_from(incarnation).is_err() {
            return false;
        }
        newest.question = None;
        newest.is_confirmed = true;
        std::mem::replace(&mut newest.incarnation, incarnation) != incarnation
    }
}

/// The incarnation with which an answer was signed; 0 if it was not signed.
pub(super) fn signed(context: &[u8]) -> u64 {
    context.try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    fn incarnations() -> PeerIncarnations {
        PeerIncarnations::new(1, PAUSE)
    }

    #[test]
    fn a_message_of_a_former_incarnation_does_not_count() {
        let mut known = incarnations();
        assert_eq!(known.enter(2, 3), Judged::First);
        assert_eq!(known.enter(2, 3), Judged::Current);
        assert_eq!(known.enter(2, 4), Judged::Later);
        assert_eq!(known.enter(2, 3), Judged::Former);
        assert_eq!(known.enter(1, 1), Judged::First, "another member's");
    }

    #[test]
    fn a_number_that_no_opening_can_have_is_no_incarnation() {
        let mut known = incarnations();
        for incarnation in [1 << 32, u64::MAX] {
            assert_eq!(known.enter(2, incarnation), Judged::Impossible);
        }
        assert_eq!(known.enter(2, u64::from(u32::MAX)), Judged::First);
    }

    #[test]
    fn the_answer_of_the_member_itself_replaces_one_that_never_existed() {
        let mut known = incarnations();
        known.enter(2, 5);
        known.enter(2, 1000);
        assert_eq!(known.enter(2, 5), Judged::Former);
        let question = known.question(2, Instant::default()).unwrap();
        assert!(
            known.confirm(2, question, 5),
            "another incarnation was the newest known"
        );
        assert_eq!(known.enter(2, 5), Judged::Current);
        assert_eq!(
            known.question(2, Instant::default() + PAUSE),
            None,
            "confirmed"
        );
    }

    #[test]
    fn an_answer_that_was_not_asked_for_confirms_nothing() {
        let mut known = incarnations();
        assert!(!known.confirm(2, 0, 7), "an unknown member");
        known.enter(2, 5);
        assert!(!known.confirm(2, 0, 7), "no question was asked");
        let question = known.question(2, Instant::default()).unwrap();
        assert!(!known.confirm(2, question ^ 1, 7));
        assert!(
            !known.confirm(2, question, 1 << 40),
            "no incarnation has this number"
        );
        assert!(!known.confirm(2, question, 5));
        assert!(!known.confirm(2, question, 7), "it is answered");
        assert_eq!(known.enter(2, 5), Judged::Current);
    }

    /// The member ended in between, and its successor was heard first.
    #[test]
    fn an_answer_of_the_incarnation_before_a_later_one_confirms_nothing() {
        let mut known = incarnations();
        known.enter(2, 5);
        let question = known.question(2, Instant::default()).unwrap();
        assert_eq!(known.enter(2, 6), Judged::Later);
        assert!(!known.confirm(2, question, 5));
        assert_eq!(known.enter(2, 5), Judged::Former);
    }

    #[test]
    fn questions_are_asked_with_pauses_and_repeated() {
        let mut known = incarnations();
        let now = Instant::default();
        assert_eq!(known.question(2, now), None, "an unknown member");
        known.enter(2, 5);
        let question = known.question(2, now);
        assert!(question.is_some());
        assert_eq!(known.question(2, now), None);
        assert_eq!(known.question(2, now + PAUSE), question);
        known.enter(2, 6);
        assert_eq!(known.question(2, now + PAUSE), None);
        assert_ne!(known.question(2, now + PAUSE * 2), question);
    }

    #[test]
    fn an_answer_without_a_signature_is_of_incarnation_0() {
        assert_eq!(signed(&7u64.to_le_bytes()), 7);
        assert_eq!(signed(&[]), 0);
        assert_eq!(signed(b"something else"), 0);
    }
}
