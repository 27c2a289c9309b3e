//! The state that the replica shares with a sender on another thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A member's report on its import of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Number of the piece that the member wants next.
    pub wanted: u64,
    /// Number of pieces that the member has written. Falls to 0 when its import restarts.
    pub written: u64,
    /// The last piece that arrived was not the one that the member wanted.
    pub out_of_order: bool,
}

/// The member's last report, and the end of the transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiverState {
    /// Number of the member's reports so far.
    pub reports: u64,
    pub last: ImportReport,
    /// Set when the member or the replica ends the transfer.
    pub over: Option<Result<(), String>>,
}

#[derive(Debug, Default)]
struct State {
    receiver: ReceiverState,
    /// The outcome, set by the sender when it has ended.
    ended: Option<Result<(), String>>,
}

/// The shared state of one transfer.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    state: Mutex<State>,
    changed: Condvar,
}

impl Exchange {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a report of the member.
    pub fn report(&self, report: ImportReport) {
        let mut state = self.lock();
        state.receiver.reports += 1;
        state.receiver.last = report;
        drop(state);
        self.changed.notify_all();
    }

    /// Asks the sender to end with this outcome; the first call decides.
    pub fn stop(&self, outcome: Result<(), String>) {
        self.lock().receiver.over.get_or_insert(outcome);
        self.changed.notify_all();
    }

    pub fn receiver(&self) -> ReceiverState {
        self.lock().receiver.clone()
    }

    /// Returns when there are other than `reports` reports, when the sender has to end, or after
    /// `patience`.
    pub fn wait(&self, reports: u64, patience: Duration) {
        let state = self.lock();
        let nothing =
            |state: &mut State| state.receiver.reports == reports && state.receiver.over.is_none();
        drop(self.changed.wait_timeout_while(state, patience, nothing));
    }

    /// Notes that the sender has ended; the first outcome counts.
    pub fn end(&self, outcome: Result<(), String>) {
        self.lock().ended.get_or_insert(outcome);
    }

    /// The outcome, if the sender has ended.
    pub fn ended(&self) -> Option<Result<(), String>> {
        self.lock().ended.clone()
    }
}
