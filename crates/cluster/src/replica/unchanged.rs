//! Commands that were evaluated and change nothing: no entry is written for them.
//!
//! Another member may lead by now, and know better. So their answers wait for a
//! round of reads that begins after they were evaluated: whoever still leads then
//! knew all there was to know when they came. A new leader is asked again by
//! whoever asked; what was evaluated here is dropped.

use std::collections::BTreeMap;

use super::{Answer, Replica};
use crate::{Error, ReadAsker};

/// Answers that wait for a round of reads.
#[derive(Debug, Default)]
pub(super) struct Unchanged {
    last_number: u64,
    /// By number: the entry they were decided after, and the answers.
    waiting: BTreeMap<u64, (u64, Vec<Answer>)>,
}

impl Unchanged {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn take_all(&mut self) -> Vec<Answer> {
        let all = std::mem::take(&mut self.waiting).into_values();
        all.flat_map(|(_, answers)| answers).collect()
    }
}

impl Replica {
    /// Gives the answers of a batch without changes, decided after entry `index`,
    /// when it is certain that this member led meanwhile.
    pub(super) fn confirm_unchanged(&mut self, answers: Vec<Answer>, index: u64) {
        let unchanged = &mut self.unchanged;
        unchanged.last_number += 1;
        let number = unchanged.last_number;
        unchanged.waiting.insert(number, (index, answers));
        let deadline = self.clock.now() + self.patience;
        self.reads.add(ReadAsker::Unchanged(number), deadline);
    }

    /// The round is confirmed.
    pub(super) fn give_unchanged(&mut self, number: u64) {
        if let Some((index, answers)) = self.unchanged.waiting.remove(&number) {
            self.give(answers, index);
        }
    }

    /// The round has never come.
    pub(super) fn fail_unchanged(&mut self, number: u64, error: &Error) {
        if let Some((_, answers)) = self.unchanged.waiting.remove(&number) {
            self.fail_answers(answers, error);
        }
    }
}
