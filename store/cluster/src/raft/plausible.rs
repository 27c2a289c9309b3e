//! Refuses messages that no correct member sends, before the library gets them.
//!
//! The library trusts every message. A heartbeat of term 2^64-1 would end every member
//! that it reaches, and again after each restart, since the term is in the log by then. The
//! library adds to indexes, which could overflow; and it would commit entries that a
//! message confirms although this leader does not have them.
//!
//! | bound | why no correct member exceeds it |
//! |---|---|
//! | a term is at most [`TERM_AHEAD_MAX`] above this member's | each election adds one, and
//! a member adds none without a majority that grants its pre-vote: a member this far behind
//! was away for an election every two seconds of a year |
//! | a term is at most [`TERM_MAX`] | a hundred elections a second for three hundred years |
//! | an index is at most [`INDEX_MAX`] | a million entries a second for thirty thousand years |
//!
//! A member without a term waits for its cluster and does not know the cluster's term, so
//! only a fixed bound holds for it ([`FIRST_TERM_MAX`]).
//!
//! A message that passes may still be false. If members prove their identity by no secret,
//! another process can send whatever the member could send.

use raft::StateRole;
use raft::eraftpb::{Message, MessageType};

use super::view::View;
use crate::Error;

/// How far above this member's term a message's term may be.
const TERM_AHEAD_MAX: u64 = 1 << 24;
/// Largest term that a member accepts.
const TERM_MAX: u64 = 1 << 60;
/// Largest term that a member without a term accepts.
const FIRST_TERM_MAX: u64 = 1 << 40;
/// Largest index that a member accepts.
const INDEX_MAX: u64 = 1 << 60;

/// The part of a member's own state with which a message is compared.
#[derive(Clone, Copy, Debug)]
struct OwnState {
    term: u64,
    /// 0 if none is known.
    leader: u64,
    leads: bool,
    last_index: u64,
}

/// Fails with the reason if no correct member sends `message` to the member with this state.
pub(super) fn check(raft: &raft::Raft<View>, message: &Message) -> Result<(), String> {
    check_against(
        message,
        OwnState {
            term: raft.term,
            leader: raft.leader_id,
            leads: raft.state == StateRole::Leader,
            last_index: raft.raft_log.last_index(),
        },
    )
}

fn check_against(message: &Message, own: OwnState) -> Result<(), String> {
    check_numbers(message, own.term)?;
    check_contents(message)?;
    check_role(message, own)
}

/// Refuses a log with a false term, which a release without these bounds may have accepted.
pub(super) fn check_own_term(term: u64) -> Result<(), Error> {
    if term <= TERM_MAX {
        return Ok(());
    }
    Err(Error::Diverged(format!(
        "the log is at term {term}, which no cluster reaches by its own elections: a process \
         that is not a member has reached the peer port of an earlier release. Acknowledged \
         writes are intact, but no member can lead any more. If the other members still have a \
         leader, remove this member and add it again with an empty directory; otherwise begin a \
         new cluster from a backup"
    )))
}

fn check_numbers(message: &Message, own_term: u64) -> Result<(), String> {
    let term = message.term;
    let ahead_max = match own_term {
        0 => FIRST_TERM_MAX,
        _ => own_term.saturating_add(TERM_AHEAD_MAX).min(TERM_MAX),
    };
    if term == 0 || term > ahead_max {
        return Err(format!(
            "a member at term {own_term} accepts no term {term}"
        ));
    }
    for (name, older) in [
        ("log term", message.log_term),
        ("commit term", message.commit_term),
    ] {
        if older > term {
            return Err(format!("its {name} {older} is above its term {term}"));
        }
    }
    for (name, index) in [
        ("index", message.index),
        ("commit index", message.commit),
        ("hint", message.reject_hint),
        ("snapshot request", message.request_snapshot),
    ] {
        if index > INDEX_MAX {
            return Err(format!("its {name} {index} is above {INDEX_MAX}"));
        }
    }
    Ok(())
}

/// Refuses messages with fields that no member of this program fills.
fn check_contents(message: &Message) -> Result<(), String> {
    let kind = message.get_msg_type();
    if message.priority != 0 {
        return Err("it has a priority".into());
    }
    if message.request_snapshot != 0 && kind != MessageType::MsgAppendResponse {
        return Err(format!("a {kind:?} may not request a snapshot"));
    }
    if !message.entries.is_empty() && kind != MessageType::MsgAppend {
        return Err(format!("a {kind:?} may not carry entries"));
    }
    Ok(())
}

