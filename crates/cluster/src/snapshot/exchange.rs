//! What the replica and a sender on another thread tell each other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The member's last word, and the replica's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// Words so far.
    pub words: u64,
    /// Number of the piece that the member wants next.
    pub wanted: u64,
    /// Pieces that it has written. Begins anew where its import does.
    pub written: u64,
    /// The last piece that came was not the one it wanted.
    pub out_of_order: bool,
    /// The member wants no more, or the replica does not want to go on.
    pub over: Option<Result<(), String>>,
}

#[derive(Debug, Default)]
struct State {
    heard: Heard,
    /// How it has ended, from the sender.
    ended: Option<Result<(), String>>,
}

/// One transfer's.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    state: Mutex<State>,
    word: Condvar,
}

impl Exchange {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The member says how far it has got.
    pub fn wanted(&self, wanted: u64, written: u64, out_of_order: bool) {
        let mut state = self.lock();
        let heard = &mut state.heard;
        heard.words += 1;
        (heard.wanted, heard.written) = (wanted, written);
        heard.out_of_order = out_of_order;
        drop(state);
        self.word.notify_all();
    }

    /// It is to end; the first reason counts.
    pub fn stop(&self, outcome: Result<(), String>) {
        self.lock().heard.over.get_or_insert(outcome);
        self.word.notify_all();
    }

    pub fn heard(&self) -> Heard {
        self.lock().heard.clone()
    }

    /// Returns after this many words, or when it is to end, or after `patience`.
    pub fn wait(&self, words: u64, patience: Duration) {
        let state = self.lock();
        let nothing = |state: &mut State| state.heard.words == words && state.heard.over.is_none();
        drop(self.word.wait_timeout_while(state, patience, nothing));
    }

    /// The sender has ended; the first outcome counts.
    pub fn end(&self, outcome: Result<(), String>) {
        self.lock().ended.get_or_insert(outcome);
    }

    /// How it has ended, if it has.
    pub fn ended(&self) -> Option<Result<(), String>> {
        self.lock().ended.clone()
    }
}
