//! The intake of the import that is under way.
//!
//! The lock is held over a piece's I/O, so closing the engine ends an import after the piece
//! that is being written.

use super::SnapshotInfo;
use super::format::Kind;
use super::intake::Intake;
use crate::Error;
use crate::directory::Directory;
use crate::lifecycle::Lifecycle;
use bytes::Bytes;
use environment::Mutex;
use std::sync::MutexGuard;

/// The next piece to be written.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) info: SnapshotInfo,
    pub(super) kind: Kind,
    pub(super) piece: Bytes,
}

/// Holds the intake of the import that is under way, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Imports(Mutex<Slot>);

#[derive(Debug, Default)]
struct Slot {
    given: u64,
    intake: Option<(u64, Intake)>,
}

impl Slot {
    fn of(&mut self, number: u64) -> Option<&mut Intake> {
        let (given, intake) = self.intake.as_mut()?;
        (*given == number).then_some(intake)
    }
}

impl Imports {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.lock()
    }

    /// Begins an import, unless the engine is closed; returns its number.
    pub(super) fn begin(
        &self,
        lifecycle: &Lifecycle,
        begin: impl FnOnce() -> Result<Intake, Error>,
    ) -> Result<u64, Error> {
        let mut slot = self.lock();
        lifecycle.check_open()?;
        if slot.intake.is_some() {
            return Err(Error::ImportUnderWay);
        }
        let intake = begin()?;
        slot.given += 1;
        slot.intake = Some((slot.given, intake));
        Ok(slot.given)
    }

    /// Writes a piece; true when it was the last. A failure drops the intake.
    pub(super) fn write(
        &self,
        directory: &Directory,
        number: u64,
        next: &Waiting,
    ) -> Result<bool, Error> {
        let mut slot = self.lock();
        let intake = slot.of(number).ok_or_else(|| Error::Closed {
            directory: directory.path.clone(),
        })?;
        let outcome = intake.take(directory, next.info, next.kind, &next.piece);
        if outcome.is_err() {
            slot.intake = None;
        }
        outcome
    }

    pub(super) fn take(&self, number: u64) -> Option<Intake> {
        let mut slot = self.lock();
        slot.of(number)?;
        slot.intake.take().map(|(_, intake)| intake)
    }

    /// Drops the intake: no import touches the directory from now on.
    pub(crate) fn end_all(&self) {
        self.lock().intake = None;
    }
}
