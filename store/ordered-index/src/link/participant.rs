//! The writer's registration with the collector of unreachable memory.

use crossbeam_epoch::{self as epoch, Guard, LocalHandle};
use std::marker::PhantomData;
use std::ops::Deref;

/// The writer's registration with the collector, on whichever thread the writer is. So the
/// collector need not look at threads that only write, and retired nodes wait in one place.
#[derive(Debug)]
pub(super) struct Participant(LocalHandle);

/// The writer's guard, which is dropped before the writer can move to another thread.
pub(super) struct WriterGuard<'a> {
    guard: Guard,
    holds: PhantomData<&'a mut Participant>,
}

// SAFETY: only this struct has the handle. While the handle lives, other threads read only
// atomics of what it points to; the rest is accessed by `pin`, by its guards and by the drop of
// the handle, each of which has exclusive access. Afterwards the collector owns it, on whichever
// thread; and a deferred function may run on any thread, as `Link` may be freed on any. This is
// read from the code of 0.9.21, not promised by its documentation: `Cargo.toml` pins that version.
unsafe impl Send for Participant {}
// SAFETY: nothing is reached through a shared reference.
unsafe impl Sync for Participant {}

impl Participant {
    /// Registers with the collector that readers pin (`epoch::pin`); with another one rule 4
    /// would not hold.
    pub(super) fn new() -> Participant {
        Participant(epoch::default_collector().register())
    }

    pub(super) fn collect(&mut self) {
        self.pin().flush();
    }

    pub(super) fn pin(&mut self) -> WriterGuard<'_> {
        WriterGuard {
            guard: self.0.pin(),
            holds: PhantomData,
        }
    }
}

impl Deref for WriterGuard<'_> {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
