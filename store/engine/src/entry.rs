//! The log as Raft sees it: entries, each a batch, and the hard state.
//!
//! ```text
//!   frames     [e7 t2][e8 t2][vote t3][e8 t3][e9 t3] ...
//!   entries      e7            ✗       e8     e9        the last of an index counts
//! ```
//!
//! The log is only ever appended to. An entry of an index that is there already
//! overrules that one and all behind it: Raft does that to entries that no
//! majority has seen. Raft decides which entries are committed, and the
//! *hard state* records it, with the term and the vote (Ongaro & Ousterhout,
//! "In Search of an Understandable Consensus Algorithm", figure 2).

use crate::Batch;
use crate::format::KIND_HARD_STATE;
use value_log::{Appended, Body, Position};

/// The part of Raft's state that a member must not lose in a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// Newest term it has seen.
    pub term: u64,
    /// Id of the member that it voted for in that term; 0: none.
    pub vote: u64,
    /// Newest entry it knew to be committed. A hint: it may lag behind.
    pub commit: u64,
}

pub(crate) const HARD_STATE_BYTES: usize = 24;

impl HardState {
    pub(crate) fn encode(&self) -> [[u8; 8]; 3] {
        [self.term, self.vote, self.commit].map(u64::to_le_bytes)
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<HardState> {
        let word = |number: usize| crate::format::u64_at(payload, number * 8);
        (payload.len() == HARD_STATE_BYTES).then(|| HardState {
            term: word(0),
            vote: word(1),
            commit: word(2),
        })
    }

    /// Merges the hard state of a record. A replay may bring records that are older than the
    /// checkpoint's hard state; these must change nothing.
    pub(crate) fn absorb(&mut self, other: HardState) {
        if other.term > self.term {
            (self.term, self.vote) = (other.term, other.vote);
        } else if other.term == self.term && other.vote != 0 {
            self.vote = other.vote;
        }
        self.commit = self.commit.max(other.commit);
    }
}

/// Where an entry lies in this member's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its index.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// Where its frame starts.
    pub start: Position,
    /// Bytes of its records.
    pub body_bytes: u64,
}

/// An entry that is in the log and was not known to be committed.
#[derive(Clone, Debug)]
pub struct Unapplied {
    /// What it changes.
    pub batch: Batch,
    /// Where it lies.
    pub appended: Appended,
    /// Its records as they were encoded.
    pub body: Body,
}

impl Unapplied {
    /// Its index, term and place in the log.
    pub fn entry(&self) -> Entry {
        Entry {
            index: self.batch.index,
            term: self.batch.term,
            start: self.appended.start,
            body_bytes: self.body.bytes().len() as u64,
        }
    }
}

/// Splits the body of an entry's frame: the entry's records, and the hard state that may
/// stand behind them.
pub(crate) fn without_hard_state(body: Body) -> (Body, Option<HardState>) {
    match body.split_last() {
        Some((rest, KIND_HARD_STATE, payload)) => (rest, HardState::decode(&payload)),
        _ => (body, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hard_state_comes_back_and_another_size_is_refused() {
        let state = HardState {
            term: 3,
            vote: u64::MAX,
            commit: 9,
        };
        assert_eq!(
            HardState::decode(state.encode().as_flattened()),
            Some(state)
        );
        assert_eq!(HardState::decode(&state.encode().as_flattened()[1..]), None);
    }

    #[test]
    fn a_vote_is_never_taken_back_within_its_term() {
        let state = |term, vote, commit| HardState { term, vote, commit };
        let mut now = state(5, 2, 9);
        now.absorb(state(4, 1, 7));
        assert_eq!(now, state(5, 2, 9), "an older one");
        now.absorb(state(5, 0, 10));
        assert_eq!(now, state(5, 2, 10), "before the vote");
        now.absorb(state(6, 0, 10));
        assert_eq!(now, state(6, 0, 10));
    }
}
