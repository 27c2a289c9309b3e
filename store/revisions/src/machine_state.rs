//! State that the machine shares with its readers: apply writes it, request tasks read it.
//!
//! The lock of `applied` is held for lookups and for absorbing a batch, never while waiting or
//! while another lock is taken.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use auth::Auth;
use bytes::Bytes;
use engine::Engine;
use environment::Mutex;

use crate::alarm::Alarms;
use crate::apply::{AppliedState, LastAbsorbed};
use crate::hash::CompactedHashes;
use crate::member::Members;
use crate::overlay::Overlay;
use crate::published_users::PublishedUsers;
use crate::source::SourceCluster;
use crate::{Options, WatchHub, checkpoint};

/// Bytes that are reserved in a batch for state records of earlier commands.
const STATE_RECORDS_BYTES: u64 = 4096;

/// The state that apply writes and request tasks read.
#[derive(Debug)]
pub(crate) struct MachineState {
    pub engine: Engine,
    applied: Mutex<AppliedState>,
    pub hub: Arc<WatchHub>,
    /// The applied users, for request tasks.
    pub users: PublishedUsers,
    pub compacted_hashes: CompactedHashes,
    pub options: Options,
    /// Bytes in the log's segments at the last measurement, and those that were applied since.
    used_bytes: AtomicU64,
    /// The empty overlay of request tasks.
    pub no_overlay: Overlay,
}

/// The state after all evaluated commands.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    /// Newest revision.
    pub revision: i64,
    /// Newest compaction; -1 before the first.
    pub compacted: i64,
    /// Raised alarms.
    pub alarms: Alarms,
    pub members: Arc<Members>,
    pub auth: Arc<Auth>,
    /// The version that a downgrade goes to, while one is enabled.
    pub downgrade: Option<String>,
    /// The cluster that the store follows.
    pub source: Option<SourceCluster>,
}

impl MachineState {
    pub fn new(engine: Engine, mut applied: AppliedState, options: Options) -> MachineState {
        let recovered = engine.status();
        applied.last = LastAbsorbed {
            index: recovered.applied_index,
            term: recovered.applied_term,
            revision: recovered.revision,
        };
        let state = MachineState {
            hub: Arc::new(WatchHub::new(engine.clone(), options.watch)),
            engine,
            users: PublishedUsers::default(),
            applied: Mutex::new(applied),
            compacted_hashes: CompactedHashes::default(),
            options,
            used_bytes: AtomicU64::new(0),
            no_overlay: Overlay::default(),
        };
        state.update_used_bytes();
        state.publish_users();
        state
    }

    /// Locks leases, alarms, compaction and members. The guard must be held briefly.
    pub fn applied(&self) -> MutexGuard<'_, AppliedState> {
        self.applied.lock()
    }

    /// Makes the applied users readable.
    pub fn publish_users(&self) {
        self.users.publish(&self.applied().auth);
    }

    /// Whether there is such a lease after the pending effects.
    pub fn lease_exists(&self, overlay: &Overlay, id: i64) -> bool {
        let pending = overlay.lease(id);
        pending.unwrap_or_else(|| self.applied().lessor.contains(id))
    }

    /// The keys that are attached to a lease after the pending effects, ascending.
    pub fn keys_of_lease(&self, overlay: &Overlay, lease: i64) -> BTreeSet<Bytes> {
        let mut keys = self.applied().lessor.keys(lease);
        keys.retain(|key| overlay.get(key, i64::MAX).is_none());
        keys.extend(overlay.keys_of_lease(lease).cloned());
        keys
    }

    /// Bytes that count against the quota.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Most log bytes of one command's changes without its deletions: half of a batch, so that a
    /// batch which is not full has room for any command. A batch is half a segment at most, and
    /// segments may be smaller than the options say, because a directory keeps the segment size
    /// it was created with.
    pub fn command_bytes_max(&self) -> u64 {
        let half_segment_bytes = self.engine.batch_log_bytes_max() / 2;
        self.options.engine.batch_bytes_max.min(half_segment_bytes) / 2
    }

    /// Most log bytes of one command's changes with its deletions: the part of a segment that a
    /// batch which is not full leaves free. It does not depend on the options, so that a lease
    /// that was filled up to this limit can end after the options have changed.
    pub fn deletion_bytes_max(&self) -> u64 {
        self.engine.batch_log_bytes_max() / 4 * 3 - STATE_RECORDS_BYTES
    }

    pub fn update_used_bytes(&self) {
        self.used_bytes
            .store(self.engine.status().log_bytes, Ordering::Relaxed);
    }

    /// Adds written bytes to the used bytes until the next measurement.
    pub fn count_used(&self, bytes: u64) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The state after all applied batches.
    pub fn decided(&self) -> Decided {
        let revision = self.engine.snapshot().revision();
        let applied = self.applied();
        Decided {
            revision,
            compacted: applied.compacted,
            alarms: applied.alarms.clone(),
            members: Arc::clone(&applied.members),
            auth: Arc::clone(&applied.auth),
            downgrade: applied.downgrade.clone(),
            source: applied.source.clone(),
        }
    }

    /// Encodes the state that a checkpoint keeps besides keys.
    pub fn checkpoint_state(&self) -> Vec<u8> {
        let revision = self.engine.snapshot().revision();
        checkpoint::encode(&self.applied(), revision)
    }
}
