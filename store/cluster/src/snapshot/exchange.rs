//! The state that the replica shares with a sender on another thread.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::lock::lock;

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

/// State of one transfer: the member's last report, and the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransferState {
    /// Number of the member's reports so far.
    pub reports: u64,
    pub last: ImportReport,
    /// Set when the member or the replica ends the transfer.
    pub over: Option<Result<(), String>>,
    /// The outcome, set by the sender when it has ended.
    ended: Option<Result<(), String>>,
}

/// The shared state of one transfer.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    state: Mutex<TransferState>,
    changed: Condvar,
}

impl Exchange {
    /// Notes a report of the member.
    pub fn report(&self, report: ImportReport) {
        let mut state = lock(&self.state);
        state.reports += 1;
        state.last = report;
        drop(state);
        self.changed.notify_all();
    }

    /// Asks the sender to end with this outcome; the first call decides.
    pub fn stop(&self, outcome: Result<(), String>) {
        lock(&self.state).over.get_or_insert(outcome);
        self.changed.notify_all();
    }

    pub fn transfer(&self) -> TransferState {
        lock(&self.state).clone()
    }

    /// Returns when there are other than `reports` reports, when the sender has to end, or after
    /// `patience`.
    pub fn wait(&self, reports: u64, patience: Duration) {
        let state = lock(&self.state);
        let nothing = |state: &mut TransferState| state.reports == reports && state.over.is_none();
        drop(self.changed.wait_timeout_while(state, patience, nothing));
    }

    /// Notes that the sender has ended; the first outcome counts.
    pub fn end(&self, outcome: Result<(), String>) {
        lock(&self.state).ended.get_or_insert(outcome);
    }

    /// The outcome, if the sender has ended.
    pub fn ended(&self) -> Option<Result<(), String>> {
        lock(&self.state).ended.clone()
    }
}
