//! Fills a new directory from a file of etcd.
//!
//! ```text
//!   file ──► state ──► checkpoint's blob ─┐
//!     └──► versions by key ──► pieces ────┴─► import ──► install, as a member's snapshot
//! ```
//!
//! Every founder of the cluster does the same with the same file, and has the same state at the same
//! entry of its log afterwards: the one behind those that add the founders.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use auth::Auth;
use bolt::DatabaseFile;
use bytes::Bytes;
use engine::{Commitment, Import, ImportNotice, KeyChange, PieceWriter, Revision, SnapshotInfo};
use environment::{Clock, Disk};
use etcd_snapshot::{FileState, FileVersion, SortedVersions};

use crate::alarm::Alarm;
use crate::apply::AppliedState;
use crate::decide::TTL_MAX_SECONDS;
use crate::{Error, Machine, Options, Reader, checkpoint, foreign_users};

/// Bytes of a piece.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of pieces that wait to be written.
const QUEUED_BYTES_MAX: u64 = 16 << 20;
/// Longest time without a look at the progress of an import.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Largest revision of keys that is taken over: changes that follow need room
/// above it.
const REVISION_MAX: i64 = 1 << 62;
/// Raft's term of the state.
pub(crate) const TERM: u64 = 1;

/// Why a file was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The file cannot be read, or is not what etcd writes.
    #[error(transparent)]
    File(#[from] etcd_snapshot::Error),
    /// The log beside it cannot be read, or is not what etcd writes.
    #[error(transparent)]
    Log(#[from] etcd_wal::Error),
    /// The directory cannot be written.
    #[error(transparent)]
    Directory(#[from] Error),
    /// The file contradicts itself.
    #[error("the file cannot be restored: {0}")]
    Unfit(String),
    /// The versions were refused, or there is no room for them.
    #[error("the versions cannot be written: {0}; a large value may need a larger --segment-bytes")]
    Import(Arc<engine::Error>),
}

impl From<engine::Error> for RestoreError {
    fn from(error: engine::Error) -> RestoreError {
        RestoreError::Directory(error.into())
    }
}

/// Revisions of a restored store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The newest.
    pub revision: i64,
    /// The newest compaction; -1: none.
    pub compacted: i64,
    /// Number of versions.
    pub versions: usize,
}

/// Changes of revisions during a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevisionBump {
    /// Added to the newest revision. If it is not 0, all before is compacted, so that no client takes
    /// a later revision for one that it has seen.
    pub revisions: i64,
}

