//! Evaluation: computes the effects of a command on the state after all earlier commands.
//!
//! ```text
//!            base                 base + 1, sub 0..n
//!   ──── decided before ────►│ this command's changes
//!                            │
//!   checks read here ────────┘   ranges of a transaction read here, once
//!                                something in it has been written
//! ```
//!
//! All changes of one command share one main revision, the one after `base`;
//! a command that changes nothing takes none. All checks come before the first write. If a value
//! turns out to be unreadable after that, the changes of the command are undone.

use std::collections::BTreeSet;

use bytes::Bytes;
use engine::{KeyChange, Revision, Snapshot};
use etcd_api::Error as Refusal;
use etcd_api::Fields;
use etcd_api::etcdserverpb::{DeleteRangeRequest, DeleteRangeResponse};

use crate::Error;
use crate::header::header;
use crate::key_range::KeyRange;
use crate::key_value::{deletion_bytes, encode, log_bytes};
use crate::machine_state::MachineState;
use crate::overlay::Overlay;
use crate::read_budget::ReadBudget;
use crate::view::{Direction, KeyVersion, View};

/// The evaluation of one command that changes keys.
pub(crate) struct Evaluation<'m> {
    pub shared: &'m MachineState,
    snapshot: Snapshot,
    overlay: &'m mut Overlay,
    /// Newest revision before this command.
    pub base: i64,
    compacted: i64,
    budget: ReadBudget,
    /// Changes of the command so far, which are in the overlay too.
    changes: Vec<KeyChange>,
    /// Log bytes of `changes`.
    changed_bytes: u64,
}

