//! Slow work beside the applying thread: on a thread of its own, or done at
//! once where a simulation wants everything on one thread.

use crate::{Error, Worker};
use environment::threads;
use std::io;
use std::thread::JoinHandle;

/// Work that was started.
#[derive(Debug)]
pub(crate) enum Task<T> {
    Thread(JoinHandle<Result<T, Error>>),
    Done(Result<T, Error>),
}

impl<T: Send + 'static> Task<T> {
    pub(crate) fn start(
        worker: Worker,
        name: &str,
        body: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<Task<T>, Error> {
        let failed = |source: io::Error| Error::Disk {
            file: name.into(),
            doing: "start the thread",
            source,
        };
        match worker {
            Worker::Threads => threads::spawn(name, body).map(Task::Thread).map_err(failed),
            Worker::Caller => Ok(Task::Done(body())),
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Task::Thread(thread) => thread.is_finished(),
            Task::Done(_) => true,
        }
    }

    /// Waits for the outcome. A panic goes on here.
    pub(crate) fn finish(self) -> Result<T, Error> {
        match self {
            Task::Thread(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Task::Done(outcome) => outcome,
        }
    }

    /// Waits for the end, whatever it is.
    pub(crate) fn has_panicked(self) -> bool {
        match self {
            Task::Thread(thread) => thread.join().is_err(),
            Task::Done(_) => false,
        }
    }
}
