//! The receiver's side: pieces come in, a thread writes them.
//!
//! ```text
//!   replica thread              import's thread
//!     offer ──► order ──queue──► intake ──► segments, unnamed checkpoint
//!     progress ◄──── written, complete, failed
//! ```
//!
//! The engine owns the intake. Closing the engine takes the intake away, after the
//! piece that is being written, so that no import touches the directory when another
//! opening may have it.
//!
//! The lock of the state is held for a moment only.

use super::SnapshotInfo;
use super::format::Kind;
use super::intake::Intake;
use super::order::Order;
use crate::parts::Parts;
use crate::{Error, Worker};
use bytes::Bytes;
use environment::{Mutex, threads};
use std::fmt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// Runs on the import's thread after each piece, at the end and on failure. It
/// must be quick and must not call back.
pub type ImportNotice = Box<dyn Fn() + Send + Sync>;

/// A snapshot that is being received. One at a time; dropped, it leaves nothing
/// behind.
#[derive(Debug)]
pub struct Import {
    order: Order,
    shared: Arc<Shared>,
    /// Takes pieces until the sender is dropped; `None` with [`Worker::Caller`].
    thread: Option<(Sender<WaitingPiece>, JoinHandle<()>)>,
}

/// How far an import has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportProgress {
    /// Pieces written.
    pub written: u64,
    /// Bytes of pieces that wait to be written.
    pub queued_bytes: u64,
    /// All is written and on stable storage: it can be installed.
    pub complete: bool,
}

/// A piece that is to be written.
#[derive(Debug)]
struct WaitingPiece {
    info: SnapshotInfo,
    kind: Kind,
    piece: Bytes,
}

/// State that the import, its thread and the closing of the engine share.
struct Shared {
    parts: Arc<Parts>,
    /// `None` once it is installed, has failed or must end. Locked while a piece is written.
    intake: Mutex<Option<Intake>>,
    state: Mutex<State>,
    notice: ImportNotice,
}

#[derive(Debug, Default)]
struct State {
    progress: ImportProgress,
    failure: Option<Arc<Error>>,
}

/// The import that is under way, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Imports(Mutex<Weak<Shared>>);

impl Imports {
    /// Ends the import, after the piece that is being written.
    pub(crate) fn end_all(&self) {
        if let Some(shared) = self.0.lock().upgrade() {
            *shared.intake.lock() = None;
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Writes a piece; true when it was the last. A failure drops the intake.
    fn take(&self, next: &WaitingPiece) -> Result<bool, Error> {
        let mut place = self.intake.lock();
        let closed = || self.parts.records.lifecycle.closed_error();
        let intake = place.as_mut().ok_or_else(closed)?;
        let outcome = intake.take(next.info, next.kind, &next.piece);
        if outcome.is_err() {
            *place = None;
        }
        outcome
    }

    /// Writes a piece; false when nothing comes after it.
    fn write(&self, next: &WaitingPiece) -> bool {
        let outcome = self.take(next);
        let mut state = self.state.lock();
        state.progress.queued_bytes -= next.piece.len() as u64;
        match outcome {
            Ok(complete) => {
                state.progress.written += 1;
                state.progress.complete = complete;
                !complete
            }
            Err(error) => {
                state.failure = Some(Arc::new(error));
                false
            }
        }
    }

    /// Body of the import's thread.
    fn run(&self, pieces: &Receiver<WaitingPiece>) {
        for next in pieces {
            let goes_on = self.write(&next);
            (self.notice)();
            if !goes_on {
                return;
            }
        }
    }
}

impl Import {
    /// Begins an import, unless the engine is closed.
    pub(crate) fn begin(parts: &Arc<Parts>, notice: ImportNotice) -> Result<Import, Error> {
        let mut under_way = parts.transfers.imports.0.lock();
        parts.records.lifecycle.check_open()?;
        let other = under_way.upgrade();
        if other.is_some_and(|other| other.intake.lock().is_some()) {
            return Err(Error::ImportUnderWay);
        }
        let intake = Intake::begin(
            &parts.records.log_view.log,
            &parts.directory,
            &parts.options,
        )?;
        let shared = Arc::new(Shared {
            parts: Arc::clone(parts),
            intake: Mutex::new(Some(intake)),
            state: Mutex::default(),
            notice,
        });
        *under_way = Arc::downgrade(&shared);
        drop(under_way);
        let mut import = Import {
            order: Order::default(),
            shared,
            thread: None,
        };
        if parts.options.log.worker != Worker::Caller {
            let (sender, pieces) = mpsc::channel();
            let shared = Arc::clone(&import.shared);
            let spawned = threads::spawn("engine-import", move || shared.run(&pieces));
            let thread = spawned.map_err(Error::disk("start", "engine-import"))?;
            import.thread = Some((sender, thread));
        }
        Ok(import)
    }

    /// Takes the next piece. A piece that is damaged, of another snapshot or not
    /// the wanted one is refused and changes nothing: offer the wanted one. Errors in its
    /// contents or of the disk show in [`Import::progress`].
    pub fn offer(&mut self, piece: Bytes) -> Result<(), Error> {
        let kind = self.order.accept(&piece)?;
        let info = self.order.info().expect("a head comes first");
        let next = WaitingPiece { info, kind, piece };
        let mut state = self.shared.state.lock();
        if state.failure.is_some() {
            return Ok(());
        }
        state.progress.queued_bytes += next.piece.len() as u64;
        drop(state);
        match &self.thread {
            // The progress shows why a thread has ended.
            Some((pieces, _)) => drop(pieces.send(next)),
            None => _ = self.shared.write(&next),
        }
        Ok(())
    }

    /// Number of the piece to be offered next.
    pub fn wanted(&self) -> u64 {
        self.order.wanted()
    }

    /// The moment that it is a snapshot of, once the first piece was offered.
    pub fn info(&self) -> Option<SnapshotInfo> {
        self.order.info()
    }

    /// Its progress; an error when it has failed and can only be dropped. The
    /// member's state is unchanged then.
    pub fn progress(&self) -> Result<ImportProgress, Arc<Error>> {
        let state = self.shared.state.lock();
        let thread = self.thread.as_ref();
        let ended = thread.is_some_and(|(_, thread)| thread.is_finished());
        match &state.failure {
            Some(failure) => Err(Arc::clone(failure)),
            // Its thread has panicked.
            None if ended && !state.progress.complete => Err(Arc::new(Error::ImportIncomplete)),
            None => Ok(state.progress),
        }
    }

    /// What was received, when it is complete.
    pub(super) fn into_intake(mut self) -> Result<Intake, Error> {
        if !self.progress().is_ok_and(|progress| progress.complete) {
            return Err(Error::ImportIncomplete);
        }
        self.end_thread();
        let intake = self.shared.intake.lock().take();
        intake.ok_or(Error::ImportIncomplete)
    }

    fn end_thread(&mut self) {
        let Some((pieces, thread)) = self.thread.take() else {
            return;
        };
        drop(pieces);
        if thread.join().is_err() {
            tracing::warn!("an import ended in a panic");
        }
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // Pieces that wait are not written without an intake.
        drop(self.shared.intake.lock().take());
        self.end_thread();
    }
}
