//! Writes the state of a stopped member as a file of etcd.

use std::io;
use std::path::Path;
use std::sync::Arc;

use environment::real::{RealClock, RealDisk};
use revisions::{Commitment, HeldState, Machine, Options, Reader};
use thiserror::Error;

/// Why no file was written.
#[derive(Debug, Error)]
pub enum SaveError {
    /// The directory cannot be opened or read.
    #[error(transparent)]
    Directory(#[from] revisions::Error),
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
    let (mut machine, mut reader, mut uncommitted) = open(directory, Commitment::Quorum)?;
    if uncommitted > 0 && is_only_voter(&reader) {
        // Its log alone is a majority.
        machine.close()?;
        drop((machine, reader));
        (machine, reader, uncommitted) = open(directory, Commitment::Alone)?;
    }
    let held = HeldState::of(&reader);
    let plan = held.plan(|| true)?;
    planned(plan.file_bytes());
    held.write(&plan, &mut |piece| output(piece).map_err(SaveError::Output))?;
    let revision = held.revision();
    drop(held);
    machine.close()?;
    Ok(Saved {
        revision,
        uncommitted,
    })
}

/// Also returns the number of entries that are not applied.
fn open(
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
