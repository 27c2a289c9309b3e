//! Limits that all connections and answers of the process share.

use std::sync::Arc;

use environment::Clock;
use environment::real::memory_bytes;
use tokio::sync::Semaphore;

use crate::answers::AnswerMemory;
use crate::connections::Connections;
use crate::unfinished::Unfinished;
use crate::unsent::Grants;
use crate::windows::WindowPool;

/// The shared limits.
#[derive(Debug)]
pub(crate) struct Resources {
    /// Descriptors of connections.
    pub(crate) connections: Arc<Connections>,
    /// Bytes that HTTP/2 may receive ahead of the request tasks.
    pub(crate) windows: Arc<WindowPool>,
    /// Bytes of partly received requests.
    pub(crate) unfinished: Unfinished,
    /// Bytes of large answers that are made or sent.
    pub(crate) answers: Arc<AnswerMemory>,
    /// Bytes of small answers that their clients do not read.
    pub(crate) small_answers: Arc<Grants>,
    /// Large JSON values that are decoded at the same time.
    pub(crate) decodings: Semaphore,
    /// Snapshots that are sent at the same time.
    pub(crate) snapshots: Arc<Semaphore>,
}

/// Snapshots that are sent at the same time; each has a thread.
pub(crate) const SNAPSHOTS_MAX: usize = 4;
/// Each may take some hundred MB.
const DECODINGS_MAX: usize = 2;

impl Resources {
    /// Limits by the memory of the machine, or of the container of this process.
    pub(crate) fn of_this_process(clock: &Arc<dyn Clock>) -> Resources {
        let memory_bytes = memory_bytes();
        Resources {
            connections: Arc::new(Connections::new(Arc::clone(clock))),
            windows: Arc::new(WindowPool::for_memory(memory_bytes)),
            unfinished: Unfinished::for_memory(memory_bytes),
            answers: Arc::new(AnswerMemory::for_memory(memory_bytes, Arc::clone(clock))),
            small_answers: Arc::new(Grants::for_memory(memory_bytes, Arc::clone(clock))),
            decodings: Semaphore::new(DECODINGS_MAX),
            snapshots: Arc::new(Semaphore::new(SNAPSHOTS_MAX)),
        }
    }
}
