//! Writes the state of a stopped server as a file of etcd: of a member of Inkstone, or of an etcd,
//! from its database file and its write-ahead log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bolt::DatabaseFile;
use engine::SEGMENT_BYTES_MAX;
use environment::real::{RealClock, RealDisk};
use etcd_snapshot::FileStatus;
use etcd_wal::Tail;
pub use revisions::Replayed;
use revisions::{Commitment, HeldState, KeyValueHash, Machine, Options, Reader};
use thiserror::Error;

use crate::scratch::Scratch;

/// Why no file was written.
#[derive(Debug, Error)]
pub enum SaveError {
    /// The directory cannot be opened or read.
    #[error(transparent)]
    Directory(#[from] revisions::Error),
    /// The state of an etcd cannot be read.
    #[error(transparent)]
    Etcd(#[from] revisions::RestoreError),
    /// The directory for its state cannot be made.
    #[error("cannot make {}, which is needed until the file is written: {source}", path.display())]
    Scratch {
        /// The directory.
        path: PathBuf,
        source: io::Error,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Output(io::Error),
}

/// Contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The newest revision.
    pub revision: i64,
    /// Entries of the log that are left out: this member did not know that a majority has them.
    pub uncommitted: usize,
}

/// Writes everything that a stopped member has applied, piece by piece. `planned` gets the bytes of
/// the file first. The directory is locked while it is read, and recovered as by a start.
pub fn save_directory(
    directory: &Path,
    planned: impl FnOnce(u64),
    output: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<Saved, SaveError> {
    let (mut machine, reader, uncommitted) = open(directory)?;
    let held = HeldState::of(&reader);
    let revision = write(&held, planned, output)?;
    drop(held);
    machine.close()?;
    Ok(Saved {
        revision,
        uncommitted,
    })
}

/// The numbers of the file that [`save_directory`] would write, and what that would leave out.
pub fn directory_status(
    directory: &Path,
    planned: impl FnOnce(u64),
    progress: impl FnMut(u64),
) -> Result<(FileStatus, usize), revisions::Error> {
    let (mut machine, reader, uncommitted) = open(directory)?;
    let held = HeldState::of(&reader);
    let plan = held.plan(|| true)?;
    planned(plan.pages_bytes());
    let status = held.status(&plan, progress)?;
    drop(held);
    machine.close()?;
    Ok((status, uncommitted))
}

/// etcd's HashKV of a stopped member at a revision; 0: the newest. Also returns the number of entries
/// that are left out as by [`save_directory`].
pub fn directory_hash(
    directory: &Path,
    revision: i64,
) -> Result<(KeyValueHash, usize), revisions::Error> {
    let (mut machine, reader, uncommitted) = open(directory)?;
    let hash = reader.hash_kv(revision)?;
    machine.close()?;
    Ok((hash, uncommitted))
}

/// Returns the revision of the file.
fn write(
    held: &HeldState,
    planned: impl FnOnce(u64),
    output: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<i64, SaveError> {
    let plan = held.plan(|| true)?;
    planned(plan.file_bytes());
    held.write(&plan, &mut |piece| output(piece).map_err(SaveError::Output))?;
    Ok(held.revision())
}

/// A saved etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedEtcd {
    /// The newest revision.
    pub revision: i64,
    /// The requests of its log.
    pub replayed: Replayed,
}

/// Writes the state of an etcd that has stopped: its database file, and on top what its log asks for.
/// A new directory at `scratch` takes that state until the file is written. `restoring` gets the bytes
/// of rows as they are read, all of them twice, and tells whether to go on; then `planned` gets the
/// bytes of the file.
pub fn save_etcd(
    (file, tail): (&DatabaseFile, &Tail),
    scratch: &Path,
    restoring: &mut dyn FnMut(u64) -> bool,
    planned: impl FnOnce(u64),
    output: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<SavedEtcd, SaveError> {
    let scratch = Scratch::make(scratch).map_err(|source| SaveError::Scratch {
        path: scratch.to_owned(),
        source,
    })?;
    let (disk, clock) = (Arc::new(RealDisk), Arc::new(RealClock));
    let source = (file, tail);
    let mut options = Options::default();
    // An etcd may have larger requests than a member takes.
    options.engine.log.segment_bytes = SEGMENT_BYTES_MAX;
    options.engine.batch_bytes_max = SEGMENT_BYTES_MAX;
    let (mut machine, held, replayed) =
        revisions::replay_etcd(disk, scratch.path(), options, clock, source, restoring)?;
    let revision = write(&held, planned, output)?;
    drop(held);
    machine.close()?;
    Ok(SavedEtcd { revision, replayed })
}

/// Also returns the number of entries that are not applied.
fn open(directory: &Path) -> Result<(Machine, Reader, usize), revisions::Error> {
    let (mut machine, reader, uncommitted) = open_with(directory, Commitment::Quorum)?;
    if uncommitted == 0 || !is_only_voter(&reader) {
        return Ok((machine, reader, uncommitted));
    }
    // Its log alone is a majority.
    machine.close()?;
    drop((machine, reader));
    open_with(directory, Commitment::SoleVoter)
}

fn open_with(
    directory: &Path,
    commitment: Commitment,
) -> Result<(Machine, Reader, usize), revisions::Error> {
    let mut options = Options::default();
    options.engine.commitment = commitment;
    let (disk, clock) = (Arc::new(RealDisk), Arc::new(RealClock));
    let (machine, reader, recovered) = Machine::open(disk, directory, options, clock)?;
    Ok((machine, reader, recovered.unapplied.len()))
}

fn is_only_voter(reader: &Reader) -> bool {
    let members = reader.members();
    members.iter().filter(|member| !member.is_learner).count() == 1
}
