//! The small lock around a list of waiters. Its word:
//!
//! ```text
//!   0                                free
//!   (generation + 1) << 1            held, no thread waits
//!   (generation + 1) << 1 | 1        held, a thread may sleep on the word
//! ```
//!
//! The guard is held for the few instructions that link or unlink a waiter. Threads that wait
//! for it sleep rather than yield: a spinner of a real-time class would keep a preempted holder
//! from its core for ever. A word of another generation was written before a fork by a thread
//! that this process does not have; the next thread takes the guard over.

use crate::futex;
use crate::process;
use crate::sync::{AtomicU32, Ordering, const_fn, spin_loop};

const FREE: u32 = 0;
const CONTENDED: u32 = 1;
const LOOKS: u32 = 40;

#[repr(C)]
pub(crate) struct Guard {
    word: AtomicU32,
    /// Generation of the process that wrote the list; written inside the guard only.
    generation: AtomicU32,
}

/// The process that has written the list.
#[derive(PartialEq, Eq)]
pub(crate) enum Found {
    /// This process.
    Ours,
    /// A process that this one was forked from: the list has to be emptied.
    AnotherProcess,
}

impl Guard {
    const_fn! {
        pub(crate) fn new() -> Guard {
            Guard {
                word: AtomicU32::new(FREE),
                generation: AtomicU32::new(0),
            }
        }
    }

    /// Whether another process has written the list. Without the guard this is a guess, which
    /// is right if the process has only one thread.
    pub(crate) fn is_foreign(&self) -> bool {
        self.generation.load(Ordering::Relaxed) != process::generation()
    }

    /// Enters the guard.
    pub(crate) fn enter(&self) -> Found {
        let generation = process::generation();
        let held = (generation + 1) << 1;
        let quick = self
            .word
            .compare_exchange(FREE, held, Ordering::Acquire, Ordering::Relaxed);
        if quick.is_err() {
            self.enter_slowly(held);
        }
        if self.generation.load(Ordering::Relaxed) == generation {
            return Found::Ours;
        }
        self.generation.store(generation, Ordering::Relaxed);
        Found::AnotherProcess
    }

    #[cold]
    fn enter_slowly(&self, held: u32) {
        let mut looks = LOOKS;
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let wanted = match word {
                // Other threads may sleep on the word, which a thread that slept cannot see.
                FREE => held | CONTENDED,
                of_parent if of_parent & !CONTENDED != held => held,
                _ if looks > 0 => {
                    looks -= 1;
                    spin_loop();
                    continue;
                }
                _ => {
                    self.sleep(word);
                    continue;
                }
            };
            let taken =
                self.word
                    .compare_exchange_weak(word, wanted, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return;
            }
        }
    }

    fn sleep(&self, word: u32) {
        let contended = word | CONTENDED;
        let marked = word == contended
            || self
                .word
                .compare_exchange(word, contended, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if marked {
            futex::wait(&self.word, contended, None);
        }
    }

    /// Leaves the guard. The swap is the last access: the memory may be gone when it returns.
    pub(crate) fn leave(&self) {
        let word = &raw const self.word;
        let before = self.word.swap(FREE, Ordering::Release);
        debug_assert!(
            before != FREE,
            "a guard that no thread had entered was left"
        );
        if before & CONTENDED != 0 {
            futex::wake_one(word);
        }
    }
}
