//! What all connections and answers of the process share, and may take together.

use std::sync::Arc;

use environment::Clock;
use environment::real::memory_bytes;

use crate::answers::AnswerMemory;
use crate::connections::Connections;
use crate::unfinished::Unfinished;
use crate::unsent::Grants;
use crate::windows::WindowPool;

/// Bounds for all connections together.
#[derive(Debug)]
pub(crate) struct Resources {
    /// Descriptors.
    pub(crate) connections: Arc<Connections>,
    /// Bytes that were received and not read.
    pub(crate) windows: Arc<WindowPool>,
    /// Bytes of requests that have come in part.
    pub(crate) unfinished: Unfinished,
    /// Bytes of large answers that are made or sent.
    pub(crate) answers: Arc<AnswerMemory>,
    /// Bytes of small answers that their clients do not read.
    pub(crate) small_answers: Arc<Grants>,
}

impl Resources {
    /// As the machine, or this process's share of it, allows.
    pub(crate) fn of_this_process(clock: &Arc<dyn Clock>) -> Resources {
        let memory_bytes = memory_bytes();
        Resources {
            connections: Arc::new(Connections::new(Arc::clone(clock))),
            windows: Arc::new(WindowPool::for_memory(memory_bytes)),
            unfinished: Unfinished::for_memory(memory_bytes),
            answers: Arc::new(AnswerMemory::for_memory(memory_bytes, Arc::clone(clock))),
            small_answers: Arc::new(Grants::for_memory(memory_bytes, Arc::clone(clock))),
        }
    }
}
