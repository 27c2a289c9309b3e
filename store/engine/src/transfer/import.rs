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
//! The lock of the queue is held for a moment only.

use super::SnapshotInfo;
use super::imports::Waiting;
use super::intake::Intake;
use super::order::Order;
use crate::parts::Parts;
use crate::{Error, Worker};
use bytes::Bytes;
use environment::{Mutex, threads};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Runs on the import's thread after each piece, at the end and on failure. It
/// must be quick and must not call back.
pub type ImportNotice = Box<dyn Fn() + Send + Sync>;

/// A snapshot that is being received. One at a time; dropped, it leaves nothing
/// behind.
#[derive(Debug)]
pub struct Import {
    parts: Arc<Parts>,
    /// Number of its intake.
    number: u64,
    order: Order,
    queue: Arc<Queue>,
    /// `None` with [`Worker::Caller`].
    thread: Option<JoinHandle<()>>,
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

/// Pieces between the thread that offers them and the one that writes them.
struct Queue {
    state: Mutex<QueueState>,
    /// Signalled when a piece is queued and when the import stops.
    arrived: Condvar,
    notice: ImportNotice,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<Waiting>,
    progress: ImportProgress,
    failure: Option<Arc<Error>>,
    /// The import's thread must end.
    stop: bool,
}

impl fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Queue")
            .field("progress", &self.lock().progress)
            .finish_non_exhaustive()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    fn wait(&self) -> Option<Waiting> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(next) = state.waiting.pop_front() {
                return Some(next);
            }
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes a piece; false when nothing comes after it.
    fn write(&self, parts: &Parts, number: u64, next: &Waiting) -> bool {
        let imports = &parts.transfers.imports;
        let outcome = imports.write(&parts.directory, number, next);
        let mut state = self.lock();
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
    fn run(&self, parts: &Parts, number: u64) {
        while let Some(next) = self.wait() {
            let goes_on = self.write(parts, number, &next);
            (self.notice)();
            if !goes_on {
                return;
            }
        }
    }
}

impl Import {
    pub(crate) fn begin(parts: &Arc<Parts>, notice: ImportNotice) -> Result<Import, Error> {
        let records = &parts.records;
        let intake = || Intake::begin(&records.log_view.log, &parts.directory, &parts.options);
        let number = parts.transfers.imports.begin(&records.lifecycle, intake)?;
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            arrived: Condvar::new(),
            notice,
        });
        let mut import = Import {
            parts: Arc::clone(parts),
            number,
            order: Order::default(),
            queue,
            thread: None,
        };
        if parts.options.log.worker != Worker::Caller {
            let (parts, queue) = (Arc::clone(parts), Arc::clone(&import.queue));
            let spawned = threads::spawn("engine-import", move || queue.run(&parts, number));
            import.thread = Some(spawned.map_err(Error::disk("start", "engine-import"))?);
        }
        Ok(import)
    }

    /// Takes the next piece. A piece that is damaged, of another snapshot or not
    /// the wanted one is refused and changes nothing: offer the wanted one. Errors in its
    /// contents or of the disk show in [`Import::progress`].
    pub fn offer(&mut self, piece: Bytes) -> Result<(), Error> {
        let kind = self.order.accept(&piece)?;
        let info = self.order.info().expect("a head comes first");
        let next = Waiting { info, kind, piece };
        let mut state = self.queue.lock();
        if state.failure.is_some() {
            return Ok(());
        }
        state.progress.queued_bytes += next.piece.len() as u64;
        if self.thread.is_some() {
            state.waiting.push_back(next);
            self.queue.arrived.notify_one();
        } else {
            drop(state);
            self.queue.write(&self.parts, self.number, &next);
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
        let state = self.queue.lock();
        let ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
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
        let intake = self.parts.transfers.imports.take(self.number);
        intake.ok_or(Error::ImportIncomplete)
    }

    fn end_thread(&mut self) {
        self.queue.lock().stop = true;
        self.queue.arrived.notify_one();
        let thread = self.thread.take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("an import ended in a panic");
        }
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        self.end_thread();
        drop(self.parts.transfers.imports.take(self.number));
    }
}