/// Fills a directory that has nothing in it. `options.initial_members` are the founders of the new
/// cluster. `progress` gets the bytes of rows as they are read, all of them twice, and tells whether to
/// go on.
///
/// A failure leaves a directory that must be removed.
pub fn restore(
    disk: Arc<dyn Disk>,
    directory: &Path,
    options: Options,
    clock: Arc<dyn Clock>,
    source: (&DatabaseFile, RevisionBump),
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Restored, RestoreError> {
    let (mut machine, _reader, restored) = fill(disk, directory, options, clock, source, progress)?;
    machine.close()?;
    Ok(restored)
}

/// [`restore`] with the machine, which does not lead.
pub(crate) fn fill(
    disk: Arc<dyn Disk>,
    directory: &Path,
    mut options: Options,
    clock: Arc<dyn Clock>,
    (file, bump): (&DatabaseFile, RevisionBump),
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(Machine, Reader, Restored), RestoreError> {
    let mut state = FileState::read(file)?;
    let compacted_before = state.compacted;
    let compacted = |newest: i64| match bump.revisions {
        0 => compacted_before,
        revisions => newest.saturating_add(revisions),
    };
    let sorted = SortedVersions::read(file, compacted, &mut *progress)?;
    if bump.revisions > 0 {
        state.compacted = sorted.revision();
    }
    if sorted.revision() > REVISION_MAX {
        let revision = sorted.revision();
        return Err(RestoreError::Unfit(format!(
            "its newest revision would be {revision}, and {REVISION_MAX} is the largest"
        )));
    }
    let index = options.initial_members.len() as u64 + 1;
    options.engine.commitment = Commitment::Quorum;
    let (mut machine, reader, _recovered) =
        Machine::open(disk, directory, options, Arc::clone(&clock))?;
    let mut applied = applied_state(&machine, &state, clock)?;
    attach(&machine, &mut applied, &sorted)?;
    let blob = checkpoint::encode(&applied, sorted.revision());
    let info = SnapshotInfo {
        id: 0,
        index,
        term: TERM,
        revision: sorted.revision(),
        compacted: state.compacted,
    };
    let import = import(
        &machine,
        PieceWriter::new(info, &blob, PIECE_BYTES),
        &sorted,
        progress,
    )?;
    machine.install(import)?;
    let restored = Restored {
        revision: sorted.revision(),
        compacted: state.compacted,
        versions: sorted.count(),
    };
    Ok((machine, reader, restored))
}

/// The state for the checkpoint of a member, without keys. The members are those of the new cluster.
fn applied_state(
    machine: &Machine,
    state: &FileState,
    clock: Arc<dyn Clock>,
) -> Result<AppliedState, RestoreError> {
    let mut applied = AppliedState::new(clock);
    applied.members = Arc::clone(&machine.shared.applied().members);
    applied.compacted = state.compacted;
    applied.downgrade = state.downgrade.clone();
    let ttl_min_seconds = machine.shared.options.lease_ttl_min_seconds;
    for lease in &state.leases {
        if !applied.lessor.contains(lease.id) {
            let ttl_seconds = lease.ttl_seconds.clamp(ttl_min_seconds, TTL_MAX_SECONDS);
            applied.lessor.grant(lease.id, ttl_seconds);
        }
    }
    for alarm in &state.alarms {
        let alarm = Alarm {
            kind: alarm.alarm,
            member_id: alarm.member_id,
        };
        applied.alarms.change(alarm, true);
    }
    applied.auth = Arc::new(users_of(state)?);
    Ok(applied)
}

/// Attaches keys to their leases. A lease of which the keys could not be deleted at once would never end.
fn attach(
    machine: &Machine,
    applied: &mut AppliedState,
    sorted: &SortedVersions<'_>,
) -> Result<(), RestoreError> {
    let bytes_max = machine.shared.deletion_bytes_max();
    for (key, lease) in sorted.leased() {
        if !applied.lessor.contains(lease) {
            continue;
        }
        applied.lessor.attach(Bytes::copy_from_slice(key), lease);
        if applied.lessor.deletion_bytes(lease) > bytes_max {
            return Err(RestoreError::Unfit(format!(
                "lease {lease:016x} has more keys than the log can delete at once, {bytes_max} bytes of \
                 log: name a larger --segment-bytes, or split the lease before the snapshot"
            )));
        }
    }
    Ok(())
}

fn users_of(state: &FileState) -> Result<Auth, RestoreError> {
    let (users, roles) = (&state.users, &state.roles);
    let auth = foreign_users::users_of(state.has_auth, state.auth_revision, users, roles);
    auth.map_err(|what| RestoreError::Unfit(format!("its users and roles have {what}")))
}

/// A look at the import, when it has written a piece.
#[derive(Debug, Default)]
struct Written {
    /// Whether there was news since the last look.
    news: Mutex<bool>,
    changed: Condvar,
}

impl Written {
    fn note(&self) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(news, LOOK_EVERY, |news| !*news);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// Hands all versions to an import, and waits until it is complete.
fn import(
    machine: &Machine,
    mut pieces: PieceWriter,
    sorted: &SortedVersions<'_>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Import, RestoreError> {
    let written = Arc::new(Written::default());
    let noting = Arc::clone(&written);
    let notice: ImportNotice = Box::new(move || noting.note());
    let mut import = machine.import(notice)?;
    let mut give = |pieces: &mut dyn Iterator<Item = Bytes>| -> Result<(), RestoreError> {
        for piece in pieces {
            import.offer(piece)?;
            while import_progress(&import)?.0 > QUEUED_BYTES_MAX {
                written.wait();
            }
        }
        Ok(())
    };
    for version in sorted.versions() {
        let change = change_of(version?, progress)?;
        let stored = pieces.version(&change);
        stored.map_err(|what| unfit_version(&change, &what))?;
        give(&mut pieces.ready())?;
    }
    for version in sorted.hidden() {
        let change = change_of(version?, progress)?;
        let stored = pieces.hidden(&change);
        stored.map_err(|what| unfit_version(&change, &what))?;
        give(&mut pieces.ready())?;
    }
    give(&mut pieces.finish().into_iter())?;
    while !import_progress(&import)?.1 {
        written.wait();
    }
    Ok(import)
}

/// Bytes that wait, and whether all is written.
fn import_progress(import: &Import) -> Result<(u64, bool), RestoreError> {
    let progress = import.progress();
    let progress = progress.map_err(RestoreError::Import)?;
    Ok((progress.queued_bytes, progress.complete))
}

fn unfit_version(change: &KeyChange, what: &str) -> RestoreError {
    let Revision { main, sub } = change.revision;
    RestoreError::Unfit(format!("the version of revision {main}.{sub}: {what}"))
}

fn change_of(
    version: FileVersion,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<KeyChange, etcd_snapshot::Error> {
    if !progress(version.kv.len() as u64) {
        return Err(etcd_snapshot::Error::Interrupted);
    }
    Ok(KeyChange {
        revision: Revision {
            main: version.row.main,
            sub: version.row.sub,
        },
        tombstone: version.row.is_deletion,
        key: version.key,
        kv: version.kv,
        created: version.created,
        version: version.version,
        lease: version.lease,
    })
}
