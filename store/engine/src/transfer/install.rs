//! The step from one state to another.
//!
//! ```text
//!   log      e1 ... e110 (some never committed) │ base: a hard state │ e5001 ...
//!   before   checkpoint n: old index, replays from an old entry
//!   step     rename snapshot.partial ─► checkpoint n
//!   after    checkpoint n: new index, replays from the base
//! ```
//!
//! The checkpoint of the new state takes the *name* of the old one, after all
//! older ones have gone: so there is always exactly one, and a later damage of
//! the new one never lets the old state rise again with entries that were never
//! committed. For the same reason the hard state in the base does not speak of
//! the snapshot's entries as committed; the checkpoint does.
//!
//! In memory the same order as always: first what readers find on the way
//! (generation, floor, books), then the trees, all at once.

use super::intake::Intake;
use super::{Import, SnapshotInfo};
use crate::checkpoint::files;
use crate::checkpoint::format::Head;
use crate::engine::Shared;
use crate::trees::{self, COMPACTION, OF_VERSIONS};
use crate::{Applier, Error, HardState};
use ordered_index::BulkLoad;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use value_log::Position;

/// Outcome of an installation: Raft's log is empty and begins behind `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Index of the last batch applied.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// Last main revision.
    pub revision: i64,
    /// The member's hard state: term and vote, the snapshot's term included, and the whole
    /// snapshot is committed.
    pub hard_state: HardState,
}

impl Applier {
    /// Replaces the whole state by a complete import, at once and for good.
    /// `check` sees its state blob first and may refuse it.
    ///
    /// After [`Error::InstallUnsettled`] the engine is closed, because it is unknown
    /// which of the two states lasts: the next opening finds out. After any
    /// other error the old state stays.
    pub fn install(
        &mut self,
        import: Import,
        check: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Installed, Error> {
        self.engine.0.check_open()?;
        let intake = import.into_intake()?;
        let info = intake.info;
        let applied = self.index.applied_index;
        if info.index <= applied {
            let index = info.index;
            return Err(Error::SnapshotOld { index, applied });
        }
        check(&intake.state)?;
        self.abandon_work();
        let shared = Arc::clone(&self.engine.0);
        let base = write_base(&shared, info)?;
        let head = head(&shared, info, base);
        intake.aside.write_head(&head)?;
        let number = keep_newest_checkpoint(&shared)?;
        let intake = self.settle(intake, number)?;
        self.switch(intake, &head);
        Ok(Installed {
            index: info.index,
            term: info.term,
            revision: info.revision,
            hard_state: *shared.books.hard_state(),
        })
    }

    /// The step from the old state to the new one.
    fn settle(&mut self, mut intake: Intake, number: u64) -> Result<Intake, Error> {
        let Err(error) = intake.aside.replace(number) else {
            return Ok(intake);
        };
        // Either state may last: both are left as they are.
        intake.leave();
        if let Err(error) = self.close() {
            tracing::warn!(%error, "closing after a failed installation");
        }
        Err(Error::InstallUnsettled {
            directory: self.engine.0.directory.clone(),
            reason: error.to_string(),
        })
    }

    fn switch(&mut self, mut intake: Intake, head: &Head) {
        let shared = Arc::clone(&self.engine.0);
        let (loads, live) = (
            std::mem::take(&mut intake.trees),
            std::mem::take(&mut intake.live),
        );
        let file_bytes = intake.leave();
        shared.generation.fetch_add(1, Ordering::AcqRel);
        shared.log_floor.fetch_max(head.log_floor, Ordering::AcqRel);
        shared.books.replace_state(live, head.hard_state);
        let index = &mut self.index;
        for (tree, load) in OF_VERSIONS.into_iter().zip(loads) {
            index.writer.install(tree, load);
        }
        index.writer.install(COMPACTION, BulkLoad::new());
        trees::set_compacted(&mut index.writer, head.compacted);
        shared.books.turnover().start(head.revision);
        index.revision = head.revision;
        index.compacted = head.compacted;
        index.applied_term = head.applied_term;
        index.applied_index = head.applied_index;
        index.applied_position = head.applied_position;
        index.publish(&shared);
        // A snapshot has no versions that its compaction would drop.
        self.sweep = None;
        self.swept = head.compacted;
        shared.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        let bytes = &shared.counters.checkpoint_bytes;
        bytes.fetch_add(file_bytes, Ordering::Relaxed);
        self.maintain_installed(head.replay_position, file_bytes);
    }
}

impl Intake {
    /// Keeps the files that it wrote; returns the bytes of the checkpoint.
    fn leave(self) -> u64 {
        let Intake {
            aside, relocation, ..
        } = self;
        let finished = relocation.finish();
        finished.expect("it is complete: nothing is left to do");
        aside.file_bytes()
    }
}

/// Writes the frame from which the log continues, and makes it stable; returns its place.
fn write_base(shared: &Shared, info: SnapshotInfo) -> Result<Position, Error> {
    let mut state = *shared.books.hard_state();
    state.absorb(HardState {
        term: info.term,
        ..HardState::default()
    });
    let appended = shared.append_hard_state(state)?;
    shared.log.wait_durable(appended.sequence)?;
    shared.log.settle()?;
    Ok(appended.start)
}

/// The moment of the new state, in this member's log.
fn head(shared: &Shared, info: SnapshotInfo, base: Position) -> Head {
    let mut hard_state = *shared.books.hard_state();
    hard_state.commit = hard_state.commit.max(info.index);
    Head {
        applied_term: info.term,
        applied_index: info.index,
        applied_position: base,
        replay_position: base,
        revision: info.revision,
        compacted: info.compacted,
        log_floor: info.revision + 1,
        hard_state,
    }
}

/// Removes all checkpoints but the newest, for good; returns its number.
fn keep_newest_checkpoint(shared: &Shared) -> Result<u64, Error> {
    let (disk, directory) = (&*shared.disk, &shared.directory);
    files::remove_old(disk, directory, 1)?;
    disk.sync_directory(directory)
        .map_err(Error::disk("sync", directory))?;
    files::newest(disk, directory)
}
