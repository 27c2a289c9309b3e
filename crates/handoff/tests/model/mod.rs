//! Stand-ins for the parts of the crate that look at the world outside.

pub mod process {
    pub fn generation() -> u32 {
        0
    }
}

pub mod counts {
    pub fn parks() {}
    pub fn wakes(_word: u32) {}
    pub fn moves() {}
}

pub mod hints {
    use crate::lock::Lock;
    use crate::sync::AtomicU32;

    pub fn entered(_holder: &AtomicU32) {}
    pub fn left(_holder: &AtomicU32) {}
    pub fn waits(_lock: &Lock) {}
    pub fn waits_no_more() {}
    pub fn holder_is_preempted(_holder: &AtomicU32) -> bool {
        false
    }
}

pub mod clock {
    use std::cell::Cell;

    thread_local! {
        /// Models of one test run on one thread of the system, one after the other.
        static ALWAYS_DUE: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether every oldest waiter is due, or none ever.
    pub fn set_always_due(always: bool) {
        ALWAYS_DUE.set(always);
    }

    pub fn micros() -> u32 {
        0
    }

    pub fn has_come(_moment: u32, _now: u32) -> bool {
        ALWAYS_DUE.get()
    }
}
