//! A commit queue, and a log that only its leader may touch.

use std::sync::Arc;

use crate::checker;
use crate::commit_queue::CommitQueue;
use crate::sync::UnsafeCell;

pub struct Committed {
    queue: CommitQueue<u32, u32>,
    log: UnsafeCell<Vec<u32>>,
}

// SAFETY: only the leader accesses the log, which is what the models check.
unsafe impl Sync for Committed {}
// SAFETY: as above.
unsafe impl Send for Committed {}

impl Committed {
    pub fn new() -> Arc<Committed> {
        Arc::new(Committed {
            queue: CommitQueue::new(),
            log: UnsafeCell::new(Vec::new()),
        })
    }

    pub fn commit(&self, operation: u32) {
        let answer = self.queue.commit(operation, |group| {
            for member in group {
                let operation = member.take_operation();
                self.append(operation);
                member.answer(operation + 100);
            }
        });
        assert_eq!(answer, Ok(operation + 100));
    }

    fn append(&self, operation: u32) {
        // SAFETY: there is one leader at a time.
        let length = self.log.with(|log| unsafe { (*log).len() });
        // A second leader would change the length here.
        checker::pause();
        self.log.with_mut(|log| {
            // SAFETY: as above.
            let log = unsafe { &mut *log };
            assert_eq!(log.len(), length, "two leaders");
            log.push(operation);
        });
    }

    /// Asserts, after all threads have ended, that each of 0 to `count` was committed once.
    pub fn assert_complete(&self, count: u32) {
        // SAFETY: all other threads have ended.
        let mut log = self.log.with(|log| unsafe { (*log).clone() });
        log.sort_unstable();
        assert!(log.into_iter().eq(0..count));
    }
}
