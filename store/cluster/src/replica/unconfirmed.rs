//! Answers of commands that were evaluated and change nothing. No entry is written for them.
//!
//! Another member may lead by now and have committed newer entries. So the answers wait
//! for a round of reads that begins after the evaluation: a member that still leads then
//! had all committed entries when it evaluated the commands. If this member loses its
//! leadership, the answers are dropped: a client of this member gets `leader changed`, and a
//! follower proposes the command again to the new leader.

use std::collections::BTreeMap;

use super::answer::Answer;

/// The answers of one batch without changes.
#[derive(Debug)]
pub(super) struct UnconfirmedBatch {
    /// Index of the entry after which the commands were evaluated.
    pub index: u64,
    pub answers: Vec<Answer>,
}

/// Answers that wait for a round of reads, by the number of their read.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed(BTreeMap<u64, UnconfirmedBatch>);

impl Unconfirmed {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, read: u64, batch: UnconfirmedBatch) {
        self.0.insert(read, batch);
    }

    /// Takes the answers that waited for this read.
    pub fn take(&mut self, read: u64) -> Option<UnconfirmedBatch> {
        self.0.remove(&read)
    }

    pub fn into_answers(self) -> impl Iterator<Item = Answer> {
        self.0.into_values().flat_map(|batch| batch.answers)
    }
}