/// Refuses messages that only a leader may send, if the sender is not the leader, and
/// confirmations of entries that this leader does not have.
fn check_role(message: &Message, own: OwnState) -> Result<(), String> {
    let kind = message.get_msg_type();
    let is_leader = (message.term, message.from) == (own.term, own.leader);
    if kind == MessageType::MsgTimeoutNow && !is_leader {
        return Err("only the leader may ask a member to stand for election".into());
    }
    if message.term != own.term {
        return Ok(());
    }
    match kind {
        MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot
            if own.leader != 0 && own.leader != message.from =>
        {
            Err(format!(
                "it claims to lead term {}, which member {:x} leads",
                own.term, own.leader
            ))
        }
        MessageType::MsgAppendResponse
            if own.leads && !message.reject && message.index > own.last_index =>
        {
            Err(format!(
                "it confirms entry {}, and the log ends with entry {}",
                message.index, own.last_index
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: OwnState = OwnState {
        term: 5,
        leader: 2,
        leads: false,
        last_index: 40,
    };

    fn message(kind: MessageType) -> Message {
        let mut message = Message {
            from: 2,
            to: 1,
            term: 5,
            log_term: 4,
            index: 40,
            commit: 39,
            ..Message::default()
        };
        message.set_msg_type(kind);
        message
    }

    #[test]
    fn messages_of_correct_members_pass() {
        for kind in [
            MessageType::MsgAppend,
            MessageType::MsgAppendResponse,
            MessageType::MsgHeartbeat,
            MessageType::MsgHeartbeatResponse,
            MessageType::MsgTimeoutNow,
            MessageType::MsgRequestVote,
            MessageType::MsgRequestPreVote,
        ] {
            assert_eq!(check_against(&message(kind), OWN), Ok(()), "{kind:?}");
        }
    }

    #[test]
    fn terms_that_no_election_can_reach_are_refused() {
        let heartbeat = |term| Message {
            term,
            ..message(MessageType::MsgHeartbeat)
        };
        let behind = OwnState { term: 5, ..OWN };
        for (term, passes) in [
            (0, false),
            (5 + TERM_AHEAD_MAX, true),
            (6 + TERM_AHEAD_MAX, false),
            (u64::MAX, false),
        ] {
            assert_eq!(
                check_against(&heartbeat(term), behind).is_ok(),
                passes,
                "{term}"
            );
        }
        let fresh = OwnState { term: 0, ..OWN };
        assert_eq!(check_against(&heartbeat(FIRST_TERM_MAX), fresh), Ok(()));
        assert!(check_against(&heartbeat(FIRST_TERM_MAX + 1), fresh).is_err());
        let high = OwnState {
            term: TERM_MAX,
            ..OWN
        };
        assert!(check_against(&heartbeat(TERM_MAX + 1), high).is_err());
    }

    #[test]
    fn numbers_that_contradict_each_other_or_overflow_are_refused() {
        let broken: [fn(&mut Message); 8] = [
            |it| it.log_term = 6,
            |it| it.commit_term = 6,
            |it| it.index = u64::MAX,
            |it| it.commit = u64::MAX,
            |it| it.reject_hint = u64::MAX,
            |it| it.priority = -1,
            |it| it.request_snapshot = u64::MAX,
            |it| it.mut_entries().push(raft::eraftpb::Entry::default()),
        ];
        for (number, change) in broken.iter().enumerate() {
            let mut message = message(MessageType::MsgAppendResponse);
            change(&mut message);
            assert!(check_against(&message, OWN).is_err(), "{number}");
        }
    }

    #[test]
    fn a_second_leader_of_a_term_is_refused() {
        for kind in [MessageType::MsgAppend, MessageType::MsgHeartbeat] {
            let other = Message {
                from: 3,
                ..message(kind)
            };
            assert!(check_against(&other, OWN).is_err());
            let unknown = OwnState { leader: 0, ..OWN };
            assert_eq!(check_against(&other, unknown), Ok(()));
            let later = Message { term: 6, ..other };
            assert_eq!(check_against(&later, OWN), Ok(()));
        }
        let other = Message {
            from: 3,
            ..message(MessageType::MsgTimeoutNow)
        };
        assert!(check_against(&other, OWN).is_err());
    }

    #[test]
    fn a_leader_refuses_confirmations_of_entries_that_it_does_not_have() {
        let leader = OwnState {
            leader: 1,
            leads: true,
            ..OWN
        };
        let confirmed = |index| Message {
            index,
            ..message(MessageType::MsgAppendResponse)
        };
        assert_eq!(check_against(&confirmed(40), leader), Ok(()));
        assert!(check_against(&confirmed(41), leader).is_err());
    }

    #[test]
    fn the_error_for_a_log_with_a_false_term_names_the_remedy() {
        assert!(check_own_term(TERM_MAX).is_ok());
        let error = check_own_term(u64::MAX).unwrap_err().to_string();
        assert!(error.contains("the log is at term 18446744073709551615"));
        assert!(error.contains("remove this member and add it again"));
    }
}
