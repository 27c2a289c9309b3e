//! Replaces the crate's `sync` by the checker's atomics and cells.

pub(crate) use crate::checker::cell::UnsafeCell;
pub(crate) use crate::checker::hint::spin_loop;
pub(crate) use crate::checker::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
pub(crate) use crate::checker::thread::yield_now;

macro_rules! const_fn {
    ($(#[$attribute:meta])* $visible:vis fn $($rest:tt)*) => {
        $(#[$attribute])* $visible fn $($rest)*
    };
}
pub(crate) use const_fn;