impl<'m> Evaluation<'m> {
    /// Begins on the newest applied state and the overlay, which hold what was decided up to
    /// revision `base`.
    pub fn begin(
        shared: &'m MachineState,
        overlay: &'m mut Overlay,
        base: i64,
        compacted: i64,
    ) -> Evaluation<'m> {
        let snapshot = shared.engine.snapshot();
        assert!(
            snapshot.revision() <= base,
            "applied {} beyond what was decided, {base}",
            snapshot.revision()
        );
        Evaluation {
            snapshot,
            shared,
            overlay,
            base,
            compacted,
            budget: ReadBudget::new(),
            changes: Vec::new(),
            changed_bytes: 0,
        }
    }

    /// The outcome and all changes; after a failure there are none, in the overlay neither.
    pub fn end<T>(self, outcome: Result<T, Error>) -> Result<(T, Vec<KeyChange>), Error> {
        let fitting = outcome.and_then(|outcome| {
            self.check_size()?;
            Ok(outcome)
        });
        match fitting {
            Ok(outcome) => Ok((outcome, self.changes)),
            Err(error) => {
                self.take_back();
                Err(error)
            }
        }
    }

    /// Refuses a command that is too large for a batch, so that it does not fail the other
    /// commands of its batch.
    fn check_size(&self) -> Result<(), Error> {
        let kept = self.changes.iter().filter(|change| !change.tombstone);
        check_fits(log_bytes(kept), self.shared.command_bytes_max())?;
        self.check_deletion_size()
    }

    /// Refuses a deletion as soon as it exceeds the limit of one command, before it has visited
    /// its whole range.
    pub fn check_deletion_size(&self) -> Result<(), Error> {
        check_fits(self.changed_bytes, self.shared.deletion_bytes_max())
    }

    /// Most keys that one command can delete, however short they are.
    pub fn deletions_max(&self) -> usize {
        (self.shared.deletion_bytes_max() / deletion_bytes(b"k")) as usize
    }

    /// Returns whether the command has changed nothing yet.
    pub fn is_untouched(&self) -> bool {
        self.changes.is_empty()
    }

    /// The revision at which this command reads.
    pub fn now(&self) -> i64 {
        self.base + i64::from(!self.is_untouched())
    }

    /// All keys, this command's own changes included.
    pub fn view(&self) -> View<'_> {
        View {
            engine: &self.shared.engine,
            snapshot: &self.snapshot,
            overlay: self.overlay,
            revision: self.now(),
            compacted: self.compacted,
            budget: Some(&self.budget),
        }
    }

    /// Reads the key at the current revision of this command.
    pub fn fetch(&self, key: &[u8]) -> Result<Option<KeyVersion>, Error> {
        self.view().fetch(key, self.now())
    }

    /// Reads all keys of a range at the current revision of this command.
    pub fn fetch_all(&self, range: KeyRange<'_>) -> Result<Vec<KeyVersion>, Error> {
        self.view().fetch_all(range, self.now())
    }

    /// The number of this command's next change.
    pub fn next_revision(&self) -> Revision {
        let sub = i64::try_from(self.changes.len()).expect("changes fit in memory");
        Revision {
            main: self.base + 1,
            sub,
        }
    }

    /// Changes a key.
    pub fn write(&mut self, change: KeyChange) {
        assert_eq!(
            change.revision,
            self.next_revision(),
            "changes are numbered in order"
        );
        self.overlay.push(change.clone());
        self.changed_bytes += change.log_bytes();
        self.changes.push(change);
    }

    /// Checks that the lease exists after all pending effects.
    pub fn check_lease(&self, lease: i64) -> Result<(), Refusal> {
        if lease == 0 || self.shared.lease_exists(self.overlay, lease) {
            Ok(())
        } else {
            Err(Refusal::LeaseNotFound)
        }
    }

    /// Checks that one more key can be attached to the lease. Ending a lease deletes all its keys
    /// in one batch, so a key that would not fit is refused now. All pending versions count, and
    /// those that replace an applied version count twice: a nearly full lease may refuse a little
    /// early while writes are under way, but never too late.
    pub fn check_lease_room(&self, lease: i64, key: &[u8]) -> Result<(), Error> {
        let applied_bytes = self.shared.applied().lessor.deletion_bytes(lease);
        let pending_bytes = self.overlay.deletion_bytes(lease);
        let bytes = applied_bytes + pending_bytes + deletion_bytes(key);
        let bytes_max = self.shared.deletion_bytes_max();
        if bytes > bytes_max {
            return Err(Error::LeaseFull {
                lease,
                bytes,
                bytes_max,
            });
        }
        Ok(())
    }

    /// The keys that are attached to a lease after all pending effects, ascending.
    pub fn keys_of_lease(&self, lease: i64) -> BTreeSet<Bytes> {
        self.shared.keys_of_lease(self.overlay, lease)
    }

    fn take_back(self) {
        for change in self.changes.iter().rev() {
            self.overlay.pop(&change.key);
        }
    }

    /// Deletes a key or a range. If no key exists, nothing changes and no revision is taken.
    pub fn delete_range(
        &mut self,
        request: &DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Error> {
        let keys = KeyRange::of_request(&request.key, &request.range_end);
        let prev_kvs = match request.prev_kv {
            true => self
                .fetch_all(keys)?
                .into_iter()
                .map(|version| version.encoded)
                .collect(),
            false => Vec::new(),
        };
        // One key more than a command can delete is enough to refuse it.
        let limit = self.deletions_max() + 1;
        let found = self
            .view()
            .scan(keys, self.now(), Direction::Ascending, limit);
        for found in &found {
            self.delete(found.key());
            self.check_deletion_size()?;
        }
        let deleted = i64::try_from(found.len()).expect("a count of keys in memory");
        Ok(DeleteRangeResponse {
            header: header(self.now()),
            deleted,
            prev_kvs,
        })
    }

    /// Deletes a live key.
    pub fn delete(&mut self, key: &[u8]) {
        let (key, kv) = encode(&Fields {
            key,
            ..Fields::default()
        });
        let revision = self.next_revision();
        self.write(KeyChange {
            revision,
            tombstone: true,
            key,
            kv,
            created: 0,
            version: 0,
            lease: 0,
        });
    }
}

fn check_fits(batch_bytes: u64, batch_bytes_max: u64) -> Result<(), Error> {
    if batch_bytes <= batch_bytes_max {
        return Ok(());
    }
    let too_large = engine::Error::TooLarge {
        batch_bytes,
        batch_bytes_max,
    };
    Err(too_large.into())
}
