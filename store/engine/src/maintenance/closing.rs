//! The checkpoint that a store leaves when it is closed, so that the next opening need not replay
//! the log.

use super::{Done, Maintenance, Work};
use crate::Error;
use crate::applied::Applied;
use crate::lifecycle::Lifecycle;
use std::time::Duration;

/// A checkpoint pays once the log has grown by this part of the bytes after which one is due
/// anyway: replaying costs more for each byte than loading a checkpoint.
const SHARE_OF_DUE_BYTES: u64 = 32;
/// Longest time that a checkpoint may delay the end of a process. Whatever stops a service kills
/// it after a while, and then its log has no clean end either.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Writes a checkpoint if the next opening takes much longer without it, or would forget what
/// reclaim has copied. Work that is under way is cancelled.
pub(crate) fn checkpoint_for_opening(
    maintenance: &mut Maintenance,
    applied: &Applied,
    state: &mut dyn FnMut() -> Vec<u8>,
) -> Result<(), Error> {
    let (records, options) = (&applied.parts.records, &applied.parts.options);
    let is_over = records.lifecycle.check_open().is_err()
        || records.lifecycle.is_cancelled()
        || records.log_view.log.status().failed.is_some();
    if is_over || !ends_work(maintenance, &records.lifecycle) {
        return Ok(());
    }
    let few_bytes = options.checkpoint_bytes / SHARE_OF_DUE_BYTES;
    let bytes = applied.log_bytes_since(maintenance.last_done);
    if bytes < few_bytes.max(maintenance.last_bytes / 2) && !maintenance.has_moved {
        return Ok(());
    }
    let mut job = maintenance.begin_checkpoint(applied, state());
    job.ends_at = Some(options.clock.now() + TIME_MAX);
    let bytes = job.run()?;
    maintenance.note_checkpoint(bytes);
    Ok(())
}

/// Cancels what is under way; false after a panic in it. Moves that were not swapped are
/// dropped: the places before them hold the same versions.
fn ends_work(maintenance: &mut Maintenance, lifecycle: &Lifecycle) -> bool {
    let Work::Running(task) = std::mem::replace(&mut maintenance.work, Work::Idle) else {
        return true;
    };
    match lifecycle.cancel_during(|| task.outcome()) {
        Some(Ok(Done::Checkpoint(bytes))) => maintenance.note_checkpoint(bytes),
        Some(Ok(_)) => {}
        Some(Err(error)) => tracing::debug!(%error, "upkeep was cancelled"),
        None => return false,
    }
    true
}
