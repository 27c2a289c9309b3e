//! How far the log is done, the threads that wait for it, and whether it has stopped.
//!
//! Written by the committer only. A waiter leaves its thread's handle and
//! parks; after a flush the committer takes out the handles that are served,
//! releases the lock and wakes them one by one: no waiter wakes into a held lock.
//!
//! **Fail-stop.** After the first failed write or flush nothing is known about
//! what the device holds, and the kernel may have marked the lost pages clean.
//! The failure is latched: every later append and wait gets it, no flush is
//! tried again, and only a new opening, which reads the device, can continue.

use environment::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use crate::{Error, Position, Sequence};

type SharedNotice = Arc<dyn Fn(Result<Sequence, Error>) + Send + Sync>;

/// What the committer publishes to all other threads.
#[derive(Default)]
pub(crate) struct CommitProgress {
    /// Sequence of the last frame that is done. Only grows.
    durable: AtomicU64,
    /// End of that frame.
    end: AtomicU64,
    failure: OnceLock<Arc<str>>,
    waiters: Mutex<Vec<Waiter>>,
    notice: Mutex<Option<SharedNotice>>,
    /// Device flushes on the commit path.
    pub flushes: AtomicU64,
    /// Bytes written on the commit path.
    pub bytes_written: AtomicU64,
    /// Group frames written.
    pub groups: AtomicU64,
}

struct Waiter {
    sequence: Sequence,
    thread: Thread,
}

impl fmt::Debug for CommitProgress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CommitProgress")
            .field("durable", &self.durable())
            .field("end", &self.end())
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

impl CommitProgress {
    pub fn durable(&self) -> Sequence {
        Sequence(self.durable.load(Ordering::Acquire))
    }

    /// Everything in the log before this may be read.
    pub fn end(&self) -> Position {
        Position::from_bits(self.end.load(Ordering::Acquire))
    }

    /// The latched failure.
    pub fn failure(&self) -> Option<Error> {
        self.failure.get().map(|reason| Error::Failed {
            reason: Arc::clone(reason),
        })
    }

    pub fn set_notice(&self, notice: SharedNotice) {
        *self.notice.lock() = Some(notice);
    }

    /// Publishes that everything up to `sequence`, which ends at `end`, is done.
    pub fn publish(&self, sequence: Sequence, end: Position) {
        assert!(
            sequence > self.durable() && end >= self.end(),
            "progress {sequence} {end} goes back"
        );
        self.end.store(end.to_bits(), Ordering::Release);
        self.durable.store(sequence.0, Ordering::Release);
        let served = self.take_waiters(|waiter| waiter.sequence <= sequence);
        self.notify(Ok(sequence));
        wake(served);
    }

    /// Publishes that the last frame, of which `bytes` were written again, ends at `end` now.
    pub fn lengthen(&self, end: Position, bytes: u64) {
        assert!(end >= self.end(), "progress {end} goes back");
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        self.end.store(end.to_bits(), Ordering::Release);
    }

    /// Latches the first failure; returns it.
    pub fn fail(&self, error: &Error) -> Error {
        let first = self.failure.set(error.to_string().into()).is_ok();
        let failure = self.failure().expect("it was latched just now or before");
        if first {
            let all = self.take_waiters(|_| true);
            self.notify(Err(failure.clone()));
            wake(all);
        }
        failure
    }

    /// Blocks until `sequence` is done.
    pub fn wait(&self, sequence: Sequence) -> Result<(), Error> {
        if self.durable() >= sequence {
            return Ok(());
        }
        self.enlist(sequence);
        while self.durable() < sequence {
            if let Some(failure) = self.failure() {
                return Err(failure);
            }
            thread::park();
        }
        Ok(())
    }

    /// Leaves this thread's handle, unless it need not wait. The lock orders
    /// this with [`CommitProgress::take_waiters`]: a waiter that enlists after the
    /// committer's turn finds the new state.
    fn enlist(&self, sequence: Sequence) {
        let mut waiters = self.waiters.lock();
        if self.durable() < sequence && self.failure.get().is_none() {
            waiters.push(Waiter {
                sequence,
                thread: thread::current(),
            });
        }
    }

    fn take_waiters(&self, served: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let mut waiters = self.waiters.lock();
        waiters.extract_if(.., |waiter| served(waiter)).collect()
    }

    fn notify(&self, result: Result<Sequence, Error>) {
        let notice = self.notice.lock().clone();
        if let Some(notice) = notice {
            notice(result);
        }
    }
}

fn wake(waiters: Vec<Waiter>) {
    for waiter in waiters {
        waiter.thread.unpark();
    }
}
