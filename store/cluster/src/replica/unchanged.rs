//! Commands that were evaluated and change nothing. No entry is written for them.
//!
//! Another member may lead by now and have committed newer entries. So the answers wait
//! for a round of reads that begins after the evaluation: a member that still leads then
//! had all committed entries when it evaluated the commands. If this member loses its
//! leadership, the answers are dropped, and the askers try again at the new leader.

use std::collections::BTreeMap;

use super::{Answer, Replica};
use crate::{Error, ReadAsker};

/// Answers that wait for a round of reads.
#[derive(Debug, Default)]
pub(super) struct Unchanged {
    last_number: u64,
    /// By number: the index of the entry after which they were evaluated, and the answers.
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
    /// Lets the answers of a batch without changes, which was evaluated after entry `index`,
    /// wait until it is confirmed that this member led at that time.
    pub(super) fn confirm_unchanged(&mut self, answers: Vec<Answer>, index: u64) {
        let unchanged = &mut self.unchanged;
        unchanged.last_number += 1;
        let number = unchanged.last_number;
        unchanged.waiting.insert(number, (index, answers));
        let deadline = self.clock.now() + self.patience;
        self.reads.add(ReadAsker::Unchanged(number), deadline);
    }

    /// Gives the answers with this number, because their round of reads is confirmed.
    pub(super) fn give_unchanged(&mut self, number: u64) {
        if let Some((index, answers)) = self.unchanged.waiting.remove(&number) {
            self.give(answers, index);
        }
    }

    /// Fails the answers with this number, because their round of reads was not confirmed.
    pub(super) fn fail_unchanged(&mut self, number: u64, error: &Error) {
        if let Some((_, answers)) = self.unchanged.waiting.remove(&number) {
            self.fail_answers(answers, error);
        }
    }
}
