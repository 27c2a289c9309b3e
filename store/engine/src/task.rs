//! Slow work beside the applying thread: on a thread of its own, or done at
//! once where a simulation wants everything on one thread.

use crate::{Error, Worker};
use environment::threads;
use std::io;
use std::thread::JoinHandle;

/// Work that was started.
#[derive(Debug)]
pub struct Task<T>(TaskState<T>);

#[derive(Debug)]
enum TaskState<T> {
    Thread(JoinHandle<Result<T, Error>>),
    Done(Result<T, Error>),
}

impl<T: Send + 'static> Task<T> {
    /// Starts a thread for the work, or does it before this returns, as `worker` says.
    pub fn start(
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
            Worker::Threads | Worker::CallerWithPool => threads::spawn(name, body)
                .map(|thread| Task(TaskState::Thread(thread)))
                .map_err(failed),
            Worker::Caller => Ok(Task(TaskState::Done(body()))),
        }
    }

    /// Whether [`Task::finish`] would not wait.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            TaskState::Thread(thread) => thread.is_finished(),
            TaskState::Done(_) => true,
        }
    }

    /// Waits for the outcome. A panic of the work is resumed on this thread.
    pub fn finish(self) -> Result<T, Error> {
        match self.0 {
            TaskState::Thread(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            TaskState::Done(outcome) => outcome,
        }
    }

    /// Waits for the outcome; `None` after a panic.
    pub fn outcome(self) -> Option<Result<T, Error>> {
        match self.0 {
            TaskState::Thread(thread) => thread.join().ok(),
            TaskState::Done(outcome) => Some(outcome),
        }
    }

    /// Waits for the end and ignores the outcome; true after a panic.
    pub fn has_panicked(self) -> bool {
        self.outcome().is_none()
    }
}
