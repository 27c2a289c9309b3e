//! The batch that is being filled, and those that are on their way to the disk.

use engine::{Batch, Change, KeyChange};

use crate::key_value::log_bytes;
use crate::member::MemberChange;
use crate::state::StateRecord;

/// Least estimate of the log bytes of a state record.
const STATE_RECORD_BYTES: u64 = 80;
/// Log bytes of a state record besides its payload.
const STATE_HEADER_BYTES: u64 = 40;

/// Effects of the commands evaluated since the last seal.
#[derive(Debug, Default)]
pub(crate) struct OpenBatch {
    pub changes: Vec<Change>,
    /// Estimated log bytes of the changes.
    pub bytes: u64,
    /// Whether the batch is a change of Raft's configuration, which has no other change beside it.
    pub changes_configuration: bool,
}

impl OpenBatch {
    pub fn extend(&mut self, changes: Vec<KeyChange>) {
        self.bytes += log_bytes(&changes);
        self.changes.extend(changes.into_iter().map(Change::Key));
    }

    pub fn push_state(&mut self, record: &StateRecord) {
        let change = record.encode();
        self.bytes += state_log_bytes(&change);
        self.changes.push(change);
    }

    pub fn push_member_change(&mut self, change: &MemberChange) {
        if change.changes_configuration() {
            assert!(
                self.changes.is_empty(),
                "a change of the configuration has a batch of its own: seal first"
            );
            self.changes_configuration = true;
        }
        self.push_state(&StateRecord::Member(change.clone()));
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A sealed batch that is not applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    pub term: u64,
    pub index: u64,
    /// About what it takes in the log.
    pub bytes: u64,
    pub changes_configuration: bool,
}

/// Estimates the log bytes of a batch.
pub(crate) fn log_bytes_of(batch: &Batch) -> u64 {
    let states: u64 = batch.changes.iter().map(state_log_bytes).sum();
    states + log_bytes(batch.keys())
}

/// Estimates the log bytes of a state record; 0 for a key.
fn state_log_bytes(change: &Change) -> u64 {
    match change {
        Change::Key(_) => 0,
        Change::State { payload, .. } => {
            STATE_RECORD_BYTES.max(STATE_HEADER_BYTES + payload.len() as u64)
        }
    }
}

impl StateRecord {
    /// About what the record takes in the log.
    pub fn log_bytes(&self) -> u64 {
        state_log_bytes(&self.encode())
    }
}
