//! The crate's own sources, compiled against the atomics of a model checker.
//!
//! A test that includes this has a module `checker`: the checker's cells, atomics and threads,
//! and decisions that come from outside the sources, such as whether a deadline has passed.

pub mod committed;
pub mod futex;
pub mod patience;
pub mod spinning;
pub mod sync;

pub mod process {
    pub fn generation() -> u32 {
        0
    }
}

pub mod cores {
    pub fn number() -> u32 {
        crate::checker::CORES
    }

    pub fn here() -> u32 {
        crate::checker::core_here()
    }
}

pub mod counts {
    pub fn parks() {}
    pub fn wakes() {}
    pub fn turns() {}
    pub fn hand_offs() {}
    pub fn moves() {}
}

pub mod hints {
    use crate::sync::AtomicU32;

    pub fn entered(_holder: &AtomicU32) {}
    pub fn left(_holder: &AtomicU32) {}
    pub fn waits(_lock: *const ()) {}
    pub fn waits_no_more() {}
    pub fn holder_is_preempted(_holder: &AtomicU32) -> bool {
        false
    }
}

pub mod clock {
    pub fn micros() -> u32 {
        0
    }

    pub fn has_come(_moment: u32, _now: u32) -> bool {
        crate::checker::a_turn_has_come()
    }
}

pub mod slices {
    pub fn entered() {}
    pub fn left() {}
    pub fn begin(_lock: *const ()) {}
    pub fn uses_condition(_lock: *const ()) {}
    pub fn may_step_back(_lock: *const ()) -> bool {
        false
    }
    pub fn is_over(_lock: *const ()) -> bool {
        crate::checker::a_slice_is_over()
    }
}
