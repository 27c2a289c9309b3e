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
//! (generation, floor, accounting), then the trees, all at once.

use super::intake::Intake;
use super::{Import, SnapshotInfo};
use crate::accounting::Accounting;
use crate::applied::Applied;
use crate::checkpoint::files;
use crate::checkpoint::format::Head;
use crate::directory::Directory;
use crate::maintenance::Maintenance;
use crate::parts::Parts;
use crate::read::Records;
use crate::{Error, HardState};
use std::sync::Arc;
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

/// Replaces the whole state by a complete import; see [`crate::Applier::install`].
pub(crate) fn install(
    applied: &mut Applied,
    maintenance: &mut Maintenance,
    import: Import,
    check: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<Installed, Error> {
    let parts = Arc::clone(&applied.parts);
    parts.records.lifecycle.check_open()?;
    let intake = import.into_intake()?;
    let info = intake.info;
    let applied_index = applied.index.applied_index;
    if info.index <= applied_index {
        return Err(Error::SnapshotOld {
            index: info.index,
            applied: applied_index,
        });
    }
    check(&intake.state)?;
    maintenance.cancel(&parts.records.lifecycle);
    let log_view = &parts.records.log_view;
    let base = write_base(&parts.records, info)?;
    let head = head(&log_view.accounting, info, base);
    intake.checkpoint.write_head(&head)?;
    let number = keep_newest_checkpoint(&parts.directory)?;
    let intake = replace_checkpoint(&parts, maintenance, intake, number)?;
    let file_bytes = switch(applied, intake, &head);
    maintenance.begin_of_installed(applied, head.replay_position, file_bytes);
    Ok(Installed {
        index: info.index,
        term: info.term,
        revision: info.revision,
        hard_state: *log_view.accounting.hard_state.lock(),
    })
}

/// The step from the old state to the new one.
fn replace_checkpoint(
    parts: &Parts,
    maintenance: &mut Maintenance,
    mut intake: Intake,
    number: u64,
) -> Result<Intake, Error> {
    let Err(error) = intake.checkpoint.replace(number) else {
        return Ok(intake);
    };
    // Either state may last: both are left as they are.
    intake.keep_files();
    maintenance.end(&parts.records.lifecycle);
    if let Err(error) = parts.close() {
        tracing::warn!(%error, "closing after a failed installation");
    }
    Err(Error::InstallUncertain {
        directory: parts.directory.path.clone(),
        reason: error.to_string(),
    })
}

/// Publishes the new state; returns the bytes of its checkpoint.
fn switch(applied: &mut Applied, mut intake: Intake, head: &Head) -> u64 {
    let parts = Arc::clone(&applied.parts);
    let log_view = &parts.records.log_view;
    let (loads, live) = (
        std::mem::take(&mut intake.trees),
        std::mem::take(&mut intake.live),
    );
    let keys = intake.keys;
    let file_bytes = intake.keep_files();
    parts.records.index.begin_generation();
    log_view.raise_floor(head.log_floor);
    log_view.accounting.replace_state(live, head.hard_state);
    let index = &mut applied.index;
    index.install(loads, head, keys);
    log_view.accounting.creations.lock().start(head.revision);
    index.publish(&parts.records);
    parts.records.index.end_change_of_generation();
    // A snapshot has no versions that its compaction would drop.
    applied.sweep = None;
    applied.swept = head.compacted;
    parts.counters.checkpoints.add(1);
    parts.counters.checkpoint_bytes.add(file_bytes);
    file_bytes
}

impl Intake {
    /// Keeps the files that it wrote; returns the bytes of the checkpoint.
    fn keep_files(self) -> u64 {
        let finished = self.relocation.finish();
        finished.expect("it is complete: nothing is left to do");
        self.checkpoint.file_bytes()
    }
}

/// Writes the frame from which the log continues, and makes it stable; returns where it is.
fn write_base(records: &Records, info: SnapshotInfo) -> Result<Position, Error> {
    let log_view = &records.log_view;
    let mut state = *log_view.accounting.hard_state.lock();
    state.absorb(HardState {
        term: info.term,
        ..HardState::default()
    });
    records.lifecycle.check_open()?;
    let appended = log_view.append_hard_state(state)?;
    log_view.log.wait_durable(appended.sequence)?;
    log_view.log.flush()?;
    Ok(appended.start)
}

/// The moment of the new state, in this member's log.
fn head(accounting: &Accounting, info: SnapshotInfo, base: Position) -> Head {
    let mut hard_state = *accounting.hard_state.lock();
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
        effects_since: info.index,
        effects: 0,
    }
}

/// Removes all checkpoints but the newest, for good; returns its number.
fn keep_newest_checkpoint(directory: &Directory) -> Result<u64, Error> {
    let (disk, path) = (&*directory.disk, &directory.path);
    files::remove_old(disk, path, 1)?;
    disk.sync_directory(path)
        .map_err(Error::disk("sync", path))?;
    files::newest(disk, path)
}
